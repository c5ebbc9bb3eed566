// Protects forks beside threads at work: a child finds no lock taken by a thread that is not there, and what locks
// guard whole.
#include "support/fork_safe.hpp"

#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <tilejit/error.hpp>
#include <utility>
#include <vector>

#include "support/dynamic_library.hpp"
#include "support/lasting.hpp"
#include "support/process_end.hpp"
#include "support/scratch.hpp"

namespace {

using namespace std::chrono_literals;
using tj::support::DynamicLibrary;
using tj::support::Mutex;
using tj::support::Turn;
using tj::testing::start_child;
using tj::testing::wait_for;

constexpr int kForks = 40;

/// Threads that do the same over and over for as long as this lives.
class Busy {
 public:
  template <class Work>
  Busy(int count, Work work) {
    for (int t = 0; t < count; ++t)
      threads_.emplace_back([this, work] {
        while (!stop_) {
          work();
          ++rounds_;
        }
      });
    while (rounds_ < count) std::this_thread::yield();
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

// Handlers of the program's that were registered before the library's. They come between the library's own two.
std::atomic<bool> handlers_call{false}, handlers_fork{false}, handlers_wait{false};
std::atomic<bool> handler_waits{false}, waited_for{false}, other_entered{false}, other_was_in{false};
constinit Mutex mutex_of_handlers;
void call_in_handler() {
  if (handlers_fork.exchange(false)) {
    const pid_t helper = ::fork();
    if (helper == 0) ::_exit(0);
    wait_for(helper);
  }
  if (handlers_wait.exchange(false)) {
    for (handler_waits = true; !waited_for;) std::this_thread::yield();
    std::this_thread::sleep_for(200ms);
    other_was_in = other_entered.load();
    handler_waits = false;
  }
  if (handlers_call) const std::lock_guard lock(mutex_of_handlers);
}
__attribute__((constructor(101))) void register_first() {
  ::pthread_atfork(call_in_handler, call_in_handler, call_in_handler);
}

TEST_CASE("handlers around a fork may call the library, in the parent and in the child") {
  Busy busy(2, [] { const std::lock_guard lock(mutex_of_handlers); });
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    ::alarm(100);
    handlers_call = i % 4 != 3;
    handlers_fork = i % 2 == 1;  // by the first of them, within its own fork
    const std::uint32_t generation = tj::support::process_generation();
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(50);
      const std::lock_guard lock(mutex_of_handlers);
      ::_exit(tj::support::process_generation() == generation + 1 ? 0 : 1);
    }
    handlers_call = false;
    wrong += wait_for(child) != 0;
  }
  ::alarm(0);
  CHECK(wrong == 0);
}

TEST_CASE("a thread that a fork's handler waits for waits for that fork once, not in each of its sections") {
  ::alarm(100);  // a wait of 10 s in each section would take twice that
  std::thread waited([] {
    while (!handler_waits) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) const std::lock_guard lock(mutex_of_handlers);
    waited_for = true;
  });
  waited_for = false;
  handlers_wait = true;
  const int status = wait_for(start_child([] { return tj::support::locks_are_lost() ? 1 : 0; }));
  waited.join();
  ::alarm(0);
  CHECK(status == 0);
  CHECK(wait_for(start_child([] { return 0; })) == 0);
}

/// True when it is refused with advice.
template <class Call>
bool refused(Call call) {
  try {
    call();
  } catch (const tj::Error& error) {
    return error.message.find("was forked while") != std::string::npos &&
           error.message.find("exec() first") != std::string::npos;
  }
  return false;
}

TEST_CASE("a fork beside a section that waited for it in vain lets no other one begin, and its child is refused") {
  static constinit Mutex held;
  std::atomic<bool> over{false}, other_may{false};
  waited_for = other_entered = other_was_in = false;
  std::thread waited([&] {
    while (!handler_waits) std::this_thread::yield();
    const std::lock_guard lock(held);
    other_may = true;
    while (!over) std::this_thread::yield();
  });
  std::thread other([&] {
    while (!other_may) std::this_thread::yield();
    waited_for = true;  // the handler goes on beside it
    const std::lock_guard lock(mutex_of_handlers);
    other_entered = true;
  });
  handlers_wait = true;
  const int status = wait_for(start_child([] {
    ::alarm(60);
    if (!tj::support::locks_are_lost() || held.is_whole() || !mutex_of_handlers.is_whole()) return 1;
    if (!refused([] { tj::support::may_end_here(); })) return 2;
    const pid_t grandchild = start_child([] { return tj::support::locks_are_lost() ? 0 : 1; });
    if (wait_for(grandchild) != 0) return 3;
    std::exit(0);  // whose handlers take no lock
    return 4;
  }));
  over = true;
  waited.join();
  other.join();
  CHECK(status == 0);
  CHECK(!other_was_in);
  CHECK(!tj::support::locks_are_lost());
}

TEST_CASE("a forked child finds each mutex free, and what it guards whole") {
  Mutex outer, inner;
  std::vector<int> pair(2);
  const auto change = [&] {
    const std::lock_guard first(outer);
    ++pair[0];
    const std::lock_guard second(inner);
    ++pair[1];
  };
  const Busy busy(3, change);
  for (int i = 0; i < kForks; ++i)
    REQUIRE(wait_for(start_child([&] {
              ::alarm(60);
              if (tj::support::locks_are_lost()) return 2;
              const std::lock_guard first(outer), second(inner);
              return pair[0] == pair[1] ? 0 : 1;
            })) == 0);
}

TEST_CASE("a forked child opens libraries, whatever its parent's threads were opening") {
  const auto opens = [](const char* name) { return DynamicLibrary::open_first({name}, nullptr) != nullptr; };
  // Small ones of the C library that nothing else has open.
  const Busy one(1, [&] { opens("libanl.so.1"); }), another(1, [&] { opens("libutil.so.1"); });
  for (int i = 0; i < 5 * kForks; ++i)
    REQUIRE(wait_for(start_child([&] {
              ::alarm(60);
              return opens("librt.so.1") ? 0 : 1;
            })) == 0);
}

TEST_CASE("a fork waits for no turn; in the child those of other threads are free") {
  Turn turn;
  std::atomic<bool> taken{false}, stop{false};
  std::thread holder([&] {
    const std::lock_guard held(turn);
    taken = true;
    while (!stop) std::this_thread::sleep_for(1ms);
  });
  while (!taken) std::this_thread::yield();
  std::thread waiter([&] { const std::lock_guard held(turn); });
  for (int i = 0; i < kForks; ++i)
    CHECK(wait_for(start_child([&] {
            ::alarm(60);
            if (!turn.try_lock()) return 1;
            if (turn.try_lock()) return 2;
            turn.unlock();
            return turn.try_lock_for(1ms) ? 0 : 3;
          })) == 0);
  CHECK(!turn.try_lock());  // the parent's is as it was
  stop = true;
  holder.join();
  waiter.join();
  CHECK(turn.try_lock());
}

TEST_CASE("a thread that forks while it has a turn leaves the child's turns alone when it gives it back there") {
  Turn turn;
  turn.lock();
  CHECK(wait_for(start_child([&] {
          if (!turn.try_lock()) return 1;  // somebody else of the child
          std::thread([&] { turn.unlock(); }).join();
          return turn.try_lock() ? 0 : 2;
        })) == 0);
  turn.unlock();
}

TEST_CASE("one thread at a time has a turn, and none misses its own") {
  Turn turn;
  std::atomic<int> inside{0}, wrong{0};
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const std::lock_guard held(turn);
        if (inside++ != 0) ++wrong;
        ++count;
        --inside;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(count == 12000);
}

TEST_CASE("who waits for a turn is told when the time is over") {
  Turn turn;
  turn.lock();
  CHECK(!turn.try_lock_for(0ms));
  CHECK(!turn.try_lock_for(5ms));
  turn.unlock();
  CHECK(turn.try_lock_for(5ms));
}

TEST_CASE("a fork from a short section does not wait for the section itself") {
  Mutex mutex;
  const std::lock_guard lock(mutex);
  CHECK(wait_for(start_child([] { return 0; })) == 0);
}

TEST_CASE("forks by several threads at once, beside short sections") {
  Mutex mutex;
  const Busy busy(2, [&] { const std::lock_guard lock(mutex); });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kForks / 4; ++i)
        if (wait_for(start_child([&] {
              ::alarm(60);
              const std::lock_guard lock(mutex);
              return 0;
            })) != 0)
          ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a fork while something lasting is made finds it made or not begun") {
  for (int i = 0; i < kForks; ++i) {
    static constinit tj::support::Lasting<std::vector<int>> places[kForks];
    auto& place = places[i];
    const auto make = [] {
      std::this_thread::sleep_for(2ms);
      return std::vector<int>{1, 2, 3};
    };
    std::atomic<bool> begun{false};
    std::thread maker([&] {
      begun = true;
      place.get(make);
    });
    while (!begun) std::this_thread::yield();
    CHECK(wait_for(start_child([&] {
            ::alarm(60);
            return place.get(make).size() == 3 ? 0 : 1;
          })) == 0);
    maker.join();
  }
}

/// Counts how many there are.
struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --alive; }
  static inline std::atomic<int> alive{0};
  int value = 7;
};

Counted& of_this_thread() {
  thread_local constinit tj::support::PerThread<Counted> counted;
  return counted.get();
}

/// Asks for it while the thread ends: its own destructor runs after those of what was made later.
struct AsksLate {
  ~AsksLate() { found = of_this_thread().value; }
  static inline std::atomic<int> found{0};
};

TEST_CASE("an object of a thread is there for whoever asks while the thread ends, and goes with it") {
  std::thread([] {
    thread_local AsksLate late;
    (void)&late;
    of_this_thread().value = 8;
    CHECK(Counted::alive == 1);
  }).join();
  CHECK(AsksLate::found == 7);  // made again
  CHECK(Counted::alive == 0);
}

TEST_CASE("making something lasting that fails is tried again") {
  static constinit tj::support::Lasting<int> number;
  CHECK_THROWS(number.get([]() -> int { throw 1; }));
  CHECK(number.get([] { return 5; }) == 5);
  CHECK(number.get([] { return 6; }) == 5);
}

}  // namespace
