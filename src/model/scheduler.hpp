// Order of execution: warps and asynchronous completions take turns in an order drawn from a seed.
//
// Decides the interleaving only; it does not know why a thread waits. Not thread safe: one OS thread runs a block.
// Invariant: equal seeds and equal kernels give equal runs. The lanes of the chosen warp run in order, each until it
// waits, so that a rendezvous of a warp costs one switch a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "model/thread.hpp"

namespace tj::model {

/// The next number of a sequence that `state` stands in (SplitMix64).
std::uint64_t split_mix(std::uint64_t& state) noexcept;

/// A unit that finishes work later than it accepts it.
class AsyncUnit {
 public:
  virtual ~AsyncUnit() = default;
  /// How many pieces of work could finish now.
  virtual std::size_t ready() const = 0;
  /// Finishes one of them.
  virtual void complete(std::size_t which) = 0;
};

class Scheduler {
 public:
  Scheduler(StackPool& pool, unsigned threads, unsigned warp_threads = kWarpThreads);

  Thread& thread(unsigned index) { return *threads_[index]; }
  const Thread& thread(unsigned index) const { return *threads_[index]; }
  unsigned size() const noexcept { return static_cast<unsigned>(threads_.size()); }
  unsigned warp_threads() const noexcept { return warp_threads_; }
  std::uint64_t step() const noexcept { return step_; }

  /// Every thread at its beginning.
  void start(std::uint64_t seed, Fiber::Entry entry);
  unsigned alive() const noexcept { return alive_; }  ///< threads that have not ended
  /// One turn of a warp or one completion; false when no thread can run and nothing is under way. Rethrows what a
  /// thread raised. `ended` is called for each thread that ends.
  bool step(const std::vector<AsyncUnit*>& units, const std::function<void(Thread&)>& ended);

  /// Parks a thread, from inside it, until somebody wakes it.
  void park(Thread& thread, Wait wait);
  void wake(Thread& thread);
  /// Abandons a thread, from inside it: it never runs again, and run() rethrows.
  [[noreturn]] void abandon(Thread& thread, std::exception_ptr error);
  /// Ends a thread, from inside it: its last act.
  [[noreturn]] void end(Thread& thread);

 private:
  std::uint64_t random() { return split_mix(state_); }
  bool complete_one(const std::vector<AsyncUnit*>& units, bool stalled);
  void run_warp(unsigned warp, const std::function<void(Thread&)>& ended);

  const unsigned warp_threads_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::uint64_t> runnable_lanes_;  // lanes of each warp
  std::uint32_t runnable_warps_ = 0;
  std::uint32_t starved_ =
      0;  // warps that hardly run while others can: one in a launch of four, a warpgroup in another of four
  unsigned alive_ = 0;
  std::uint64_t state_ = 0, step_ = 0;
  enum class Manner { random, oldest, newest };
  std::size_t choose(std::size_t ready, Manner manner);
  std::vector<std::uint64_t> patience_;  // one for each unit: how many steps its completions lag behind, on average
  std::vector<Manner> manner_;           // and which of its works ends first
  std::exception_ptr error_;
};

/// The thread that runs on this OS thread now; null outside of run().
Thread* current_thread() noexcept;

}  // namespace tj::model
