// The end of the process, for work that is under way in other threads.
//
// Decides what goes on when the process ends, and what begins no more. Libraries such as compilers register exit
// handlers that destroy what their calls work with, some of them during their first calls. exit() runs the handlers
// that were registered last first, so ours is registered behind them. Invariant: while one BeforeEnd lives, no handler
// runs that was registered before it was made. Its work has 10 s, and 50 more in which process_end_is_late(). A second
// thread that calls exit() meanwhile stays in it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "support/fork_safe.hpp"
#include "support/function_ref.hpp"

namespace tj::support {

constexpr std::string_view kProcessIsEnding =
    "this process is ending: nothing is compiled any more; make what it needs before main returns";

constexpr std::string_view kNothingIsKept = "this process is ending: nothing is written any more";

/// Whether exit handlers run by now.
bool process_is_ending() noexcept;
/// Whether they have waited long enough: work that can be broken off is.
bool process_end_is_late() noexcept;
/// The last process of this one's forebears that was ending when it forked, by its generation (fork_safe.hpp); 0: none.
/// Of what was made in it or before, exit handlers may have destroyed any part.
std::uint32_t ended_generation() noexcept;

/// For each thread that uses the library: exit() in it waits for each BeforeEnd before it runs any handler, and runs
/// none where another thread is in exit(). It is done once a thread, and takes two nanoseconds then. Throws as
/// require_locks() does.
void may_end_here();

/// Has the process's end wait for each BeforeEnd before it runs the exit handlers that are registered by now. Each call
/// takes a few bytes that stay.
void end_first() noexcept;
/// The same, done once for a name.
void end_first(const char* what);

/// From now on each exit handler that the library with this address registers waits for every BeforeEnd before it runs.
/// False when its calls cannot be led elsewhere (imported_calls.hpp). Done once for a library.
bool end_first_in(const void* inside) noexcept;
/// For a child whose parent was inside such a library: exit() leaves those handlers out from now on.
void leave_out_handlers() noexcept;
/// For a handler that cannot go on: exit() goes on with the next one. Returns where the calling thread is in none, or
/// no handler of end_first() came before. The C library takes a second exit() in a handler as that.
void leave_handler() noexcept;

/// A thread that calls end_first() twice a millisecond: for a call in which a library registers exit handlers that
/// end_first_in() does not reach. A gap is left where a thread calls exit() that has neither loaded nor used this
/// library: it tells nobody before it runs the handlers. Example: NVRTC's constructors register 3000 of them in some 6
/// ms. So no library is opened once process_is_ending(). Nothing where the system gives no thread.
class EndFirstAgain {
 public:
  EndFirstAgain() noexcept;
  ~EndFirstAgain();
  EndFirstAgain(const EndFirstAgain&) = delete;
  EndFirstAgain& operator=(const EndFirstAgain&) = delete;

 private:
  static void* work(void* self) noexcept;
  std::atomic<bool> over_{false};
  Bell bell_;
  pthread_t thread_{};
  bool begun_;
  std::uint32_t generation_;
};

/// Work that the process's end waits for. The calling thread may end the process while it lives.
class BeforeEnd {
 public:
  BeforeEnd() noexcept;
  ~BeforeEnd();
  BeforeEnd(const BeforeEnd&) = delete;
  BeforeEnd& operator=(const BeforeEnd&) = delete;
  /// False when the process is ending already: nothing waits, and the work is not to begin. Work that is part of such
  /// work goes on.
  explicit operator bool() const noexcept { return begun_; }

 private:
  bool begun_;
  std::uint32_t generation_;
};

/// A thread in exit() never comes back to what it was in. While this lives, exit() in the calling thread first calls
/// `gone`, once: others wait for that work no more. The newest one is called first. `gone` throws nothing and calls no
/// function of the user's. Objects of one thread end in reverse order, as locals do.
class IfExitComes {
 public:
  explicit IfExitComes(FunctionRef<void()> gone) noexcept;
  ~IfExitComes();
  IfExitComes(const IfExitComes&) = delete;
  IfExitComes& operator=(const IfExitComes&) = delete;
  /// Calls all of the calling thread's.
  static void call_all() noexcept;
  /// For before a function of the user's is called. exit() destroys what is local to the thread, the newest first, and
  /// such an object may wait for another thread. So `gone` is to come before those that are there by now. It takes a
  /// few bytes until the thread ends, where the thread has any of these.
  static void in_users_function() noexcept;

 private:
  const FunctionRef<void()> gone_;
  IfExitComes* const older_;
};

/// A turn of the calling thread's, in which functions of the user's may be called. exit() there gives it back. A
/// function that asks for it once more, in the same thread, goes on at once. A child that such a function forks has it
/// no more than other threads there.
class HeldTurn {
 public:
  explicit HeldTurn(Turn& turn) noexcept;
  ~HeldTurn();
  HeldTurn(const HeldTurn&) = delete;
  HeldTurn& operator=(const HeldTurn&) = delete;
  /// The thread had the turn before this.
  bool is_again() const noexcept { return again_; }

 private:
  struct GivesBack {
    HeldTurn& held;
    void operator()() const { held.give_back(); }
  };
  bool is_of_this_thread() const noexcept;
  void give_back() noexcept;
  Turn& turn_;
  HeldTurn* const older_;
  const std::uint32_t generation_ = process_generation();
  const bool again_;
  bool taken_ = false;  ///< not before the lock: a handler of a signal may call exit() while the thread waits for it
  const GivesBack gives_back_{*this};
  const IfExitComes if_exit_comes_;
};

}  // namespace tj::support
