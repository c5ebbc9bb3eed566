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

}  // namespace
