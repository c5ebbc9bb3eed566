// Protects what goes on while a process ends: who waits for whom, and that a child which was forked meanwhile can end.
#include "support/process_end.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "support/full.hpp"
#include "support/scratch.hpp"

namespace {

using tj::support::BeforeEnd;
using tj::testing::start_child;
using tj::testing::wait_for;

TEST_CASE("a child that is forked while handlers are registered can register its own" *
          doctest::skip(tj::testing::kSanitized)) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (!over) tj::support::end_first();
    });
  int hung = 0;
  for (int i = 0; i < 60; ++i)
    hung += wait_for(start_child([] {
              ::alarm(20);
              return std::atexit([] {});
            })) != 0;
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(hung == 0);
}

TEST_CASE("the end waits for what has begun, refuses what begins then, and work within work goes on") {
  CHECK(wait_for(start_child([] {
          static std::atomic<int> state{0};
          static const auto begins = [] { return static_cast<bool>(BeforeEnd()); };
          tj::support::end_first("this test");
          std::thread([] {
            const BeforeEnd whole;
            state = 1;
            while (!tj::support::process_is_ending()) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            state = begins() ? 2 : 3;
          }).detach();
          while (state == 0) std::this_thread::yield();
          std::atexit([] { ::_exit(state == 2 && !begins() ? 0 : 1); });  // behind the library's
          tj::support::end_first();
          std::exit(2);
          return 2;
        })) == 0);
}

/// A child of this process that has called no end_first() yet, in which `forks` is called while another thread's
/// BeforeEnd lives. Gives what `forks` gives.
int beside_work(int (*forks)()) {
  return wait_for(start_child([forks] {
    ::alarm(400);
    static std::atomic<bool> begun{false};
    std::thread([] {
      const BeforeEnd whole;
      begun = true;
      for (;;) ::pause();
    }).detach();
    while (!begun) std::this_thread::yield();
    ::_exit(forks());
    return 9;
  }));
}
/// It leaves by exit(). 0: without a wait for what only its parent has.
int leaves_at_once() {
  ::alarm(200);
  std::atexit([] { ::_exit(tj::support::process_end_is_late() ? 6 : 0); });
  std::exit(3);
  return 5;
}
/// The same, where its own work is waited for.
int waits_for_its_own() {
  ::alarm(200);
  static std::atomic<int> state{0};
  std::atexit([] { ::_exit(tj::support::process_end_is_late() || state != 2 ? 7 : 0); });
  std::thread([] {
    const BeforeEnd whole;
    state = 1;
    while (!tj::support::process_is_ending()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    state = 2;
  }).detach();
  while (state == 0) std::this_thread::yield();
  tj::support::end_first();
  std::exit(4);
  return 5;
}

TEST_CASE("a child that is forked during the process's first work waits for its own work alone") {
  CHECK(beside_work([] { return wait_for(start_child(leaves_at_once)); }) == 0);
  CHECK(beside_work([] { return wait_for(start_child(waits_for_its_own)); }) == 0);
  CHECK(beside_work([] {
          const BeforeEnd in_this_thread;
          return wait_for(start_child(waits_for_its_own));
        }) == 0);
}

TEST_CASE("a main thread that ends while another one is in exit() waits for it") {
  CHECK(wait_for(start_child([] {
          tj::support::end_first("this test");
          std::thread([] {
            const BeforeEnd in_this_thread;
            std::atexit([] {
              std::this_thread::sleep_for(std::chrono::milliseconds(300));
              ::_exit(0);
            });
            tj::support::end_first();
            std::exit(3);
          }).detach();
          while (!tj::support::process_is_ending()) std::this_thread::yield();
          std::exit(4);
          return 5;
        })) == 0);
}

/// A child whose main thread ends it while another thread works; `other` is called by a third one meanwhile, which goes
/// on to exit(). 0: the main thread alone ran the program's handlers, and did so behind the work.
int two_exits(void (*other)()) {
  return wait_for(start_child([other] {
    static std::atomic<bool> working{true}, second{false};
    ::alarm(200);
    static const auto look = [] {
      if (working || ::gettid() != ::getpid()) ::_exit(working ? 8 : 9);
    };
    std::atexit([] {
      look();
      ::_exit(0);
    });
    std::atexit([] {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    });
    tj::support::end_first();
    const std::atomic<bool>* const begun = [] {
      static std::atomic<bool> work{false};
      std::thread([] {
        const BeforeEnd whole;
        work = true;
        while (!second) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        working = false;
      }).detach();
      return &work;
    }();
    while (!*begun) std::this_thread::yield();
    std::thread([other] {
      while (!tj::support::process_is_ending()) std::this_thread::yield();
      other();
      second = true;
      std::exit(4);
    }).detach();
    std::exit(3);
    return 5;
  }));
}

TEST_CASE("a second thread that calls exit() runs no handler, whether it has used the library or not") {
  CHECK(two_exits([] {}) == 0);
  CHECK(two_exits([] { tj::support::may_end_here(); }) == 0);
}

/// A child with nothing under way, whose first thread in exit() is in a handler when the second one calls it. Both have
/// used the library. 0: the handler came to its end.
int calls_exit_beside_a_handler(bool main_first) {
  return wait_for(start_child([main_first] {
    ::alarm(200);
    static std::atomic<bool> in_handler{false};
    std::atexit([] {
      in_handler = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::_exit(0);
    });
    const auto ends = [](int status, bool waits) {
      tj::support::may_end_here();
      while (waits && !in_handler) std::this_thread::yield();
      std::exit(status);
    };
    std::thread(ends, 3, main_first).detach();
    if (!main_first) std::thread(ends, 4, true).detach();
    if (main_first) ends(5, false);
    for (;;) ::pause();
    return 6;
  }));
}

TEST_CASE("a second thread that calls exit() stays there also where the end waits for nothing") {
  CHECK(calls_exit_beside_a_handler(true) == 0);
  CHECK(calls_exit_beside_a_handler(false) == 0);
}

TEST_CASE("a second thread stays in exit() also where an object that its own end destroys calls that") {
  CHECK(wait_for(start_child([] {
          ::alarm(200);
          static std::atomic<bool> at_its_end{false}, in_handler{false};
          struct Exits {
            bool made = false;
            ~Exits() {
              tj::support::may_end_here();
              at_its_end = true;
              while (!in_handler) std::this_thread::yield();
              std::exit(3);
            }
          };
          std::atexit([] { ::_exit(9); });  // which the second thread would run
          std::atexit([] {
            in_handler = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            ::_exit(0);
          });
          std::thread([] {
            static thread_local Exits older;  // than what the library has in the list of the thread's end
            older.made = true;
            tj::support::may_end_here();
          }).detach();
          while (!at_its_end) std::this_thread::yield();
          std::exit(5);
          return 6;
        })) == 0);
}

/// A child that calls exit() while two threads' work registers handlers, as the constructors of a library do that is
/// opened. 0: none of these ran before the work was done.
int exits_beside_registrations() {
  return wait_for(start_child([] {
    static std::atomic<int> working{2}, begun{0};
    ::alarm(200);
    std::atexit([] { ::_exit(0); });
    tj::support::may_end_here();
    for (int t = 0; t < 2; ++t)
      std::thread([] {
        const BeforeEnd whole;
        for (int count = 0; count < 5000; ++count) {
          std::atexit([] {
            if (working != 0) ::_exit(6);
          });
          if (count == 100) ++begun;
        }
        --working;
      }).detach();
    while (begun != 2) std::this_thread::yield();
    std::exit(3);
    return 5;
  }));
}

// Sanitizers put functions of their own between a program and the list of handlers.
TEST_CASE("exit() in a thread that has used the library runs no handler that work registers meanwhile" *
          doctest::skip(tj::testing::kSanitized)) {
  int wrong = 0;
  for (int i = 0; i < 50; ++i) wrong += exits_beside_registrations() != 0;
  CHECK(wrong == 0);
}

TEST_CASE("nobody waits for the work of a thread that calls exit() as the second one") {
  CHECK(wait_for(start_child([] {
          static std::atomic<bool> begun{false};
          ::alarm(200);
          std::atexit([] { ::_exit(tj::support::process_end_is_late() ? 6 : 0); });
          tj::support::end_first();
          std::thread([] {
            const BeforeEnd in_this_thread;
            begun = true;
            while (!tj::support::process_is_ending()) std::this_thread::yield();
            std::exit(4);
          }).detach();
          while (!begun) std::this_thread::yield();
          std::exit(3);
          return 5;
        })) == 0);
}

TEST_CASE("a thread that has used the library and comes to its own end while the process ends can be joined") {
  CHECK(wait_for(start_child([] {
          ::alarm(200);
          static std::thread user([] {
            tj::support::may_end_here();
            while (!tj::support::process_is_ending()) std::this_thread::yield();
          });
          std::atexit([] {
            user.join();
            ::_exit(0);
          });
          tj::support::end_first();
          std::exit(3);
          return 5;
        })) == 0);
}

}  // namespace
