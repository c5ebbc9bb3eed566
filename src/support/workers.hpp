// Threads of the library's own, for long work that no caller waits for.
//
// Decides when a thread begins and ends, and what becomes of the work when the process forks or ends. Does not decide
// what is worked at. Invariants: a queue's tasks begin in their order; no thread is there without a task. A queue is
// there until what tasks have made local to its threads is destroyed, which may call the library.
//
// A fork: the child has none of these threads. Its next call of a queue there starts threads of its own, and tasks that
// were under way in the parent begin anew. The process's end: no task begins any more, and the process waits for those
// that have begun (process_end.hpp). It waits for no thread that is in exit() itself, which never comes back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/function_ref.hpp"

namespace tj::support {

class Workers {
 public:
  /// Throws nothing. It may end its thread by pthread_exit(), as a function of the user's may: another takes its place.
  using Task = std::function<void()>;
  class Queue;

  Workers();
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// A queue of which `most` tasks are worked at at once. It may outlive this.
  std::shared_ptr<Queue> queue(int most);
  /// Destroys all tasks that have not begun, and waits for the others but those whose thread is in exit(). No queue
  /// takes any afterwards. No task calls it.
  void stop();
  bool stopped() const;
  /// Why the calling thread, one of some workers, is to wait for nobody else any more: the process is ending, the
  /// workers have been stopped, or its WaitLimit is over. Empty otherwise, and in all other threads. For waits alone:
  /// work goes on.
  static std::string_view why_wait_no_more();

  class WaitLimit;

 private:
  struct State;
  struct Thread;
  struct Kept;
  static void join(const std::vector<std::shared_ptr<Thread>>& threads, std::uint32_t generation) noexcept;
  struct Added {
    Task task, left_out;
    void leave_out() const;
  };
  using Tasks = std::deque<std::shared_ptr<Added>>;
  std::shared_ptr<State> state_;
};

/// While it lives, the calling thread waits for nobody else once `is_over` says so. At most one a thread.
class Workers::WaitLimit {
 public:
  explicit WaitLimit(FunctionRef<bool()> is_over);
  ~WaitLimit();
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;
  /// Has a wait been given up for this reason?
  bool ended_a_wait() const noexcept { return ended_a_wait_; }
  /// Is the calling thread's over? Who asks gives the wait up then. False where it has none.
  static bool of_this_thread_is_over();

 private:
  FunctionRef<bool()> is_over_;
  bool ended_a_wait_ = false;
};

/// Thread safe.
class Workers::Queue : public std::enable_shared_from_this<Workers::Queue> {
 public:
  /// False when the workers have been stopped. Throws tj::Error(load, out_of_memory) where the system gives no thread
  /// and none works at the queue. left_out: called, in any thread, when the task is not begun any more, or not anew in
  /// a child. Nobody destroys the task in a child of a process where it ran. It throws nothing and allocates nothing.
  bool add(Task task, Task left_out = {});
  /// Goes on in a forked child; else it does nothing.
  void go_on();

 private:
  friend class Workers;
  struct Key {};

 public:
  /// For Workers::queue().
  Queue(Key, std::shared_ptr<State> state, int most) : state_(std::move(state)), most_(most) {}

 private:
  static void* work(void* kept);  ///< not noexcept: a thread may end in a task
  bool take(std::shared_ptr<Added>& task);
  std::shared_ptr<Added> drop();
  bool begin_threads(std::string* problem);
  void forget_parents();
  void lose(std::shared_ptr<Added>& task);
  void lose_thread() noexcept;

  // Guarded by the workers' mutex.
  const std::shared_ptr<State> state_;
  const int most_;
  int threads_ = 0;
  std::uint32_t generation_ = 0;
  Tasks waiting_, running_;
};

}  // namespace tj::support
