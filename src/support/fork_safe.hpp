// Locks that a forked child can rely on, and what a child does first.
//
// Decides how fork() goes with threads at work. A fork waits for threads in short sections (Mutex, NoFork) and leaves
// long work (Turn) as it is. The child may begin anew what a thread of the parent was working at. Does not serve
// children of vfork() and clone(): those start a program. Invariant: in a child no lock is held by a thread that is not
// there, and what a Mutex guards is whole.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace tj::support {

/// While one lives, a fork() by another thread waits. Sections are short: nothing is compiled in them, and nobody else
/// is waited for. Nothing of the caller's, such as a log sink, is called in them, since it may need a lock that the
/// forking thread holds. Opening and closing a library is the exception, whatever that library does then: a fork waits
/// 10 s at most. So do sections for a fork, all of them together: a handler of it may wait for their thread.
class NoFork {
 public:
  NoFork() noexcept { enter(); }
  ~NoFork() { leave(); }
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

 private:
  friend class Mutex;
  static void enter() noexcept;
  static void enter_while_forking() noexcept;
  static void leave() noexcept;
};

/// std::mutex for such sections.
class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() {
    NoFork::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    NoFork::leave();
  }

 private:
  std::mutex mutex_;
};

/// A lock for long work. A fork does not wait for it; in the child it is free, unless the forking thread itself has it.
class Turn {
 public:
  constexpr Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool try_lock() noexcept;
  bool try_lock_for(std::chrono::nanoseconds most) noexcept;
  void lock() noexcept;
  void unlock() noexcept;

 private:
  bool take(std::uint32_t mark) noexcept;
  std::atomic<std::uint32_t> word_{0};  ///< 0: free; else twice the taker's generation, plus 1 when somebody waits
};

/// A count that threads wait for. In a forked child nobody waits, and the count goes on.
class Bell {
 public:
  constexpr Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  std::uint32_t rung() const noexcept { return word_.load(std::memory_order_acquire); }
  void ring() noexcept;
  /// Until it has rung more often than `before`, or the time is over; now and then for less.
  void wait(std::uint32_t before, std::chrono::nanoseconds most) noexcept;

 private:
  std::atomic<std::uint32_t> word_{0};
};

/// Each forked child has a higher one than its parent.
std::uint32_t process_generation() noexcept;

/// Makes each forked child run this first from now on, with no other thread there. It is never taken back: for a few
/// only.
void in_forked_children(void (*action)()) noexcept;

}  // namespace tj::support
