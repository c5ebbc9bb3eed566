// See fork_safe.hpp. Futexes keep no record of who waits in the process's memory, so that a child has none of waiters
// that are gone.
#include "support/fork_safe.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <ctime>
#include <string>
#include <utility>

#include "support/fail.hpp"

namespace tj::support {
namespace {

using Clock = std::chrono::steady_clock;
using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == sizeof(std::uint32_t) && Word::is_always_lock_free);

// Somebody in a short section may wait for what the forking thread holds, against the rule; a fork that hangs helps
// nobody.
constexpr std::chrono::seconds kLongestFork{10};

void wait_on(Word& word, std::uint32_t seen, std::chrono::nanoseconds most) noexcept {
  if (most <= most.zero()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds.count());
  time.tv_nsec = static_cast<long>((most - seconds).count());
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
}

void wake(Word& word, int how_many) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, how_many, nullptr, nullptr, 0);
}

/// The count of threads in short sections, plus kFork for each fork that waits for them or is under way. One word: a
/// thread that finds a fork is never counted, not even for a moment in which a child might see it.
constinit Word state{0};
constexpr std::uint32_t kFork = 1u << 20;
constexpr std::uint32_t inside_of(std::uint32_t seen) { return seen % kFork; }
constexpr std::uint32_t forks_of(std::uint32_t seen) { return seen / kFork; }

constinit Word generation{1};
constinit std::atomic<std::uint64_t> forks_begun{0};
/// The last fork that this thread has waited for as long as it does.
thread_local constinit std::uint64_t waited_out = 0;
// This thread's: short sections that it is in; forks that it is in, one in a handler of another; the process that the
// first of them was called in; of which of them a child has begun before the list of handlers came to it.
thread_local constinit int depth = 0, forking = 0;
thread_local constinit ::pid_t forks_from = 0;
thread_local constinit int begun = 0;

constexpr std::size_t kMostActions = 8;
constinit std::array<std::atomic<void (*)()>, kMostActions> actions{};

void before_fork() {
  forks_begun.fetch_add(1);  // before it is seen to be under way
  state.fetch_add(kFork);
  if (forking++ == 0) forks_from = ::getpid();
  // Inside a section of its own this thread runs foreign code, which forks to start a program: waiting for others might
  // never end.
  if (depth > 0) return;
  const auto end = Clock::now() + kLongestFork;
  for (std::uint32_t seen = state.load(); inside_of(seen) != 0 && Clock::now() < end; seen = state.load())
    wait_on(state, seen, end - Clock::now());
}

void after_fork_in_parent() {
  --forking;
  if (forks_of(state.fetch_sub(kFork)) == 1) wake(state, INT_MAX);
}

/// `own`: forks that this thread is in by now, as the child.
void begin_child(int own) {
  const std::uint32_t own_section = depth > 0 ? 1 : 0;
  if (inside_of(state.load()) > own_section) detail::locks_lost.store(true);
  state.store(static_cast<std::uint32_t>(own) * kFork + own_section);
  generation.fetch_add(1);
  for (const auto& action : actions)
    if (void (*const act)() = action.load()) act();
}

/// A child begins once: by the list of handlers, or before, where a handler of the program's calls the library.
void after_fork_in_child() {
  const bool done = begun == forking;
  begun = forking = 0;
  if (!done) begin_child(0);
}

// At start, so that no fork comes before it.
[[maybe_unused]] const int kRegistered = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

}  // namespace

constinit std::atomic<bool> detail::locks_lost{false};

void detail::fail_locks_lost() {
  fail(Stage::launch, Code::invalid_argument,
       "this process was forked while another thread of its parent was in a lock of this library, which nobody gives "
       "back here; exec() first, or fork while no other thread calls the library");
}

/// A handler of the program's around its own fork: it cannot wait for that.
void NoFork::enter_while_forking() noexcept {
  if (begun != forking && ::getpid() != forks_from) {
    --depth;
    begin_child(forking - 1);
    begun = forking;
    ++depth;
  }
  state.fetch_add(1);
}

void NoFork::enter() noexcept {
  if (depth++ > 0) return;
  if (forking > 0) [[unlikely]]
    return enter_while_forking();
  std::uint64_t last = 0;  // the fork that had begun last when the wait began
  std::uint32_t seen = state.load();
  for (Clock::time_point end{};;) {
    if (forks_of(seen) == 0) [[likely]] {
      if (state.compare_exchange_weak(seen, seen + 1)) return;
      continue;
    }
    if (end == Clock::time_point{}) {
      end = Clock::now() + kLongestFork;
      last = forks_begun.load();
    }
    // A handler of that fork may wait for this very thread, and for all the sections that it comes to.
    if (waited_out < last && Clock::now() >= end) waited_out = last;
    if (waited_out >= last) break;
    wait_on(state, seen, end - Clock::now());
    seen = state.load();
  }
  state.fetch_add(1);
}

void NoFork::leave() noexcept {
  if (--depth > 0) return;
  const std::uint32_t before = state.fetch_sub(1);
  if (inside_of(before) == 1 && forks_of(before) != 0) wake(state, INT_MAX);
}

void Bell::ring() noexcept {
  word_.fetch_add(1, std::memory_order_release);
  wake(word_, INT_MAX);
}

void Bell::wait(std::uint32_t before, std::chrono::nanoseconds most) noexcept { wait_on(word_, before, most); }

std::uint32_t process_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void in_forked_children(void (*action)()) noexcept {
  for (auto& place : actions) {
    void (*empty)() = nullptr;
    if (place.compare_exchange_strong(empty, action)) return;
  }
}

// ---- Turn: a futex with the taker's generation ----------------------------------------------------------------------

bool Turn::take(std::uint32_t mark) noexcept {
  const std::uint32_t own = process_generation() << 1;
  std::uint32_t seen = word_.load(std::memory_order_relaxed);
  while ((seen | 1u) != (own | 1u))  // free, or a turn of a thread that stayed in the parent
    if (word_.compare_exchange_weak(seen, own | mark, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  return false;
}

bool Turn::try_lock() noexcept { return take(0); }

bool Turn::try_lock_for(std::chrono::nanoseconds most) noexcept {
  if (take(0)) return true;
  const auto end = Clock::now() + most;
  for (;;) {
    // Marked, so that who has the turn wakes somebody; who waited leaves the mark, since others may wait too.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    if (seen != 0 && (seen & 1u) == 0 && !word_.compare_exchange_weak(seen, seen | 1u, std::memory_order_relaxed))
      continue;
    if (seen != 0) wait_on(word_, seen | 1u, end - Clock::now());
    if (take(1)) return true;
    if (Clock::now() >= end) return false;
  }
}

void Turn::lock() noexcept {
  while (!try_lock_for(std::chrono::hours(1))) continue;
}

void Turn::unlock() noexcept {
  std::uint32_t seen = word_.load(std::memory_order_relaxed);
  const std::uint32_t own = process_generation() << 1;
  while ((seen | 1u) == (own | 1u)) {  // else taken before the fork, and free or another's since
    if (!word_.compare_exchange_weak(seen, 0, std::memory_order_release, std::memory_order_relaxed)) continue;
    if ((seen & 1u) != 0) wake(word_, 1);
    return;
  }
}

}  // namespace tj::support
