// Stacks and switches: one fiber for each thread of a kernel.
//
// Decides where a fiber's stack lies and how control goes to it and back. Does not decide who runs. Invariant: the OS
// thread that started a fiber resumes it. An abandoned fiber never runs again, and its stack's contents are not
// destroyed (a unit's frames hold plain data only).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "support/fork_safe.hpp"

namespace tj::model {

/// Memory with an inaccessible page below it, so that an overflow ends in a fault instead of in a neighbour.
struct Stack {
  std::byte* bottom = nullptr;  ///< first usable byte
  std::size_t bytes = 0;
  void* sanitizer = nullptr;  ///< the thread sanitizer's idea of the fiber
};

/// Keeps stacks for the next block. Thread safe.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Throws std::bad_alloc.
  Stack take();
  void give_back(Stack stack) noexcept;

 private:
  support::Mutex mutex_;
  std::vector<Stack> free_;
};

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  explicit Fiber(StackPool& pool) : pool_(pool), stack_(pool.take()) {}
  ~Fiber() { pool_.give_back(stack_); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Does not run it yet. `entry` must end with finish().
  void prepare(Entry entry, void* argument);
  /// Runs the fiber, from the scheduler, until it suspends or finishes.
  void resume();
  /// Goes back to the scheduler, from inside; returns at the next resume().
  void suspend() { leave(false); }
  /// Goes back to the scheduler, from inside, for the last time.
  [[noreturn]] void finish();

 private:
  friend struct FiberStart;
  void leave(bool for_ever);

  StackPool& pool_;
  Stack stack_;
  void* context_ = nullptr;  // context of the side that does not run
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  // Facts that the sanitizers must be told at each switch.
  [[maybe_unused]] void* own_fake_stack_ = nullptr;
  [[maybe_unused]] const void* scheduler_bottom_ = nullptr;
  [[maybe_unused]] std::size_t scheduler_bytes_ = 0;
  [[maybe_unused]] void* scheduler_fiber_ = nullptr;
};

}  // namespace tj::model
