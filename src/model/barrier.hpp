// Barriers of a block: mbarriers in shared memory and the 16 named ones.
//
// Decides when a phase completes and who continues. The state is kept beside shared memory, not in it.
// Invariant: an mbarrier's phase completes exactly when no arrival and no byte is outstanding.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/monitor.hpp"
#include "model/scheduler.hpp"
#include "model/shared.hpp"

namespace tj::model {

struct Mbarrier {
  std::uint32_t arrivals = 0;  ///< arrivals that complete each phase
  std::uint32_t pending = 0;   ///< arrivals that this phase still lacks
  std::int64_t bytes = 0;      ///< bytes announced and not yet copied; negative while copies are ahead of their
                               ///< announcement
  std::uint64_t phase = 0;
  std::vector<Thread*> waiting;
  unsigned copies = 0;         ///< copies under way that report to it
  std::uint64_t observed = 0;  ///< phases up to the last that somebody has waited for
  std::uint64_t brought = 0;   ///< phases up to the last that bulk copies have reported to
  std::uint64_t sent = 0;      ///< phases up to the last that another block's matrix unit has arrived in
  std::vector<std::pair<unsigned, Order::Time>>
      from_outside;          ///< arrivals of other blocks' threads that nobody has waited for: thread and time
  bool announced = false;    ///< initialised for the copy engine and other blocks too
  bool published = false;    ///< a cluster_sync has followed the initialisation
  unsigned initialiser = 0;  ///< the thread that initialised it, and when
  Order::Time initialised = 0;
  Order::Agent agent = 0;    ///< its phases
  Order::Gathering arrived;  ///< in this phase
  Order::Known completed;    ///< with the last phase

  std::string lacks() const;  ///< "lacks 1 of 4 arrivals and 0 bytes"
};

class Mbarriers {
 public:
  Mbarriers(Scheduler& scheduler, SharedMemory& shared, Monitor& monitor)
      : scheduler_(scheduler), shared_(shared), monitor_(monitor) {}
  void reset() { barriers_.clear(); }

  /// All throw tj::Error(model_fault) for misuse.
  void init(Thread& thread, std::uint32_t address, std::uint32_t arrivals);
  void init_done(const Thread& thread);
  void cluster_met();  ///< all its threads have: they see every initialisation that was announced
  /// from_outside: by a thread of another block, whose writes it does not order.
  void arrive(Thread& thread, std::uint32_t address, bool from_outside = false);
  /// An arrival that stands for what the thread had done asynchronously, up to that time of that agent. It says nothing
  /// of other accesses. The thread may be another block's.
  void arrive_after(Thread& thread, std::uint32_t address, Order::Agent agent, Order::Time time, const char* what,
                    const Order::Known& before = nullptr);
  void expect(Thread& thread, std::uint32_t address, std::uint32_t bytes);
  /// exact: `phase` is the number of the wanted phase, counted from 0, and of its predecessor where all bits are set;
  /// else its parity.
  void wait(Thread& thread, int site, std::uint32_t address, std::uint32_t phase, bool exact);
  /// Would a wait for this phase, by its number, be over at once? If so, the thread has seen what a waiter sees.
  bool done(Thread& thread, std::uint32_t address, std::uint32_t phase);
  /// A copy that `thread` issues will report to this barrier.
  void check(const Thread& thread, std::uint32_t address) const;
  void begin_copy(const Thread& thread, std::uint32_t address);
  /// Threads that are to arrive there, other than this block's, must see that it was initialised.
  void check_announced(const Thread& thread, std::uint32_t address, const char* what, const char* unit) const;
  /// Counts bytes that are there. Returns the agent and the time of the phase that they belong to.
  std::pair<Order::Agent, Order::Time> complete_bytes(std::uint32_t address, std::uint32_t bytes);
  /// At the end of the block: nothing half done; no bulk copy, and no arrival of another block, that nobody knows of.
  void check_left() const;

  /// Null when there is none.
  const Mbarrier* find(std::uint32_t address) const;

 private:
  Mbarrier& at(const Thread& thread, std::uint32_t address, const char* what);
  std::string name(std::uint32_t address) const;
  bool known_here(unsigned actor, Order::Time time) const;  ///< by a thread of the block
  void count_arrival(Thread& thread, std::uint32_t address, Mbarrier& barrier);
  void advance_if_done(std::uint32_t address, Mbarrier& barrier);
  void observe(Thread& thread, Mbarrier& barrier);
  bool passed(const Thread& thread, std::uint32_t address, const Mbarrier& barrier, std::uint32_t phase) const;

  Scheduler& scheduler_;
  SharedMemory& shared_;
  Monitor& monitor_;
  std::map<std::uint32_t, Mbarrier> barriers_;
};

struct NamedBarrier {
  std::uint32_t threads = 0;  ///< arrivals that complete it; 0 while nobody has come
  std::uint32_t arrived = 0;
  std::uint64_t generation = 0;
  std::vector<Thread*> waiting;
  std::vector<bool> came;  ///< one for each thread of the block
  Order::Gathering gathering;
};

class NamedBarriers {
 public:
  static constexpr std::uint32_t kCount = 16;  ///< 0 is the barrier of the whole block
  NamedBarriers(Scheduler& scheduler, Order& order) : scheduler_(scheduler), order_(order) {}
  void reset() { barriers_ = {}; }

  void sync_block(Thread& thread, int site);
  /// wait: sync, else arrive only. Throws tj::Error(model_fault) for a bad id or count.
  void meet(Thread& thread, int site, std::uint32_t id, std::uint32_t threads, bool wait);
  const NamedBarrier& at(std::uint32_t id) const { return barriers_[id]; }
  /// At the end of the block: nobody has come to a barrier for nothing.
  void check_left() const;

 private:
  void arrive(Thread& thread, std::uint32_t id, std::uint32_t threads, const Wait* wait);
  void check_warps(const Thread& thread, std::uint32_t id, const NamedBarrier& barrier) const;
  void release(Thread& last, NamedBarrier& barrier, bool last_waits);

  Scheduler& scheduler_;
  Order& order_;
  std::array<NamedBarrier, kCount> barriers_{};
};

}  // namespace tj::model
