// Protects work in the background: its order, how much goes on at once, its end, and what becomes of it in a forked
// child. Destructors of what is local to a thread run at that thread's end, and may call the library.
#include "support/workers.hpp"

#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/fork_safe.hpp"
#include "support/full.hpp"
#include "support/process_end.hpp"
#include "support/scratch.hpp"

namespace {

using namespace std::chrono_literals;
using tj::support::Bell;
using tj::support::Workers;
using tj::testing::start_child;
using tj::testing::wait_for;

/// A gate that tasks wait at.
class Gate {
 public:
  void open() {
    open_ = true;
    bell_.ring();
  }
  void pass() {
    ++arrived_;
    bell_.ring();
    wait([&] { return open_.load(); });
  }
  void wait_for_arrivals(int count) {
    wait([&] { return arrived_.load() >= count; });
  }
  int arrived() const { return arrived_; }

 private:
  template <class Until>
  void wait(Until until) {
    while (true) {
      const auto rung = bell_.rung();
      if (until()) return;
      bell_.wait(rung, 1s);
    }
  }
  std::atomic<bool> open_{false};
  std::atomic<int> arrived_{0};
  Bell bell_;
};

template <class Until>
void wait_until(Until until) {
  while (!until()) std::this_thread::sleep_for(100us);
}

TEST_CASE("a queue's tasks are done in their order, one at a time, also by a thread that begins anew") {
  std::vector<int> order;
  std::atomic<int> inside{0}, wrong{0}, done{0};
  Workers workers;
  const auto queue = workers.queue(1);
  for (int i = 0; i < 200; ++i) {
    REQUIRE(queue->add([&, i] {
      if (inside++ != 0) ++wrong;
      order.push_back(i);
      --inside;
      ++done;
    }));
    if (i % 50 == 49) wait_until([&] { return done == i + 1; });
  }
  workers.stop();
  CHECK(wrong == 0);
  CHECK(order.size() == 200);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a queue works at as many tasks at once as it was made for, beside other queues") {
  Gate gate;
  std::atomic<int> others{0};
  Workers workers;
  const auto three = workers.queue(3), one = workers.queue(1);
  for (int i = 0; i < 5; ++i) REQUIRE(three->add([&] { gate.pass(); }));
  gate.wait_for_arrivals(3);
  REQUIRE(one->add([&] { ++others; }));
  wait_until([&] { return others == 1; });
  CHECK(gate.arrived() == 3);
  gate.open();
  gate.wait_for_arrivals(5);
}

TEST_CASE("the end waits for what has begun, destroys the rest undone, and takes nothing more") {
  Gate gate;
  std::atomic<int> done{0};
  const auto kept = std::make_shared<int>(1);
  auto workers = std::make_unique<Workers>();
  const auto queue = workers->queue(1);
  REQUIRE(queue->add([&, kept] {
    gate.pass();
    ++done;
  }));
  for (int i = 0; i < 3; ++i) REQUIRE(queue->add([&, kept] { ++done; }));
  gate.wait_for_arrivals(1);
  std::thread opener([&] {
    wait_until([&] { return kept.use_count() == 2; });  // the three are gone
    gate.open();
  });
  CHECK(!workers->stopped());
  workers->stop();
  CHECK(done == 1);
  CHECK(workers->stopped());
  opener.join();
  CHECK(kept.use_count() == 1);
  CHECK(!queue->add([] {}));
  workers.reset();
  CHECK(!queue->add([] {}));
}

TEST_CASE("tasks may add tasks, and keep what their queue is part of") {
  Gate gate;
  Workers workers;
  struct List {
    std::shared_ptr<Workers::Queue> queue;
    std::atomic<int> done{0};
  };
  auto list = std::make_shared<List>();
  list->queue = workers.queue(2);
  const std::weak_ptr<List> there = list;
  REQUIRE(list->queue->add([list, &gate] {
    list->queue->add([list, &gate] {
      gate.pass();
      ++list->done;
    });
  }));
  list.reset();
  gate.wait_for_arrivals(1);
  gate.open();
  wait_until([&] { return there.expired(); });
  workers.stop();
}

TEST_CASE("a forked child does anew what was under way or waited in its parent, once it asks for it") {
  Gate gate;
  std::atomic<int> first{0}, second{0};
  Workers workers;
  const auto queue = workers.queue(1);
  REQUIRE(queue->add([&] {
    ++first;
    gate.pass();
  }));
  REQUIRE(queue->add([&] { ++second; }));
  gate.wait_for_arrivals(1);
  CHECK(wait_for(start_child([&] {
          ::alarm(60);
          if (second != 0) return 1;
          gate.open();
          queue->go_on();
          wait_until([&] { return second == 1; });
          return first == 2 ? 0 : 2;
        })) == 0);
  CHECK(wait_for(start_child([&] {  // and an end there waits for no thread of the parent
          ::alarm(60);
          workers.stop();
          return first == 1 && second == 0 && !queue->add([] {}) ? 0 : 1;
        })) == 0);
  queue->go_on();  // nothing, here
  gate.open();
  wait_until([&] { return second == 1; });
  CHECK(first == 1);
}

// A fork copies the address sanitizer's allocator with the locks that other threads hold just then (clang 14).
TEST_CASE("forks beside workers: each child works on its own" * doctest::skip(tj::testing::kSanitized)) {
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  Workers workers;
  const auto queue = workers.queue(2);
  std::thread adder([&] {
    while (!stop) {
      queue->add([&] { ++rounds; });
      std::this_thread::sleep_for(50us);
    }
  });
  wait_until([&] { return rounds > 10; });
  for (int i = 0; i < 20; ++i)
    CHECK(wait_for(start_child([&] {
            ::alarm(60);
            std::atomic<bool> done{false};
            if (!queue->add([&] { done = true; })) return 1;
            wait_until([&] { return done.load(); });
            return 0;
          })) == 0);
  stop = true;
  adder.join();
}

TEST_CASE("a worker has the program's signals blocked") {
  std::atomic<int> blocked{-1};
  Workers workers;
  workers.queue(1)->add([&] {
    sigset_t now;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
    blocked = ::sigismember(&now, SIGTERM) + ::sigismember(&now, SIGUSR1) - ::sigismember(&now, SIGSEGV);
  });
  wait_until([&] { return blocked >= 0; });
  CHECK(blocked == 2);
  sigset_t own;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
  CHECK(::sigismember(&own, SIGTERM) == 0);
}

TEST_CASE("a task may end its thread, and the others are worked at by another one") {
  std::atomic<int> done{0};
  Workers workers;
  const auto queue = workers.queue(1);
  for (int i = 0; i < 6; ++i)
    REQUIRE(queue->add([&, i] {
      ++done;
      if (i % 3 == 1) ::pthread_exit(nullptr);
    }));
  wait_until([&] { return done == 6; });
  REQUIRE(queue->add([&] { ++done; }));
  wait_until([&] { return done == 7; });
  workers.stop();
}

/// An object of a thread's own. It is destroyed as the thread ends, behind all tasks.
struct AtEnd {
  ~AtEnd() {
    if (act) act();
  }
  std::function<void()> act;
};
thread_local AtEnd at_end;

/// A task makes the object, and the thread comes to its destructor before this returns.
void begin_end(Workers::Queue& queue, Gate& gate, std::function<void()> act) {
  REQUIRE(queue.add([&gate, act = std::move(act)] {
    at_end.act = [&gate, act] {
      gate.pass();
      act();
    };
  }));
  gate.wait_for_arrivals(1);
}

TEST_CASE("what a thread's end destroys may ask about the end of its workers, and is told when that has begun") {
  CHECK(wait_for(start_child([] {
          ::alarm(60);
          Gate gate;
          Workers workers;
          const auto queue = workers.queue(1);
          std::string_view why;
          begin_end(*queue, gate,
                    [&why] { wait_until([&why] { return !(why = Workers::why_wait_no_more()).empty(); }); });
          gate.open();
          workers.stop();  // waits for that thread, without what the question needs
          return why.find("this runtime is ending") == why.npos ? 1 : 0;
        })) == 0);
}

TEST_CASE("no call waits for what the end of another thread destroys") {
  CHECK(wait_for(start_child([] {
          ::alarm(60);
          Gate gate;
          std::atomic<int> done{0};
          Workers workers;
          const auto queue = workers.queue(1);
          begin_end(*queue, gate, [&done] { ++done; });
          if (!queue->add([&done] { ++done; })) return 1;
          wait_until([&done] { return done == 1; });
          gate.open();
          workers.stop();
          return done == 2 ? 0 : 2;
        })) == 0);
}

TEST_CASE("a queue that all others have let go of is there until its thread's end is over") {
  Gate task;
  std::atomic<int> there{0};
  Workers workers;
  auto queue = workers.queue(1);
  const std::weak_ptr<Workers::Queue> asked = queue;
  REQUIRE(queue->add([&] {
    at_end.act = [&] { there = asked.expired() ? -1 : 1; };
    task.pass();
  }));
  task.wait_for_arrivals(1);
  queue.reset();
  task.open();
  wait_until([&] { return there != 0; });
  CHECK(there == 1);
  workers.stop();
  CHECK(asked.expired());
}

TEST_CASE("the end of a thread may end its own workers") {
  CHECK(wait_for(start_child([] {
          ::alarm(60);
          Gate gate;
          auto workers = std::make_unique<Workers>();
          std::atomic<bool> ended{false};
          begin_end(*workers->queue(1), gate, [&] {
            workers.reset();
            ended = true;
          });
          gate.open();
          wait_until([&] { return ended.load(); });
          return 0;
        })) == 0);
}

/// A child whose handler stops workers while a task of theirs, or what that has made local to its thread, is in exit().
/// It is the first one there, or the second one. 0: the handler is done with it.
int stops_beside_exit(bool first, bool of_thread) {
  return wait_for(start_child([first, of_thread] {
    ::alarm(60);
    static Workers& workers = *new Workers();
    static std::atomic<bool> begun{false}, go{false}, dropped{false};
    const auto queue = workers.queue(1);
    std::atexit([] {
      if (!dropped) ::_exit(8);  // nobody begins what waits
      workers.stop();
      ::_exit(0);
    });
    const auto leaves = [first] {
      while (!go || (!first && !tj::support::process_is_ending())) std::this_thread::yield();
      std::exit(4);
    };
    queue->add([leaves, of_thread] {
      begun = true;
      if (!of_thread) return leaves();
      at_end.act = leaves;
    });
    std::shared_ptr<void> waits(nullptr, [](void*) { dropped = true; });
    if (!of_thread) queue->add([waits] { ::_exit(9); });
    waits.reset();
    while (!begun) std::this_thread::yield();
    go = true;
    tj::support::end_first();  // before the handler
    if (first)
      for (;;) ::pause();
    std::exit(3);
    return 5;
  }));
}

TEST_CASE("the end of workers does not wait for a thread of theirs that is in exit()") {
  for (const bool first : {false, true}) {
    CAPTURE(first);
    CHECK(stops_beside_exit(first, false) == 0);
    CHECK(stops_beside_exit(first, true) == 0);
  }
}

TEST_CASE("who adds a task is told in a child that ends its workers, also of one that ran in the parent") {
  CHECK(wait_for(start_child([] {
          static std::atomic<int> begun{0}, left{0};
          auto workers = std::make_unique<Workers>();
          const auto queue = workers->queue(1);
          const auto begins = [] {
            for (++begun;;) ::pause();
          };
          for (int i = 0; i < 3; ++i) queue->add(begins, [] { ++left; });
          while (begun == 0) std::this_thread::yield();
          ::_exit(wait_for(start_child([&] {
            ::alarm(50);
            workers.reset();
            return left == 3 ? 0 : 7;
          })));
          return 9;
        })) == 0);
}

}  // namespace
