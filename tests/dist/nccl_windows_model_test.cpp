// Protects which NCCL is taken and what of it: one that is too old is named, and a new one opens the ranks' buffers by
// its windows. Where these fail, handles go round as without them.
#include <doctest/doctest.h>

#include <cstdlib>
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

std::vector<dist::Group> two_ranks() {
  const std::string id = dist::Group::unique_id();
  std::vector<std::optional<dist::Group>> made(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&made, &id, rank] {
      made[static_cast<std::size_t>(rank)].emplace(testing::model_runtime(), id, rank, 2, Device{DeviceKind::cpu, 0});
    });
  for (std::thread& thread : threads) thread.join();
  return {*made[0], *made[1]};
}

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
    return members[0].description();
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
  nccl.fail_once("ncclMemAlloc");  // of one rank: the other one must not register alone
  CHECK(testing::has(described(), "NCCL's windows, 2 slots"));  // the words' memory went round by handles
  CHECK(nccl.alone() == 0);
  CHECK(nccl.windows() == 0);
  ::unsetenv("TJ_DIST_TRANSPORT");
  ::unsetenv("NCCL_NVLS_ENABLE");
}
