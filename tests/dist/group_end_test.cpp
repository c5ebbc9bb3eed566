// Protects ends that go wrong. A last copy is dropped by a thread that is cancelled, on a device that answers with an
// error, or without memory. The fake driver does not run kernels.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "dist/fake_ranks.hpp"
#include "dist/split_problem.hpp"
#include "support/allocations.hpp"
#include "support/cancelled.hpp"
#include "support/full.hpp"

using namespace tj;
using test::FakeNccl;
using test::has;
using test::kCalls;
using test::Machine;
using test::Ranks;

namespace {

constexpr int kNotReady = 600, kLaunchFailed = 719, kInCapture = 900;  // results of the driver

constexpr const char* kNoMemory = "no memory";

/// The exit status of a child in which this is done; minus a signal that ended it.
int in_child(const std::function<int()>& work) {
  return testing::wait_for(testing::start_child([&] {
    ::alarm(120);
    return work();
  }));
}

/// The next so many calls of this name fail.
void fail_next(const Machine& machine, const char* call, int times, int result) {
  const int before = count_calls(machine.cuda, call);
  for (int n = 1; n <= times; ++n) machine.cuda.fail(call, before + n, result);
}

/// Launches of a call fail behind the second one, and so does one allocation. The fake keeps no log then, which would
/// allocate, too.
struct Trouble {
  const Machine& machine;
  bool events_too = false;
  long allocations = 0;  ///< that go well; negative: all
  int launches = 0;
  long before = 0;  ///< allocations of the thread
  static void behind_launch(const void*, void* user) {
    auto& own = *static_cast<Trouble*>(user);
    if (++own.launches < 2) return;  // a turn has begun behind the first one
    own.machine.cuda.on_launch(nullptr, nullptr);
    own.machine.cuda.record(0);
    own.machine.cuda.set_lost(kLaunchFailed, own.events_too ? kLaunchFailed : 0);
    own.before = testing::thread_allocations();
    testing::fail_allocation_after(own.allocations);
  }
};

struct Said {
  std::string call, then;  ///< by a call of rank 0 in such trouble, and by a look at its group; "": nothing
  long allocations = 0;    ///< of the call, behind the trouble's begin
};
Said in_trouble(const std::string& call, bool events_too, long allocations) {
  Machine machine;
  Runtime runtime(machine.options());
  Ranks ranks(runtime);
  ranks.each([&](int rank) { make_call(ranks, rank, call); });
  Trouble trouble{machine, events_too, allocations};
  machine.cuda.on_launch(&Trouble::behind_launch, &trouble);
  Said said;
  const auto ended = [&](const char* why) {
    testing::fail_allocation_after(-1);
    said.allocations = testing::thread_allocations() - trouble.before;
    said.call = why;
  };
  try {
    make_call(ranks, 0, call);
  } catch (const Error& error) {
    ended(error.message.c_str());
  } catch (const std::bad_alloc&) {
    ended(kNoMemory);
  }
  testing::fail_allocation_after(-1);
  said.then = testing::said_by([&] { ranks.members[0]->check(); });
  return said;
}

}  // namespace

TEST_CASE("a thread that is cancelled while it drops the last copy of a group ends behind that") {
  const FakeNccl nccl;
  Machine machine;
  std::optional<Runtime> runtime;
  std::optional<Ranks> ranks;
  CHECK(testing::end_of_cancelled([&] { ranks->members[0].reset(); },
                                  [&] {
                                    runtime.emplace(machine.options());
                                    ranks.emplace(*runtime);
                                    ranks->attend();
                                    fail_next(machine, "cuStreamQuery", 2, kNotReady);
                                  }) == 0);
}

TEST_CASE("buffers of a broken group stay where the driver does not say whether its stream is idle") {
  const FakeNccl nccl;
  for (const int result : {kInCapture, kLaunchFailed}) {
    Machine machine;
    Runtime runtime(machine.options());
    Ranks ranks(runtime);
    ranks.attend();
    fail_next(machine, "cuLaunchKernelEx", 2, kLaunchFailed);
    ranks.attend();
    for (const std::string& said : ranks.said) CHECK(said != "");
    fail_next(machine, "cuStreamQuery", 100, result);
    const int freed = count_calls(machine.cuda, "cuMemFree");
    ranks.each([&](int rank) { ranks.members[static_cast<std::size_t>(rank)].reset(); });
    CHECK(nccl.aborts() == 2);
    CHECK(count_calls(machine.cuda, "cuMemFree") == freed);
    CHECK(count_calls(machine.cuda, "cuIpcCloseMemHandle") == 0);
    nccl.reset();
  }
}

TEST_CASE("a broken group that is dropped without memory does not end the process") {
  CHECK(in_child([] {
          ::setenv("TJ_DIST_TRANSPORT", "ipc", 1);
          Options options;
          options.target = "model:sm_90a";
          options.cache_dir = "";
          options.wait_limit_s = 0.01;
          Runtime runtime(options);
          for (long n = 0; n < 16; ++n) {
            const test::SplitCase what = test::split_case(dist::Split::zigzag, {8, 8}, true);
            test::FmhaProblem whole(what.shape, 3);
            std::vector<dist::Group> members = dist::Group::on_model(runtime, 2);
            std::vector<dist::Group> alone{members[0]};
            if (run_split(whole, what, alone)[0].empty()) return 1;
            alone.clear();
            testing::fail_allocations_from(n);
            members.clear();
            testing::fail_allocations_from(-1);
          }
          return 0;
        }) == 0);
}

TEST_CASE("a call that fails without memory for its words breaks the group and joins its streams all the same") {
  const FakeNccl nccl;
  for (const std::string name : kCalls)
    for (const bool events_too : {false, true}) {
      CAPTURE(name);
      CAPTURE(events_too);
      CHECK(in_child([&] {
              const long most = in_trouble(name, events_too, -1).allocations;
              bool without_memory = false;
              for (long n = 0; n < most; ++n) {
                const Said said = in_trouble(name, events_too, n);
                if (said.call.empty()) return 1;
                if (!has(said.then, "the group is broken")) return 2;
                without_memory = without_memory || said.call == kNoMemory;
              }
              return without_memory || testing::kThreadSanitized ? 0 : 3;
            }) == 0);
    }
}
