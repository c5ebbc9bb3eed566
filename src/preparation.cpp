// Kernels made in the background; see tilejit/preparation.hpp.
//
// Decides how a call becomes items of a list, and what a thread does with one. Knows no op by name. Invariant: what a
// thread works with is the runtime's, which waits for its threads, or the list's, which the thread's task keeps.
#include <tilejit/preparation.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "placement.hpp"
#include "runtime_impl.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/process_end.hpp"
#include "support/uncancelled.hpp"
#include "support/workers.hpp"

namespace tj {

using support::cat;
using support::fail;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kMostThreads = 256;
constexpr double kMostSeconds = 1e6;  // as for other limits of time

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// A kernel that is wanted somewhere.
struct Wanted {
  const ops::Maker* maker = nullptr;
  ops::Request request;
  std::uint64_t small_key = 0;
  Device device{};
};

}  // namespace

struct Preparation::Impl : std::enable_shared_from_this<Impl> {
  /// inside: of `of`.
  Impl(Runtime::Impl& inside, std::weak_ptr<Runtime::Impl> of, const PrepareOptions& options);

  /// Throws tj::Error(argument) when the runtime has ended.
  std::shared_ptr<Runtime::Impl> alive() const;
  void add(Runtime::Impl& inside, std::vector<Wanted> wanted);
  void make(Runtime::Impl& inside, std::size_t at);
  /// Leaves a kernel out that waits, or, with `begun`, one that was being made.
  void leave_out(std::size_t at, bool begun);
  void leave_out_waiting();
  void cancel();
  std::size_t size();
  Progress progress();

  class Task;
  struct Item {
    Wanted wanted;
    PreparedKernel kernel;
    std::atomic<bool> cancelled{false};  ///< while it was being made: a wait for another maker ends
  };
  const std::weak_ptr<Runtime::Impl> runtime;
  const std::shared_ptr<support::Workers::Queue> queue;
  const Clock::time_point start = Clock::now();
  const Clock::time_point limit;  ///< none is begun afterwards
  support::Bell ended;
  support::Mutex mutex;  ///< of what is below
  std::deque<Item> items;
  Progress counted;
  Clock::time_point last = start;  ///< when one ended
};

namespace {

PrepareOptions checked(const PrepareOptions& options) {
  if (options.threads < 1 || options.threads > kMostThreads)
    fail(Stage::argument, Code::invalid_argument,
         cat("PrepareOptions::threads is ", options.threads, "; allowed: 1 to ", kMostThreads));
  if (!(options.time_limit_s >= 0 && options.time_limit_s <= kMostSeconds))
    fail(Stage::argument, Code::invalid_argument,
         cat("PrepareOptions::time_limit_s is ", options.time_limit_s,
             "; allowed: seconds from 0 (no limit) to 1000000"));
  return options;
}

bool is_open(PrepareState state) { return state == PrepareState::waiting || state == PrepareState::making; }

}  // namespace

Preparation::Impl::Impl(Runtime::Impl& inside, std::weak_ptr<Runtime::Impl> of, const PrepareOptions& options)
    : runtime(std::move(of)),
      queue(inside.workers.queue(options.threads)),
      limit(options.time_limit_s > 0 ? start + duration_of(options.time_limit_s) : Clock::time_point::max()) {}

std::shared_ptr<Runtime::Impl> Preparation::Impl::alive() const {
  auto inside = runtime.lock();
  if (inside == nullptr || inside->workers.stopped())
    fail(Stage::argument, Code::invalid_argument,
         "the runtime of this preparation has ended, and makes no kernels any more; make both anew");
  return inside;
}

/// A task that is dropped unmade leaves its kernel out.
class Preparation::Impl::Task {
 public:
  Task(std::shared_ptr<Impl> list, Runtime::Impl& inside, std::size_t at)
      : list_(std::move(list)), inside_(&inside), at_(at) {}
  ~Task() { leave_out(); }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  void work() { list_->make(*inside_, at_); }
  void leave_out() { list_->leave_out(at_, true); }

 private:
  std::shared_ptr<Impl> list_;
  Runtime::Impl* inside_;
  std::size_t at_;
};

void Preparation::Impl::add(Runtime::Impl& inside, std::vector<Wanted> wanted) {
  for (const Wanted& each : wanted) {  // what is wrong with the device is an error of the call
    inside.backends.target(each.device, *each.maker);
    inside.backends.driver(each.device);
  }
  for (Wanted& each : wanted) {
    std::size_t at = 0;
    {
      const std::lock_guard lock(mutex);
      at = items.size();
      Item& item = items.emplace_back();
      item.kernel.report.name = each.request.name;
      item.wanted = std::move(each);
      ++counted.kernels;
    }
    const auto task = std::make_shared<Task>(shared_from_this(), inside, at);
    queue->add([task] { task->work(); }, [task] { task->leave_out(); });
  }
}

void Preparation::Impl::leave_out(std::size_t at, bool begun) {
  const std::lock_guard lock(mutex);
  PrepareState& state = items[at].kernel.state;
  if (state != PrepareState::waiting && !(begun && state == PrepareState::making)) return;
  state = PrepareState::left_out;
  ++counted.left_out;
  last = Clock::now();
  ended.ring();
}

void Preparation::Impl::leave_out_waiting() {
  for (std::size_t at = 0, count = size(); at < count; ++at) leave_out(at, false);
}

void Preparation::Impl::cancel() {
  leave_out_waiting();
  const std::lock_guard lock(mutex);
  for (Item& item : items)
    if (item.kernel.state == PrepareState::making) item.cancelled = true;
}

std::size_t Preparation::Impl::size() {
  const std::lock_guard lock(mutex);
  return items.size();
}

void Preparation::Impl::make(Runtime::Impl& inside, std::size_t at) {
  if (Clock::now() >= limit) leave_out_waiting();
  Wanted wanted;
  const std::atomic<bool>* cancelled = nullptr;
  {
    const std::lock_guard lock(mutex);
    PrepareState& state = items[at].kernel.state;
    if (!is_open(state)) return;
    state = PrepareState::making;
    wanted = items[at].wanted;
    cancelled = &items[at].cancelled;  // a deque's items stay where they are
  }
  const auto is_over = [this, cancelled] { return cancelled->load() || Clock::now() >= limit; };
  const support::Workers::WaitLimit waits(is_over);
  const auto gone = [this, at] { leave_out(at, true); };
  const support::IfExitComes if_exit_comes(gone);
  PreparedKernel result;
  result.report.name = wanted.request.name;
  try {
    result.report = inside.report(*wanted.maker, wanted.request, wanted.small_key, wanted.device);
    result.state = PrepareState::ready;
  } catch (const Error& error) {
    result.error = error;
  } catch (const std::bad_alloc&) {
    result.error = Error(Stage::load, Code::out_of_memory, "out of host memory; free some, or use fewer threads");
  } catch (const std::exception& error) {
    result.error = Error(Stage::load, Code::internal, error.what());
  }
  if (result.error && waits.ended_a_wait()) return leave_out(at, true);
  const std::lock_guard lock(mutex);
  if (items[at].kernel.state != PrepareState::making) return;  // in a child another thread may have made it anew
  if (result.error) result.state = PrepareState::failed;
  ++(result.error ? counted.failed : counted.ready);
  items[at].kernel = std::move(result);
  last = Clock::now();
  ended.ring();
}

Progress Preparation::Impl::progress() {
  queue->go_on();
  if (Clock::now() >= limit) leave_out_waiting();
  const std::lock_guard lock(mutex);
  Progress now = counted;
  const Clock::time_point until = now.ended() ? last : Clock::now();
  now.seconds = std::chrono::duration<double>(until - start).count();
  return now;
}

Preparation::Preparation(Runtime& runtime, const PrepareOptions& options)
    : impl_(std::make_shared<Impl>(*runtime.impl_, runtime.impl_, checked(options))) {}
Preparation::~Preparation() = default;

Preparation& Preparation::add(const ops::Op& op, const void* args) {
  const support::Uncancelled whole;
  const auto inside = impl_->alive();
  Placement placement(op, args);
  if (placement.any_null()) args = placement.get();
  const Device device = op.device_of(args);
  op.validate(args, inside->backends.on_model(device));
  if (op.asks_for_nothing(args)) return *this;
  const ops::Kernel kernel = inside->prepared_kernel(op, op.problem_key(args), device);
  std::vector<Wanted> wanted;
  op.steps(args, kernel, ops::nowhere(), [&](const ops::Step& step) {
    wanted.push_back({step.op, step.op->request_of(step.kernel), step.kernel.small_key, device});
  });
  impl_->add(*inside, std::move(wanted));
  return *this;
}

namespace {

std::vector<Wanted> all_of(const std::vector<ops::NeededKernel>& kernels, Device device) {
  std::vector<Wanted> wanted;
  for (const ops::NeededKernel& each : kernels)
    wanted.push_back({each.op, each.op->request_of(each.kernel), each.kernel.small_key, device});
  return wanted;
}

}  // namespace

Preparation& Preparation::add_config(const ops::Op& op, const void* config, Device device) {
  const support::Uncancelled whole;
  const auto inside = impl_->alive();
  impl_->add(*inside, all_of(op.needed_kernels(config, inside->choosing(op, device)), device));
  return *this;
}

Preparation& Preparation::add_flags(std::string_view op, std::string_view flags, Device device) {
  const support::Uncancelled whole;
  const auto inside = impl_->alive();
  impl_->add(*inside, all_of(inside->needed_kernels(detail::find_op(op), flags, device), device));
  return *this;
}

Preparation& Preparation::add(const custom::Kernel& kernel, Device device) {
  const support::Uncancelled whole;
  const auto inside = impl_->alive();
  if (kernel.runtime_ != inside)
    fail(Stage::argument, Code::invalid_argument,
         "kernel is one of another runtime; allowed: kernels of the preparation's own");
  const auto& maker = *static_cast<const CustomMaker*>(kernel.maker_);
  inside->tunings.refresh(device);
  const int choice = inside->choice_of(maker, device);
  impl_->add(*inside, {{&maker, maker.request_of(choice), static_cast<std::uint64_t>(choice), device}});
  return *this;
}

void Preparation::cancel() {
  const support::Uncancelled whole;
  impl_->cancel();
}

Progress Preparation::progress() const {
  const support::Uncancelled whole;
  return impl_->progress();
}

Progress Preparation::wait(double seconds) const {
  const support::Uncancelled whole;
  if (std::isnan(seconds))
    support::fail(Stage::argument, Code::invalid_argument,
                  "seconds is no number; allowed: 0 and up, or a negative number for no limit");
  const auto begun = Clock::now();
  const auto until = seconds >= 0 && seconds <= kMostSeconds ? begun + duration_of(seconds) : Clock::time_point::max();
  for (;;) {
    const std::uint32_t rung = impl_->ended.rung();
    const Progress now = impl_->progress();
    const auto time = Clock::now();
    if (now.ended() || time >= until) return now;
    constexpr Clock::duration kLongest = std::chrono::minutes(1);
    const auto next = std::min(until, time < impl_->limit ? impl_->limit : Clock::time_point::max());
    impl_->ended.wait(rung, next - time < kLongest ? next - time : kLongest);
  }
}

std::vector<PreparedKernel> Preparation::kernels() const {
  const support::Uncancelled whole;
  static_cast<void>(impl_->progress());
  const std::lock_guard lock(impl_->mutex);
  std::vector<PreparedKernel> all;
  for (const Impl::Item& item : impl_->items) all.push_back(item.kernel);
  return all;
}

}  // namespace tj
