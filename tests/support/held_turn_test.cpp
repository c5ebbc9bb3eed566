// Protects turns of a thread that comes to exit(): it gives back its own, once, and no other thread's.
#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <tilejit/runtime.hpp>

#include "support/fork_safe.hpp"
#include "support/log.hpp"
#include "support/process_end.hpp"
#include "support/scratch.hpp"

namespace {

using tj::testing::start_child;
using tj::testing::wait_for;

TEST_CASE("exit() in a signal's handler, in a thread that waits for a turn, does not give back another thread's") {
  CHECK(wait_for(start_child([] {
          ::alarm(200);
          static tj::support::Turn turn;
          static std::atomic<pid_t> waiting{0};
          std::atexit([] { ::_exit(turn.try_lock() ? 7 : 0); });
          tj::support::end_first();
          std::signal(SIGUSR1, [](int) { std::exit(4); });
          turn.lock();
          std::thread waits([] {
            waiting = ::gettid();
            const tj::support::HeldTurn held(turn);
          });
          while (waiting == 0 || !tj::testing::sleeps(waiting)) std::this_thread::yield();
          ::pthread_kill(waits.native_handle(), SIGUSR1);
          for (;;) ::pause();
          return 5;
        })) == 0);
}

/// A child in which a thread calls exit() with a turn in its hands, as the first one or the second one. 0: the handlers
/// find the turn free, and were told by what is newer first.
int exits_with_a_turn(bool first) {
  return wait_for(start_child([first] {
    ::alarm(200);
    static tj::support::Turn turn;
    static std::atomic<int> order{0};
    static std::atomic<bool> inside{false};
    std::atexit([] {
      while (order != 21) std::this_thread::yield();
      ::_exit(turn.try_lock() ? 0 : 7);
    });
    tj::support::end_first();
    std::thread([first] {
      const auto older = [] { order = 10 * order + 1; };
      const auto newer = [] { order = 10 * order + 2; };
      const tj::support::IfExitComes one(older);
      const tj::support::HeldTurn held(turn);
      const tj::support::IfExitComes two(newer);
      inside = true;
      while (!first && !tj::support::process_is_ending()) std::this_thread::yield();
      std::exit(4);
    }).detach();
    while (!inside) std::this_thread::yield();
    if (first)
      for (;;) ::pause();
    std::exit(3);
    return 5;
  }));
}

TEST_CASE("a thread in exit() gives back what others wait for, the newest first") {
  CHECK(exits_with_a_turn(true) == 0);
  CHECK(exits_with_a_turn(false) == 0);
}

TEST_CASE("what a thread would give back in exit() is not called where it goes on") {
  int called = 0;
  {
    const auto gone = [&called] { ++called; };
    const tj::support::IfExitComes one(gone);
  }
  tj::support::Turn turn;
  {
    const tj::support::HeldTurn held(turn);
  }
  tj::support::IfExitComes::call_all();
  CHECK(called == 0);
  CHECK(turn.try_lock());
}

TEST_CASE("a thread that asks once more for its own turn goes on at once, and has it as long as before") {
  static tj::support::Turn turn;
  const auto is_free = [] {
    bool free = false;
    std::thread([&free] {
      free = turn.try_lock();
      if (free) turn.unlock();
    }).join();
    return free;
  };
  {
    const tj::support::HeldTurn held(turn);
    CHECK(!held.is_again());
    {
      const tj::support::HeldTurn again(turn);
      CHECK(again.is_again());
    }
    CHECK(!is_free());
  }
  CHECK(is_free());
}

TEST_CASE("a child that goes on where its parent had a turn gives back no other thread's") {
  CHECK(wait_for(start_child([] {
          ::alarm(100);
          static tj::support::Turn turn;
          int status = 5;
          {
            const tj::support::HeldTurn of_parent(turn);
            if (const pid_t child = ::fork(); child != 0) ::_exit(wait_for(child));
            std::thread([] { turn.lock(); }).join();
            status = 0;
          }
          return turn.try_lock() ? 7 : status;
        })) == 0);
}

TEST_CASE("handlers of a thread that called exit() with a turn in its hands wait for that turn like any other thread") {
  CHECK(wait_for(start_child([] {
          ::alarm(100);
          static tj::support::Turn turn;
          static std::atomic<bool> taken{false}, over{false};
          std::atexit([] {
            std::thread([] {
              const tj::support::HeldTurn held(turn);
              taken = true;
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              over = true;
            }).detach();
            while (!taken) std::this_thread::yield();
            const tj::support::HeldTurn behind(turn);
            ::_exit(over && !behind.is_again() ? 0 : 7);
          });
          const tj::support::HeldTurn held(turn);
          std::exit(4);
          return 5;
        })) == 0);
}

TEST_CASE("exit() in a log sink gives a turn back before an object of the thread's is destroyed that waits for it") {
  CHECK(wait_for(start_child([] {
          ::alarm(20);
          static tj::support::Turn turn;
          static std::thread other;
          struct Joins {
            bool made = false;
            ~Joins() {
              other.join();
              ::_exit(0);
            }
          };
          tj::support::may_end_here();
          static thread_local Joins newer;  // than what the library has in the list of the thread's end
          newer.made = true;
          const tj::support::Log log(tj::LogLevel::warn, [](tj::LogLevel, std::string_view) {
            other = std::thread([] { turn.lock(); });
            std::exit(4);
          });
          const tj::support::HeldTurn held(turn);
          log(tj::LogLevel::warn, "a word");
          return 5;
        })) == 0);
}

}  // namespace
