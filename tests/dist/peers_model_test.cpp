// Protects attention over buffers that ranks write for each other, on ranks of the CPU model. Both orders are held
// against f64 and against messages. Runs are uneven or empty, epochs wrap, and ranks come late, never, or with other
// arguments.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include <tilejit/tilejit.hpp>

#include "dist/split_problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using dist::Split;
using test::FmhaProblem;
using test::split_case;
using test::SplitCase;

namespace {

/// Variables of the environment, which groups read when they are made.
class Chosen {
 public:
  Chosen(const char* transport, const char* order) {
    ::setenv("TJ_DIST_TRANSPORT", transport, 1);
    ::setenv("TJ_DIST_ORDER", order, 1);
  }
  ~Chosen() {
    ::unsetenv("TJ_DIST_TRANSPORT");
    ::unsetenv("TJ_DIST_ORDER");
  }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;
};

std::vector<dist::Group> members_of(const SplitCase& what, Runtime& runtime = testing::model_runtime()) {
  return dist::Group::on_model(runtime, static_cast<int>(what.lengths.size()));
}

/// "", or what is wrong with some calls of a case.
std::string run(const SplitCase& what, std::uint64_t seed, std::vector<dist::Group>& members, int calls = 3) {
  for (int n = 0; n < calls; ++n) {
    FmhaProblem whole(what.shape, seed + static_cast<std::uint64_t>(n));
    for (const std::string& said : run_split(whole, what, members))
      if (!said.empty()) return said;
    if (const std::string problem = whole.problem(); !problem.empty()) return problem;
  }
  return "";
}

std::vector<std::uint16_t> output(const SplitCase& what, std::uint64_t seed) {
  auto members = members_of(what);
  FmhaProblem whole(what.shape, seed);
  for (const std::string& said : run_split(whole, what, members)) CHECK(said == "");
  const auto* o = static_cast<const std::uint16_t*>(whole.args.o.data);
  return {o, o + whole.args.o.shape[0] * whole.args.o.strides[0]};
}

}  // namespace

TEST_CASE("each split in each order, causal and full, on 2 to 4 ranks, against f64") {
  std::uint64_t seed = 1;
  int index = 0;
  for (const char* order : {"whole", "own_first"}) {
    const Chosen chosen("ipc", order);
    for (const int ranks : {2, 3, 4})
      for (const Split split : {Split::contiguous, Split::zigzag, Split::striped})
        for (const bool causal : {false, true}) {
          if (testing::sampled_out(index++ + ranks)) continue;
          SplitCase what = split_case(split, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 70), causal);
          what.shape.heads_kv = seed % 2 == 0 ? 1 : 2;
          what.shape.batch = seed % 3 == 0 ? 2 : 1;
          what.shape.rows_first = seed % 4 < 2;
          what.shape.with_lse = seed % 5 != 0;
          const std::string text = what.text() + " " + order;
          CAPTURE(text);
          auto members = members_of(what);
          CHECK(run(what, seed++, members) == "");
          CHECK(testing::has(members[0].description(), "shared memory, 2 slots of "));
        }
  }
}

TEST_CASE("runs of unequal lengths and of none, windows, slopes and sinks; buffers grow") {
  std::uint64_t seed = 50;
  int index = 0;
  for (const char* order : {"own_first", "auto"}) {
    const Chosen chosen("ipc", order);
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{100, 0, 1, 40}, {0, 130}, {1, 8}, {0, 0, 5}}) {
      if (testing::thinned_out(index++)) continue;
      SplitCase what = split_case(Split::contiguous, lengths, true);
      what.told = true;
      if (seed % 2 == 0) what.shape.window.left = 33;
      CAPTURE(what.text());
      auto members = members_of(what);
      CHECK(run(what, seed++, members) == "");
    }
    SplitCase what = split_case(Split::zigzag, {64, 64}, true);
    auto members = members_of(what);
    CHECK(run(what, seed++, members, 1) == "");
    what.shape.batch = 80;
    what.shape.heads_kv = 2;
    const std::string before = members[0].description();
    CHECK(run(what, seed++, members, 1) == "");
    CHECK(members[0].description() != before);
    what = split_case(Split::zigzag, {64, 64}, true);
    what.shape.window.left = 40;
    what.shape.alibi = 1;
    what.shape.sinks = true;
    CHECK(run(what, seed++, members, 1) == "");
  }
}

TEST_CASE("keys that are brought together give the bits of messages; epochs wrap in few calls") {
  for (const Split split : {Split::contiguous, Split::zigzag, Split::striped}) {
    const SplitCase what = split_case(split, {70, 70}, true);
    const std::vector<std::uint16_t> wanted = output(what, 9);
    const Chosen chosen("ipc", "whole");
    CHECK(output(what, 9) == wanted);
  }
  const Chosen chosen("ipc", "own_first");
  const SplitCase what = split_case(Split::zigzag, {8, 8}, true);
  auto members = members_of(what);
  CHECK(run(what, 20, members, 40) == "");  // 20 turns of each slot: epochs begin 16 before 0
}

TEST_CASE("a rank that sleeps is waited for, one that never comes is named, and new groups work") {
  const Chosen chosen("ipc", "own_first");
  const SplitCase what = split_case(Split::zigzag, {8, 8}, true);
  auto members = members_of(what);
  FmhaProblem whole(what.shape, 3);
  for (int n = 0; n < 4; ++n) {
    const auto said = run_split(whole, what, members, [&](int rank, dist::ContextFmhaArgs&) {
      if (rank == n % 2) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    });
    CHECK(said == std::vector<std::string>(2));
    CHECK(whole.problem() == "");
  }
  Options options;
  options.target = "model:sm_90a";
  options.wait_limit_s = 5;  // more than ranks that work are apart
  Runtime runtime(options);
  members = members_of(what, runtime);
  CHECK(run(what, 5, members, 1) == "");
  std::vector<dist::Group> alone{members[1]};
  for (int n = 0; n < 2; ++n) {
    std::string said = run_split(whole, what, alone)[0];
    said += testing::said_by([&] { members[1].check(); });
    CHECK_MESSAGE(testing::has(said, "the group is broken: rank 0 did not bring segment 0 of epoch "), said);
    CHECK(testing::has(said, " to rank 1 within 5 s (TJ_WAIT_LIMIT)"));
  }
  CHECK(testing::said_by([&] { members[0].check(); }) == "");
  members = members_of(what, runtime);
  CHECK(run(what, 6, members) == "");
}

TEST_CASE("ranks that come behind another one's time-out do not take its bytes for good ones") {
  const Chosen chosen("ipc", "whole");
  const SplitCase what = split_case(Split::contiguous, {8, 8, 8}, false);
  Options options;
  options.target = "model:sm_90a";
  options.wait_limit_s = 5;
  Runtime runtime(options);
  auto members = members_of(what, runtime);
  CHECK(run(what, 5, members, 1) == "");
  FmhaProblem whole(what.shape, 3);
  for (const std::size_t rank : {1u, 2u, 0u}) {  // alone, each when the one before has ended
    std::vector<dist::Group> alone{members[rank]};
    std::string said = run_split(whole, what, alone)[0];
    said += testing::said_by([&] { members[rank].check(); });
    CHECK_MESSAGE(testing::has(said, "the group is broken: rank "), said);
    CHECK_MESSAGE(testing::has(said, " did not bring segment 0 of epoch "), said);
    CHECK_MESSAGE(testing::has(said, " to rank 1 within 5 s (TJ_WAIT_LIMIT)"), said);
  }
}

TEST_CASE("ranks whose arguments differ are told so, by number and epoch") {
  const Chosen chosen("ipc", "whole");
  const SplitCase what = split_case(Split::zigzag, {8, 8}, true);
  const std::function<void(dist::ContextFmhaArgs&)> changes[] = {
      [](dist::ContextFmhaArgs& args) { args.scale = 0.25f; },
      [](dist::ContextFmhaArgs& args) { args.softcap = 20; },
      [](dist::ContextFmhaArgs& args) { args.split = Split::contiguous; },
  };
  for (const auto& change : changes) {
    auto members = members_of(what);
    FmhaProblem whole(what.shape, 3);
    CHECK(run_split(whole, what, members) == std::vector<std::string>(2));
    run_split(whole, what, members, [&](int rank, dist::ContextFmhaArgs& args) {
      if (rank == 1) change(args);
    });
    const std::string said = testing::said_by([&] { members[0].check(); });
    CHECK_MESSAGE(testing::has(said, "the group is broken: the ranks' arguments differ: rank 1 came to epoch "), said);
    CHECK(testing::has(said, " with another call than rank 0; make a new group"));
  }
}

TEST_CASE("words of the variables are checked") {
  const auto said = [](const char* transport, const char* order) {
    const Chosen chosen(transport, order);
    return testing::said_by([] { dist::Group::on_model(testing::model_runtime(), 2); });
  };
  CHECK(testing::has(said("tcp", "auto"), "TJ_DIST_TRANSPORT is 'tcp'; allowed: auto, ipc, nccl"));
  CHECK(testing::has(said("auto", "last"), "TJ_DIST_ORDER is 'last'; allowed: auto, whole, own_first"));
}
