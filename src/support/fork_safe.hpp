// Locks that a forked child can rely on, and what a child does first.
//
// Decides how fork() goes with threads at work. A fork waits for threads in short sections (Mutex, NoFork) and leaves
// long work (Turn) as it is. The child may begin anew what a thread of the parent was working at. Does not serve
// children of vfork() and clone(): those start a program. Invariant: in a child no lock is held by a thread that is not
// there, and what a Mutex guards is whole. A fork that was given up on is the exception: locks_are_lost() in its child.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace tj::support {

namespace detail {
extern std::atomic<bool> locks_lost;
[[noreturn]] void fail_locks_lost();
}  // namespace detail

/// Whether this process, or a forebear, was forked while another thread was in a section all the same: that thread or
/// the fork had waited as long as it does. A lock may never be free here.
inline bool locks_are_lost() noexcept { return detail::locks_lost.load(std::memory_order_relaxed); }
/// Each call of the library begins with this. Throws tj::Error(launch, invalid_argument) in such a process.
inline void require_locks() {
  if (locks_are_lost()) [[unlikely]]
    detail::fail_locks_lost();
}

/// While one lives, a fork() by another thread waits. Sections are short: nothing is compiled in them, and nobody else
/// is waited for. Nothing of the caller's, such as a log sink, is called in them, since it may need a lock that the
/// forking thread holds. Opening and closing a library is the exception, whatever that library does then: a fork waits
/// 10 s at most. So do the sections of a thread for a fork, all of them together: a handler of it may wait for that
/// thread. Other threads wait on.
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
  /// For what a child does first: false where a thread that is not there has it, and may have made half of a change.
  bool is_whole() {
    if (!locks_are_lost()) [[likely]]
      return true;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock();
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

/// Makes each forked child run this first from now on, with no other thread there. It takes no lock, and leaves alone
/// what a Mutex guards that is not is_whole(). It is never taken back: for a few only.
void in_forked_children(void (*action)()) noexcept;

}  // namespace tj::support
