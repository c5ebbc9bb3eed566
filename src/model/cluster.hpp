// The blocks of one cluster of the model, side by side on one OS thread.
//
// Decides which block's turn it is, and what reaches from one block into another: arrivals, copies, the barrier of all.
// Not thread safe. Invariant: run() leaves nothing under way; a cluster of one block runs as if there were no clusters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/block.hpp"

namespace tj::model {

class GlobalMemory;

class Cluster {
 public:
  /// global: of the grid whose clusters run side by side; null where each runs by itself.
  Cluster(const Launch& launch, StackPool& pool, GlobalMemory* global = nullptr);

  /// Runs the blocks from `first_block` on to their end. Throws tj::Error(model, model_fault or deadlock) with the
  /// state of all threads as log.
  void run(unsigned first_block);
  /// The same in parts: the blocks at their beginning; one step of one of them, false when none can move; whether all
  /// have ended. A step throws tj::Error(model_fault) with that log.
  void begin(unsigned first_block);
  bool step();
  bool ended() const;
  GlobalMemory* global() const noexcept { return global_; }
  std::string report() const;  ///< who waits for what

  Order order;  ///< order of the threads of all blocks

  unsigned size() const noexcept { return static_cast<unsigned>(blocks_.size()); }
  const Block& block(unsigned rank) const { return *blocks_[rank]; }
  /// The block that a thread reaches into. Throws tj::Error(model_fault) for a rank that the cluster does not have, and
  /// for a block that has ended. Its shared memory may be another block's by now.
  Block& peer(const Thread& thread, unsigned rank, const char* what);
  /// Copies a box into every block of the mask; each copy ends at a time of its own.
  void copy_to(Thread& thread, std::uint32_t mask, std::uint32_t destination, const void* map, std::uint32_t barrier,
               const int* coordinates, int rank);

  /// Returns once all threads of all blocks that have not ended have come. orders: then each may rely on what all have
  /// done before.
  void sync(Thread& thread, int site, bool orders);
  /// A thread has ended: nobody waits for it any more.
  void thread_ended();
  std::string arrived() const;  ///< "32 of 64 threads have come"

 private:
  std::size_t threads() const noexcept;  ///< threads that have not ended
  void release_all(Thread* last);
  void draw_manner();
  Block* next();
  std::string name() const;

  const Launch& launch_;
  GlobalMemory* const global_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Thread*> waiting_;
  Order::Gathering gathering_;  ///< knowledge of all who have come to a sync that orders
  std::vector<bool> stuck_;     ///< blocks that could do nothing since anyone did something
  Block* current_ = nullptr;
  Block* favourite_ = nullptr;  ///< null: none
  std::uint64_t stretch_ = 1;   ///< steps that a block goes on for, on average
  std::uint64_t state_ = 0;     ///< state of the random numbers that choose among blocks
};

}  // namespace tj::model
