// Protects groups by NCCL: ranks that join by an id or by the caller's communicator, and how NCCL's errors are told.
// The fake NCCL copies between threads of this process, and the CPU model attends.
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
using test::FmhaProblem;
using test::SplitCase;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

SplitCase two_ranks() {
  SplitCase what;
  what.lengths = {64, 64};
  what.shape.seq_q = what.shape.seq_k = 128;
  what.shape.causal = true;
  what.shape.rows_first = true;
  return what;
}

/// Ranks are made in threads of their own: each waits for the others.
std::vector<dist::Group> joined(int size, const auto& make) {
  std::vector<std::optional<dist::Group>> made(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&made, &make, rank] { made[static_cast<std::size_t>(rank)].emplace(make(rank)); });
  for (std::thread& thread : threads) thread.join();
  std::vector<dist::Group> members;
  for (auto& each : made) members.push_back(*each);
  return members;
}

std::vector<dist::Group> by_id(int size) {
  const std::string id = dist::Group::unique_id();
  return joined(size, [&](int rank) { return dist::Group(testing::model_runtime(), id, rank, size, kCpu); });
}

}  // namespace

TEST_CASE("ranks that join by an id, or by the caller's communicator, attend together; a group ends with its copies") {
  const FakeNccl nccl;
  REQUIRE(::setenv("NCCL_NVLS_ENABLE", "0", 1) == 0);
  {
    auto members = by_id(2);
    CHECK(members[1].rank() == 1);
    CHECK(members[1].size() == 2);
    CHECK(members[0].device() == kCpu);
    FmhaProblem whole(two_ranks().shape, 5);
    for (int round = 0; round < 2; ++round)
      for (const std::string& said : run_split(whole, two_ranks(), members)) CHECK(said == "");
    CHECK(whole.problem() == "");
    CHECK(nccl.comms() == 2);
  }
  CHECK(nccl.comms() == 0);
  FakeNccl::Id id{"the caller's"};
  std::vector<void*> comms(2);
  auto members = joined(2, [&](int rank) {
    nccl.comm_init(&comms[static_cast<std::size_t>(rank)], 2, id, rank);
    return dist::Group(testing::model_runtime(), comms[static_cast<std::size_t>(rank)], kCpu);
  });
  FmhaProblem whole(two_ranks().shape, 6);
  for (const std::string& said : run_split(whole, two_ranks(), members)) CHECK(said == "");
  CHECK(whole.problem() == "");
  members.clear();
  CHECK(nccl.comms() == 2);  // the caller's stay
  for (void* const comm : comms) nccl.comm_destroy(comm);
}

TEST_CASE("errors of NCCL are told with its words, and no group of calls stays open") {
  const FakeNccl nccl;
  REQUIRE(::setenv("NCCL_NVLS_ENABLE", "0", 1) == 0);
  auto members = by_id(1);
  SplitCase what = two_ranks();
  what.lengths = {128};
  FmhaProblem whole(what.shape, 5);
  for (const char* call : {"ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd"}) {
    nccl.fail(call);
    const std::string said = run_split(whole, what, members)[0];
    const std::string wanted =
        std::string("launch: ") + call + " failed with unhandled system error (2): the fake's last word; ";
    CHECK_MESSAGE(testing::has(said, wanted), said);
    CHECK(nccl.open_groups() == 0);
    nccl.reset();
    // Its messages may be out of step with those of other ranks for good.
    const std::string then = run_split(whole, what, members)[0];
    CHECK_MESSAGE(testing::has(then, "the group is broken, as an earlier call of this rank failed: "), then);
    members = by_id(1);
    CHECK(nccl.aborts() == 1);  // destroying would wait for ranks that may not come
  }
  nccl.set_async(6);
  CHECK(
      testing::has(testing::said_by([&] { members[0].check(); }), "an earlier call of NCCL failed with an error (6)"));
  CHECK(testing::has(run_split(whole, what, members)[0], "an earlier call of NCCL failed"));
  nccl.set_async(0);
  CHECK(run_split(whole, what, members)[0] == "");
  nccl.set_busy(3);  // a communicator that does not block
  CHECK(run_split(whole, what, members)[0] == "");
  nccl.fail("ncclCommInitRank");
  const std::string id = dist::Group::unique_id();
  const auto said = [&](int rank, int size, Device device) {
    return testing::said_by([&] { dist::Group(testing::model_runtime(), id, rank, size, device); });
  };
  CHECK(testing::has(said(0, 1, kCpu), "ncclCommInitRank failed with"));
  CHECK(testing::has(said(2, 2, kCpu), "rank is 2; allowed: 0 to 1"));
  CHECK(testing::has(said(0, 0, kCpu), "size is 0; allowed: 1 to"));
  CHECK(testing::has(said(0, 1, {DeviceKind::hip, 0}), "device is hip:0; allowed: a GPU of NVIDIA"));
  CHECK(testing::has(testing::said_by([] { dist::Group(testing::model_runtime(), "short", 0, 1, kCpu); }),
                     "id has 5 bytes; allowed: the 128 of unique_id()"));
  CHECK(testing::has(testing::said_by([] { dist::Group(testing::model_runtime(), static_cast<void*>(nullptr), kCpu); }),
                     "nccl_comm is null"));
  REQUIRE(::unsetenv("NCCL_NVLS_ENABLE") == 0);
  CHECK(testing::has(said(0, 1, kCpu), "NCCL_NVLS_ENABLE is not set; set it to 0"));
}
