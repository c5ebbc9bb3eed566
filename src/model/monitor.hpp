// Every access to a block's shared memory, held against what its thread may rely on.
//
// Decides the words for a faulty access: who, where, after what, and which barrier is missing. Decides that a ring's
// own barriers order its slots. Order decides what order there is, Shadow what was done to a byte. Invariant: knows
// accesses and syncs alone, never values; what it finds does not depend on the order of events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/notes.hpp"
#include "model/shadow.hpp"
#include "model/shared.hpp"
#include "model/thread.hpp"

namespace tj::model {

class Mbarriers;
struct Mbarrier;

class Monitor {
 public:
  Monitor(Order& order_of_cluster, const Notes& notes, unsigned block_threads, unsigned warp_threads)
      : order(order_of_cluster),
        notes_(notes),
        block_threads_(block_threads),
        warp_threads_(warp_threads),
        shadow_(order_of_cluster, warp_threads) {}
  /// Begins the block of that rank in its cluster.
  void reset(std::size_t bytes, unsigned rank);
  /// The block's own barriers, and those of the first block of its pair; the block's own where it has no pair.
  void set_barriers(const Mbarriers& own, const Mbarriers& of_first) { barriers_ = &own, first_barriers_ = &of_first; }

  /// Ordinary accesses inside shared memory. Throw tj::Error(model_fault), as all others do.
  void read(const Thread& thread, std::uint32_t address, std::uint32_t bytes);
  void write(const Thread& thread, std::uint32_t address, std::uint32_t bytes);

  /// Something asynchronous that the thread issues; the agent's time may be set later, when it is known.
  Shadow::Id begin(const Thread& thread, Access::By by, bool write, Order::Agent agent, Order::Time time,
                   std::uint8_t swizzle_bytes = 0);
  void read(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes,
            Shadow::Reading* reading = nullptr);
  void write(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes);
  void set_time(Shadow::Id id, Order::Agent agent, Order::Time time);
  const Access& at(Shadow::Id id) const { return shadow_.at(id); }
  /// An access to tensor memory. writes: the thread stores or has products put there; else it takes what is there.
  /// column: from the block's first. usable: the thread's knowledge at its last tensor_after_sync. Filling a slot again
  /// returns the ring and what its empty barrier alone has told.
  struct Told {
    const Notes::Ring* ring = nullptr;
    Order::Known known = nullptr;
  };
  Told check_columns(const Thread& thread, bool writes, std::uint32_t column, const Order::Known& usable) const;
  bool reads(int call, const Notes::Ring& ring) const { return notes_.reads(call, ring); }
  /// Another thread takes part in a read that found these writers.
  [[noreturn]] void unwritten(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) const;
  void join(const Thread& thread, Shadow::Id id, const Shadow::Reading& reading);
  /// The thread begins another node, or the same of another iteration.
  void enter_node(const Thread& thread) { used_[thread.index()] = {}; }
  void set_barrier(std::uint32_t address, std::uint32_t bytes) { shadow_.set_barrier(address, bytes); }

  /// A slot's barrier, full or empty: where it is, of this block or of the first of its pair; null where there is none.
  static std::uint32_t address_of(const Notes::Place& slot, bool full);
  const Mbarrier* barrier_of(const Notes::Place& slot, bool full) const;

  /// "ring k, slot 1", "0x1c00"; where notes say nothing, the address alone.
  std::string place(std::uint32_t address, int call = 0) const;

  /// "kernel x, ", or nothing where notes say nothing.
  std::string kernel() const;
  /// "role mma (warp 4, lane 0), node qk, iteration 2", of a thread counted in the cluster. The lane is left out where
  /// its warp did it together.
  std::string who(unsigned actor, int call, int iteration, bool together = false) const;
  std::string node(int call, const Thread& thread) const { return notes_.node(call, thread.warp()); }
  /// "; arrivals here are of site 12 (role mma, steady: release ring k), ...", or nothing.
  std::string givers(std::uint32_t barrier) const;

  Order& order;

 private:
  Shadow::Id ordinary(const Thread& thread, bool write);
  void check_left(const Thread& thread, const Notes::Place& slot, const Notes::Place& other) const;
  void check_filling(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) const;
  void check_use(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes,
                 Shadow::Reading* reading);
  void check_use_of_pair(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) const;
  const Mbarrier* full_of(const Thread& thread, const Notes::Place& slot) const;
  void check_told(const Thread& thread, Shadow::Id id, const Mbarrier& full, std::uint32_t address,
                  std::uint32_t bytes) const;
  /// Whether the thread works on this block's slots of the ring: it is of this block, or asks for the products of the
  /// pair.
  bool works_here(const Thread& thread, const Notes::Ring& ring) const;
  [[noreturn]] void report(const Thread& thread, Shadow::Id id, const Shadow::Conflict& conflict) const;
  std::string missing(const Thread& thread, const Access& later, const Shadow::Conflict& conflict) const;

  struct Current {  ///< accesses of one thread since its time or its node changed
    Order::Time time = 0;
    int call = 0, iteration = 0;
    Shadow::Id read = 0, write = 0;
  };

  struct Used {  ///< the slot that a thread's node has read last
    std::uint32_t begin = 0, end = 0;
    const Mbarrier* full = nullptr;  ///< null: the node is none of its readers
  };

  const Notes& notes_;
  const unsigned block_threads_, warp_threads_;
  unsigned warp_threads() const { return warp_threads_; }

  const Mbarriers *barriers_ = nullptr, *first_barriers_ = nullptr;
  unsigned rank_ = 0;
  Shadow shadow_;
  std::vector<Current> current_;  ///< one for each thread of the block
  std::vector<Used> used_;        ///< likewise
};

}  // namespace tj::model
