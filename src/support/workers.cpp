// See workers.hpp.
#include "support/workers.hpp"

#include <cxxabi.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/process_end.hpp"
#include "support/signals_blocked.hpp"

namespace tj::support {

/// A thread of the library's own.
struct Workers::Thread {
  enum class Stage { works, ends, in_exit };
  /// The first one stays.
  void come_to(Stage next) noexcept {
    Stage before = Stage::works;
    stage.compare_exchange_strong(before, next);
    bell.ring();
  }
  /// Waits until it does; false where it is in exit() instead.
  bool comes_to_its_end() noexcept {
    for (;;) {
      const std::uint32_t rung = bell.rung();
      if (const Stage now = stage.load(); now != Stage::works) return now == Stage::ends;
      bell.wait(rung, std::chrono::hours(1));
    }
  }
  std::atomic<Stage> stage{Stage::works};
  Bell bell;
  pthread_t id{};  ///< under the mutex, and of stop() afterwards
};

struct Workers::State {
  Mutex mutex;  ///< of what is below, and of the queues
  bool stopped = false;
  std::uint32_t generation = process_generation();
  std::vector<std::shared_ptr<Thread>> threads;  ///< begun, and not joined
  std::vector<std::weak_ptr<Queue>> queues;

  /// Lets go of those that have ended. It waits for none: what is local to a thread may take long to be destroyed, and
  /// may call the library. A child drops its parent's.
  void join_ended() {
    if (generation != process_generation()) threads.clear();
    generation = process_generation();
    std::erase_if(threads, [](const auto& thread) { return ::pthread_tryjoin_np(thread->id, nullptr) == 0; });
  }
};

namespace {

thread_local constinit const Workers::Queue* works_at = nullptr;  ///< of a thread that is none of the program's
thread_local constinit bool counts = false;                       ///< among its queue's threads
thread_local constinit Workers::WaitLimit* wait_limit = nullptr;

}  // namespace

/// A thread's own things, until the last of its locals is destroyed; these may ask about the queue.
struct Workers::Kept {
  Kept(std::shared_ptr<Queue> queue, std::shared_ptr<Thread> own) : of(std::move(queue)), thread(std::move(own)) {}
  /// Comes behind those destructors.
  static void leave(void* kept) {
    works_at = nullptr;
    const std::unique_ptr<Kept> all(static_cast<Kept*>(kept));
    all->thread->come_to(Thread::Stage::ends);
  }
  const std::shared_ptr<Queue> of;
  const std::shared_ptr<Thread> thread;
  struct Goes {
    const Kept& kept;
    void operator()() const {
      kept.of->lose_thread();
      kept.thread->come_to(Thread::Stage::in_exit);
    }
  };
  const Goes goes{*this};
  std::optional<IfExitComes> if_exit_comes;
};

/// Waits without the mutex. A thread whose own end stops its workers waits for the others alone, and a child forked in
/// the meantime for none. Nobody waits for a thread in exit().
void Workers::join(const std::vector<std::shared_ptr<Thread>>& threads, std::uint32_t generation) noexcept {
  for (const auto& thread : threads) {
    if (generation != process_generation()) return;
    const bool own = ::pthread_equal(thread->id, ::pthread_self()) != 0;
    if (own || !thread->comes_to_its_end())
      ::pthread_detach(thread->id);
    else
      ::pthread_join(thread->id, nullptr);
  }
}

Workers::Workers() : state_(std::make_shared<State>()) {}

std::shared_ptr<Workers::Queue> Workers::queue(int most) {
  auto made = std::make_shared<Queue>(Queue::Key(), state_, most);
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->queues, [](const auto& each) { return each.expired(); });
  state_->queues.push_back(made);
  return made;
}

/// Nothing is allocated: a runtime can end where there is no memory. Tasks go without the lock, and before the wait:
/// who waits for one learns that it is gone.
void Workers::stop() {
  std::vector<std::shared_ptr<Thread>> all;
  const std::uint32_t generation = process_generation();
  for (bool more = true; more;) {
    std::shared_ptr<Queue> of;
    std::shared_ptr<Added> dropped;
    {
      const std::lock_guard lock(state_->mutex);
      state_->stopped = true;
      state_->join_ended();
      if (all.empty()) all.swap(state_->threads);
      for (const auto& each : state_->queues)
        if (dropped == nullptr && (of = each.lock()) != nullptr) dropped = of->drop();
    }
    more = dropped != nullptr;
    if (more) dropped->leave_out();
  }
  join(all, generation);
}

bool Workers::stopped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stopped;
}

std::string_view Workers::why_wait_no_more() {
  if (works_at == nullptr) return {};
  if (process_is_ending()) return kProcessIsEnding;
  State& state = *works_at->state_;
  {
    const std::lock_guard lock(state.mutex);
    if (state.stopped) return "this runtime is ending: it waits for nobody who makes a kernel";
  }
  return WaitLimit::of_this_thread_is_over() ? "nobody waits for it any more" : std::string_view();
}

Workers::WaitLimit::WaitLimit(FunctionRef<bool()> is_over) : is_over_(is_over) { wait_limit = this; }
Workers::WaitLimit::~WaitLimit() { wait_limit = nullptr; }

bool Workers::WaitLimit::of_this_thread_is_over() {
  if (wait_limit == nullptr || !wait_limit->is_over_()) return false;
  wait_limit->ended_a_wait_ = true;
  return true;
}

void Workers::Queue::forget_parents() {
  if (generation_ == process_generation()) return;
  if (generation_ != 0) threads_ = 0;
  generation_ = process_generation();
  waiting_.insert(waiting_.begin(), running_.begin(), running_.end());
  running_.clear();
}

/// As many as there is work for; false, and why, when the system gives none.
bool Workers::Queue::begin_threads(std::string* problem) {
  const SignalsBlocked blocked;
  while (threads_ < most_ && static_cast<std::size_t>(threads_) < waiting_.size() + running_.size()) {
    const auto thread = std::make_shared<Thread>();
    auto kept = std::make_unique<Kept>(shared_from_this(), thread);
    state_->threads.reserve(state_->threads.size() + 1);
    if (const int error = ::pthread_create(&thread->id, nullptr, &work, kept.get()); error != 0) {
      *problem = errno_text(error);
      return false;
    }
    static_cast<void>(kept.release());
    state_->threads.push_back(thread);
    ++threads_;
  }
  return true;
}

void Workers::Added::leave_out() const {
  if (left_out) left_out();
}

bool Workers::Queue::add(Task task, Task left_out) {
  end_first("");
  std::string problem;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopped || process_is_ending()) return false;
    state_->join_ended();
    forget_parents();
    waiting_.push_back(std::make_shared<Added>(Added{std::move(task), std::move(left_out)}));
    if (!begin_threads(&problem) && threads_ == 0)
      waiting_.pop_back();
    else
      problem.clear();
  }
  if (!problem.empty())
    fail(Stage::load, Code::out_of_memory,
         cat("the system gives no thread for work in the background: ", problem,
             "; raise the limit of threads (ulimit -u), or make the kernels without it"));
  return true;
}

void Workers::Queue::go_on() {
  const std::lock_guard lock(state_->mutex);
  if (generation_ == 0 || generation_ == process_generation() || state_->stopped) return;
  state_->join_ended();
  forget_parents();
  std::string problem;
  begin_threads(&problem);  // where there is none now, there may be one at the next call
}

/// False, and the thread is none of the queue's any more, when there is nothing to do.
bool Workers::Queue::take(std::shared_ptr<Added>& task) {
  if (waiting_.empty()) {
    --threads_;
    counts = false;
    return false;
  }
  try {
    running_.push_back(waiting_.front());
  } catch (const std::bad_alloc&) {  // a forked child does not begin it anew then
  }
  task = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

/// A task that is not begun any more, or none: one that waits, and in a forked child one that ran in its parent.
std::shared_ptr<Workers::Added> Workers::Queue::drop() {
  Tasks& tasks = waiting_.empty() && generation_ != process_generation() ? running_ : waiting_;
  if (tasks.empty()) return nullptr;
  std::shared_ptr<Added> task = std::move(tasks.front());
  tasks.pop_front();
  return task;
}

/// Another thread takes its place while there is work.
void Workers::Queue::lose(std::shared_ptr<Added>& task) {
  {
    const std::lock_guard lock(state_->mutex);
    std::erase(running_, task);
  }
  task.reset();
  const std::lock_guard lock(state_->mutex);
  --threads_;
  counts = false;
  if (state_->stopped || process_is_ending()) return;
  try {
    std::string problem;
    begin_threads(&problem);
  } catch (const std::exception&) {  // no memory: the next task that is added begins one
  }
}

/// It is in exit(), and works at nothing any more. Where it was the last one, nobody begins what waits.
void Workers::Queue::lose_thread() noexcept {
  for (bool more = true; more;) {
    std::shared_ptr<Added> dropped;
    {
      const std::lock_guard lock(state_->mutex);
      if (generation_ != process_generation()) return;
      if (std::exchange(counts, false)) --threads_;
      more = threads_ == 0 && (dropped = drop()) != nullptr;
    }
    if (more) dropped->leave_out();
  }
}

void* Workers::Queue::work(void* kept) {
  Kept& all = *static_cast<Kept*>(kept);
  Queue& queue = *all.of;
  at_thread_end(&Kept::leave, kept);
  all.if_exit_comes.emplace(all.goes);
  works_at = &queue;
  counts = true;
  for (std::shared_ptr<Added> task;;) {
    const BeforeEnd before_end;
    {
      const std::lock_guard lock(queue.state_->mutex);
      if (!queue.take(task)) break;
    }
    try {
      before_end ? task->task() : task->leave_out();
    } catch (abi::__forced_unwind&) {  // the thread ends in a function of the user's
      queue.lose(task);
      throw;
    } catch (...) {  // against the rule; nobody is there to be told
    }
    {
      const std::lock_guard lock(queue.state_->mutex);
      std::erase(queue.running_, task);
    }
    task.reset();
  }
  return nullptr;
}

}  // namespace tj::support
