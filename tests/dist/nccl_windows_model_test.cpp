// Protects which NCCL is taken and what of it. One that is too old is named, and a new one opens the ranks' buffers by
// its windows. Handles go round where these fail, as without them.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include <tilejit/tilejit.hpp>

#include "dist/split_problem.hpp"
#include "fakes/fake_nccl.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FakeNccl;

namespace {

constexpr int kWithWindows = 22902;

std::vector<dist::Group> two_ranks(Runtime& runtime = testing::model_runtime()) {
  const std::string id = dist::Group::unique_id();
  std::vector<std::optional<dist::Group>> made(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&made, &id, &runtime, rank] {
      made[static_cast<std::size_t>(rank)].emplace(runtime, id, rank, 2, Device{DeviceKind::cpu, 0});
    });
  for (std::thread& thread : threads) thread.join();
  return {*made[0], *made[1]};
}

/// Each rank lets go of its member in a thread of its own, where the ranks meet.
void let_go(
    std::vector<dist::Group>& members, const std::function<void(int rank)>& before = [](int) {},
    const std::function<void(int rank)>& behind = [](int) {}) {
  std::vector<std::optional<dist::Group>> last;
  for (const dist::Group& member : members) last.emplace_back(member);
  members.clear();
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < last.size(); ++rank)
    threads.emplace_back([&last, &before, &behind, rank] {
      before(static_cast<int>(rank));
      last[rank].reset();
      behind(static_cast<int>(rank));
    });
  for (std::thread& thread : threads) thread.join();
}

test::SplitCase small() { return test::split_case(dist::Split::zigzag, {70, 70}, true); }

}  // namespace

// This one comes first: a process that has opened a NCCL keeps it.
TEST_CASE("a NCCL that is too old is named with its version") {
  const FakeNccl nccl;
  nccl.set_version(20500);
  const std::string said = testing::said_by([] { dist::Group::unique_id(); });
  if (said.empty()) return;
  CHECK_MESSAGE(testing::has(said, " has version 20500; version 2.10 or newer is needed"), said);
  nccl.reset();
  CHECK(testing::said_by([] { dist::Group::unique_id(); }) == "");
}

TEST_CASE("windows of a new NCCL are the ranks' buffers; an old one, or a window that fails, has handles go round") {
  const FakeNccl nccl;
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  ::setenv("TJ_DIST_TRANSPORT", "ipc", 1);
  test::SplitCase what;
  what.lengths = {70, 70};
  what.shape.seq_q = what.shape.seq_k = 140;
  what.shape.causal = true;
  what.shape.rows_first = true;
  std::uint64_t seed = 1;
  const auto described = [&] {
    std::vector<dist::Group> members = two_ranks();
    for (int n = 0; n < 3; ++n) {
      test::FmhaProblem whole(what.shape, seed++);
      for (const std::string& said : run_split(whole, what, members)) CHECK(said == "");
      CHECK(whole.problem() == "");
    }
    CHECK(members[0].description() == members[1].description());
    const std::string text = members[0].description();
    let_go(members);
    return text;
  };
  CHECK(testing::has(described(), "shared memory, 2 slots"));
  nccl.set_version(kWithWindows);
  CHECK(testing::has(described(), "NCCL's windows, 2 slots"));
  for (const char* call : {"ncclCommWindowRegister", "ncclGetPeerDevicePointer"}) {
    nccl.fail(call);
    CHECK(testing::has(described(), "shared memory, 2 slots"));
  }
  nccl.reset();
  nccl.set_version(kWithWindows);
  nccl.fail_once("ncclMemAlloc");                               // of one rank: the other one must not register alone
  CHECK(testing::has(described(), "NCCL's windows, 2 slots"));  // the words' memory went round by handles
  CHECK(nccl.alone() == 0);
  CHECK(nccl.windows() == 0);
  ::unsetenv("TJ_DIST_TRANSPORT");
  ::unsetenv("NCCL_NVLS_ENABLE");
}

TEST_CASE("ranks meet at a group's end; one that does not come, or a broken group, holds nobody up for long") {
  const FakeNccl nccl;
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  ::setenv("TJ_DIST_TRANSPORT", "ipc", 1);
  test::FmhaProblem whole(small().shape, 1);
  std::vector<dist::Group> members = two_ranks();
  CHECK(run_split(whole, small(), members) == std::vector<std::string>(2));
  std::atomic<bool> late_leaves = false, left_with_late = false;
  let_go(
      members,
      [&](int rank) {
        if (rank != 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        late_leaves = true;
      },
      [&](int rank) {
        if (rank == 1) left_with_late = late_leaves.load();
      });
  CHECK(left_with_late);
  CHECK(nccl.comms() == 0);
  CHECK(nccl.aborts() == 0);
  Options options;
  options.target = "model:sm_90a";
  options.wait_limit_s = 5;  // more than ranks that work are apart
  Runtime runtime(options);
  members = two_ranks(runtime);
  CHECK(run_split(whole, small(), members) == std::vector<std::string>(2));
  members.pop_back();
  CHECK(nccl.aborts() == 1);  // as rank 0 has not come
  CHECK(testing::said_by([&] { members[0].check(); }) == "");
  members.clear();
  CHECK(nccl.aborts() == 1);
  members = two_ranks(runtime);
  CHECK(run_split(whole, small(), members) == std::vector<std::string>(2));
  std::vector<dist::Group> alone{members[1]};
  run_split(whole, small(), alone);
  CHECK(testing::has(testing::said_by([&] { members[1].check(); }), "rank 0 did not bring segment 0"));
  alone.clear();
  members.clear();
  CHECK(nccl.comms() == 0);
  ::unsetenv("TJ_DIST_TRANSPORT");
  ::unsetenv("NCCL_NVLS_ENABLE");
}
