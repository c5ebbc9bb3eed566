// See process_end.hpp.
#include "support/process_end.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>

#include "support/fork_safe.hpp"
#include "support/imported_calls.hpp"
#include "support/lasting.hpp"
#include "support/process.hpp"
#include "support/signals_blocked.hpp"

namespace tj::support {
namespace {

constexpr std::chrono::seconds kTime{10}, kMoreTime{50};

// State of the whole process.
constinit std::atomic<bool> ending{false}, late{false};
constinit std::atomic<int> under_way{0};
constinit Bell ended;
constinit std::atomic<int> ender{0};  ///< the thread that ends the process
// This thread's, which would wait for itself; whether it is in exit(). A forked child has the forking thread's.
thread_local constinit int own = 0;
thread_local constinit bool ends_here = false;

void wait_for_others(std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  for (;;) {
    const std::uint32_t rung = ended.rung();
    const auto now = std::chrono::steady_clock::now();
    if (under_way.load() <= own || now >= until) return;
    ended.wait(rung, until - now);
  }
}

int this_thread() noexcept { return static_cast<int>(::gettid()); }

void at_end() {
  ends_here = true;
  ender.store(this_thread());
  ending.store(true);
  if (late.load()) return;
  wait_for_others(kTime);
  if (under_way.load() <= own) return;
  late.store(true);
  end_processes();
  wait_for_others(kMoreTime);
}

/// Two threads may not be in exit() at once. Where one is, and waits, the main thread's calls fail, and main returns.
void wait_for_other_end() {
  const int other = ender.load();
  if (other != 0 && other != this_thread() && this_thread() == static_cast<int>(::getpid()))
    std::this_thread::sleep_for(kTime + kMoreTime);
}

/// exit() calls this before all handlers, in the thread that ends the process. Handlers that a library registered in
/// the work that is under way come behind ours then.
void at_thread_exit(void*) {
  wait_for_other_end();
  if (under_way.load() > own) end_first();
}

/// The thread that loads the library is nearly always the one that ends the process.
__attribute__((constructor)) void in_loading_thread() { at_thread_end(&at_thread_exit, nullptr); }

/// A library's exit handler, and what it is called with.
struct Handler {
  void (*run)(void*);
  void* argument;
};

void run_at_end(void* handler) {
  at_end();
  auto* const kept = static_cast<Handler*>(handler);
  const Handler each = *kept;
  delete kept;  // a list of handlers calls each of them once
  each.run(each.argument);
}

/// The function stands in for __cxa_atexit(), which atexit() and destructors of static objects come to.
int register_handler(void (*run)(void*), void* argument, void* library) {
  const NoFork whole;
  auto* const handler = new (std::nothrow) Handler{run, argument};
  if (handler == nullptr) return abi::__cxa_atexit(run, argument, library);
  return abi::__cxa_atexit(&run_at_end, handler, library);
}

}  // namespace

void may_end_here() {
  thread_local constinit bool known = false;
  if (known) [[likely]]
    return;
  known = true;
  at_thread_end(&at_thread_exit, nullptr);
}

bool process_is_ending() noexcept { return ending.load(); }
bool process_end_is_late() noexcept { return late.load(); }

/// A child could never end that was forked while the list of handlers was locked.
void end_first() noexcept {
  const NoFork whole;
  std::atexit(&at_end);
}

void end_first(const char* what) {
  static constinit Lasting<std::set<std::string>> known;
  static constinit Mutex mutex;
  may_end_here();
  const std::lock_guard lock(mutex);
  if (known.get().empty())
    in_forked_children([] {
      under_way.store(0);
      own = 0;
      ender.store(0);
      if (ends_here) return;
      ending.store(false);
      late.store(false);
    });
  if (known.get().insert(what).second) end_first();
}

bool end_first_in(const void* inside) noexcept {
  return lead_calls(inside, "__cxa_atexit", reinterpret_cast<void*>(&register_handler));
}

EndFirstAgain::EndFirstAgain() noexcept : generation_(process_generation()) {
  const SignalsBlocked blocked;
  begun_ = ::pthread_create(&thread_, nullptr, &work, this) == 0;
}

EndFirstAgain::~EndFirstAgain() {
  if (!begun_ || generation_ != process_generation()) return;
  over_.store(true);
  bell_.ring();
  ::pthread_join(thread_, nullptr);
}

void* EndFirstAgain::work(void* self) noexcept {
  EndFirstAgain& again = *static_cast<EndFirstAgain*>(self);
  for (;;) {
    const std::uint32_t rung = again.bell_.rung();
    if (again.over_.load() || ending.load()) return nullptr;
    end_first();
    again.bell_.wait(rung, std::chrono::microseconds(500));
  }
}

BeforeEnd::BeforeEnd() noexcept : begun_(true), generation_(process_generation()) {
  under_way.fetch_add(1);
  ++own;
  if (!ending.load() || own > 1) return;
  begun_ = false;
  --own;
  under_way.fetch_sub(1);
  ended.ring();
}

BeforeEnd::~BeforeEnd() {
  if (!begun_ || generation_ != process_generation()) return;
  --own;
  under_way.fetch_sub(1);
  ended.ring();
}

}  // namespace tj::support
