// See process_end.hpp.
#include "support/process_end.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "support/fork_safe.hpp"
#include "support/imported_calls.hpp"
#include "support/lasting.hpp"
#include "support/process.hpp"
#include "support/signals_blocked.hpp"

namespace tj::support {
namespace {

constexpr std::chrono::seconds kTime{10}, kMoreTime{50};

// State of the whole process.
constinit std::atomic<bool> ending{false}, late{false}, handlers_left_out{false};
constinit std::atomic<int> under_way{0};
constinit std::atomic<std::uint32_t> ended_forebear{0};
constinit Bell ended;
constinit std::atomic<int> ender{0};  ///< the thread that ends the process
// This thread's, which would wait for itself; whether it is in exit(). A forked child has the forking thread's.
thread_local constinit int own = 0;
thread_local constinit bool ends_here = false;
thread_local constinit std::optional<int> ends_with;  ///< the status of exit(), once a handler was told
thread_local constinit bool known = false;  ///< at_thread_exit() stands in the list of what the thread's end calls
thread_local constinit IfExitComes* newest = nullptr;
thread_local constinit HeldTurn* newest_turn = nullptr;

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

/// False where another thread was first.
bool take_end() noexcept {
  int nobody = 0;
  return ender.compare_exchange_strong(nobody, this_thread()) || nobody == this_thread();
}

/// A second thread in exit() stays there until the first one has ended the process, as POSIX wants it since 2024 and
/// the C library of GNU does since 2.41. Nobody waits for its work any more. One more handler brings a third thread
/// here.
[[noreturn]] void stay() noexcept {
  int before = 0;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  IfExitComes::call_all();
  end_first();
  under_way.fetch_sub(own);
  own = 0;
  ended.ring();
  for (;;) ::pause();
}

/// While this thread waits, a handler of ours is the newest one for others that call exit().
void at_end() {
  if (!take_end()) stay();
  ends_here = true;
  ending.store(true);
  IfExitComes::call_all();
  if (late.load() || under_way.load() <= own) return;
  end_first();
  wait_for_others(kTime);
  if (under_way.load() <= own) return;
  late.store(true);
  end_processes();
  wait_for_others(kMoreTime);
}

void at_end_with(int status, void*) {
  ends_with = status;
  at_end();
}

/// The place of the C library's exit(), found once. Who looks for it later takes no lock of the loader's.
struct Code {
  std::uintptr_t begin = 0, end = 0;  ///< nothing: it was not found
};
constinit Code code_of_exit;

Code find_code_of_exit() noexcept {
  void* const library = ::dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
  void* const begin = library != nullptr ? ::dlsym(library, "exit") : nullptr;
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (begin == nullptr ||
      ::dladdr1(begin, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr || info.dli_saddr != begin)
    return {};
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  return {at, at + symbol->st_size};
}

_Unwind_Reason_Code find_exit(_Unwind_Context* frame, void* found) {
  const std::uintptr_t behind = ::_Unwind_GetIP(frame);  // of a call, whose function may end there
  if (behind <= code_of_exit.begin || behind > code_of_exit.end) return _URC_NO_REASON;
  *static_cast<bool*>(found) = true;
  return _URC_END_OF_STACK;
}
/// A thread's own end destroys what is local to it, as exit() does. The stack says which of them it is.
bool in_exit() noexcept {
  bool found = false;
  ::_Unwind_Backtrace(&find_exit, &found);
  return found;
}

/// exit() calls this before all handlers, in the thread that ends the process. The wait stands here, as a handler that
/// a library registers meanwhile would run before ours. Calls go on as before where there is nothing to wait for, until
/// a handler of ours comes. A second thread stays all the same. At a thread's own end, objects that are destroyed
/// behind this may call the library, and exit().
void at_thread_exit(void*) {
  known = false;
  if (!in_exit()) return;
  if (!take_end()) stay();
  if (newest != nullptr || under_way.load() > own) at_end();
}

void be_first_in_exit() noexcept {
  known = true;
  at_thread_end(&at_thread_exit, nullptr);
}

void know_this_thread() noexcept {
  if (known) [[likely]]
    return;
  be_first_in_exit();
}

/// A child waits for no thread of its parent, and it has not begun to end unless this very thread is in exit().
void begin_child() {
  under_way.store(0);
  own = 0;
  ender.store(0);
  if (ends_here) return;
  if (ending.load()) ended_forebear.store(process_generation() - 1);
  ending.store(false);
  late.store(false);
}

/// The thread that loads the library is nearly always the one that ends the process. Forked children are told of before
/// anything can be counted: a count that a child keeps would never fall.
__attribute__((constructor)) void in_loading_thread() {
  code_of_exit = find_code_of_exit();
  at_thread_end(&at_thread_exit, nullptr);
  in_forked_children(&begin_child);
}

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
  if (!handlers_left_out.load()) each.run(each.argument);
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
  require_locks();
  know_this_thread();
}

bool process_is_ending() noexcept { return ending.load(); }
bool process_end_is_late() noexcept { return late.load(); }
std::uint32_t ended_generation() noexcept { return ended_forebear.load(); }

/// A child could never end that was forked while the list of handlers was locked.
/// Two handlers: while one thread is on its way from the first to what it does, another one that calls exit() takes the
/// second.
void end_first() noexcept {
  const NoFork whole;
  for (int i = 0; i < 2; ++i) ::on_exit(&at_end_with, nullptr);
}

void end_first(const char* what) {
  static constinit Lasting<std::set<std::string>> known;
  static constinit Mutex mutex;
  may_end_here();
  const std::lock_guard lock(mutex);
  if (known.get().insert(what).second) end_first();
}

bool end_first_in(const void* inside) noexcept {
  return lead_calls(inside, "__cxa_atexit", reinterpret_cast<void*>(&register_handler));
}
void leave_out_handlers() noexcept { handlers_left_out.store(true); }

void leave_handler() noexcept {
  if (ends_here && ends_with) std::exit(*ends_with);
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
    if (again.over_.load() || late.load()) return nullptr;
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

IfExitComes::IfExitComes(FunctionRef<void()> gone) noexcept : gone_(gone), older_(newest) {
  know_this_thread();
  newest = this;
}

IfExitComes::~IfExitComes() { newest = older_; }

void IfExitComes::in_users_function() noexcept {
  if (newest != nullptr) be_first_in_exit();
}

void IfExitComes::call_all() noexcept {
  while (newest != nullptr) {
    IfExitComes& each = *newest;
    newest = each.older_;
    each.gone_();
  }
}

HeldTurn::HeldTurn(Turn& turn) noexcept
    : turn_(turn), older_(newest_turn), again_(is_of_this_thread()), if_exit_comes_(gives_back_) {
  if (!again_) {
    turn_.lock();
    taken_ = true;
  }
  newest_turn = this;
}

HeldTurn::~HeldTurn() {
  newest_turn = older_;
  give_back();
}

bool HeldTurn::is_of_this_thread() const noexcept {
  for (const HeldTurn* each = older_; each != nullptr; each = each->older_)
    if (&each->turn_ == &turn_ && each->taken_ && each->generation_ == process_generation()) return true;
  return false;
}

/// The turn is free in a child, or another thread's.
void HeldTurn::give_back() noexcept {
  if (std::exchange(taken_, false) && generation_ == process_generation()) turn_.unlock();
}

}  // namespace tj::support
