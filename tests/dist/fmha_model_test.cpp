// Protects attention over a split sequence on ranks of the CPU model: every split against f64, and the bits of one
// device. Ranks without rows, and what is refused before anything is sent, are here, too.
#include <doctest/doctest.h>

#include <random>

#include <tilejit/tilejit.hpp>

#include "dist/split_problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"
#include "support/scratch.hpp"

using namespace tj;
using dist::Split;
using test::FmhaProblem;
using test::split_case;
using test::SplitCase;

namespace {

/// "", or what is wrong with a case on a target.
std::string run(const SplitCase& what, std::uint64_t seed, const std::string& target = "model:sm_90a") {
  auto members = dist::Group::on_model(testing::model_runtime(target), static_cast<int>(what.lengths.size()));
  FmhaProblem whole(what.shape, seed);
  for (const std::string& said : run_split(whole, what, members))
    if (!said.empty()) return said;
  return whole.problem();
}

}  // namespace

TEST_CASE("each split, causal and full, on 1 to 4 ranks, against f64") {
  std::uint64_t seed = 1;
  int index = 0;
  for (const int ranks : {1, 2, 3, 4})
    for (const Split split : {Split::contiguous, Split::zigzag, Split::striped})
      for (const bool causal : {false, true}) {
        if (testing::sampled_out(index++ + ranks)) continue;
        SplitCase what = split_case(split, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 70), causal);
        what.shape.heads_kv = seed % 2 == 0 ? 1 : 2;
        what.shape.batch = seed % 3 == 0 ? 2 : 1;
        what.shape.rows_first = seed % 4 < 2;
        what.shape.dtype = seed % 2 == 0 ? DType::bf16 : DType::f16;
        what.shape.with_lse = seed % 5 != 0;
        CAPTURE(what.text());
        CHECK(run(what, seed++) == "");
      }
}

TEST_CASE("runs of unequal lengths, of none, of one row; windows, slopes, sinks, softcap; other families") {
  std::uint64_t seed = 50;
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{100, 0, 1, 40}, {1, 8}, {0, 130}, {1, 1}, {0, 0, 5}}) {
    SplitCase what = split_case(Split::contiguous, lengths, true);
    what.told = true;
    what.shape.rows_first = seed % 2 == 0;
    if (seed % 2 == 0) what.shape.window.left = 33;
    CAPTURE(what.text());
    CHECK(run(what, seed++) == "");
  }
  SplitCase what = split_case(Split::zigzag, {64, 64}, true);
  what.shape.window.left = 40;
  what.shape.alibi = 1;
  what.shape.sinks = true;
  what.shape.softcap = 20;
  CHECK(run(what, seed++) == "");
  for (const std::string target : {"model:sm_80", "model:gfx1100"})
    CHECK(run(split_case(Split::striped, {33, 33}, true), seed++, target) == "");
}

TEST_CASE("one, two and four ranks give equal bits where runs and pieces are whole tiles") {
  for (const Split split : {Split::contiguous, Split::zigzag}) {
    std::vector<std::vector<std::uint16_t>> outputs;
    for (const std::int64_t ranks : {1, 2, 4}) {
      SplitCase what =
          split_case(split, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 1024 / ranks), true);
      what.shape.heads = 1;
      auto members = dist::Group::on_model(testing::model_runtime("model:sm_80"), static_cast<int>(ranks));
      FmhaProblem whole(what.shape, 7);
      for (const std::string& said : run_split(whole, what, members)) CHECK(said == "");
      const auto* o = static_cast<const std::uint16_t*>(whole.args.o.data);
      outputs.emplace_back(o, o + 1024 * 64);
    }
    CHECK(outputs[0] == outputs[1]);
    CHECK(outputs[0] == outputs[2]);
  }
}

TEST_CASE("ranks whose arguments differ, and a rank that does not come, are named; the group is broken then") {
  Options options;
  options.target = "model:sm_90a";
  options.wait_limit_s = 0.2;
  Runtime runtime(options);
  SplitCase what = split_case(Split::zigzag, {8, 8}, false);
  FmhaProblem whole(what.shape, 3);
  auto members = dist::Group::on_model(testing::model_runtime(), 2);
  auto said = run_split(whole, what, members, [](int rank, dist::ContextFmhaArgs& args) {
    if (rank == 1) args.causal = true;
  });
  CHECK_MESSAGE(testing::has(said[0] + said[1], "the ranks' arguments differ"), said[0]);
  CHECK(testing::has(testing::said_by([&] { members[0].check(); }), "the group is broken"));
  members = dist::Group::on_model(runtime, 2);
  std::vector<dist::Group> alone{members[1]};
  said = run_split(whole, what, alone);
  CHECK_MESSAGE(testing::has(said[0], "rank 0 of 2 did not come to exchange 1 within 0.2 s (TJ_WAIT_LIMIT)"), said[0]);
}

TEST_CASE("a call obeys the answer to a miss, and prepare() makes what it needs") {
  testing::Scratch cache;
  Options options;
  options.target = "model:sm_90a";
  options.cache_dir = cache.path();
  options.on_miss = MissPolicy::error;
  std::vector<dist::Group> members;
  {
    Runtime runtime(options);
    members = dist::Group::on_model(runtime, 1);
  }  // a group may outlive its runtime
  const SplitCase what = split_case(Split::zigzag, {8}, true);
  FmhaProblem whole(what.shape, 3);
  CHECK(testing::has(run_split(whole, what, members)[0], "cache"));
  const auto said =
      run_split(whole, what, members, [&](int, dist::ContextFmhaArgs& args) { members[0].prepare(args); });
  CHECK(said[0] == "");
  CHECK(whole.problem() == "");
}

TEST_CASE("what is not served is refused by name, before anything is sent") {
  SplitCase what = split_case(Split::zigzag, {8}, true);
  what.shape.heads_kv = 2;
  FmhaProblem whole(what.shape, 3);
  auto members = dist::Group::on_model(testing::model_runtime(), 1);
  const auto said = [&](const std::function<void(dist::ContextFmhaArgs&)>& change) {
    return run_split(whole, what, members, [&](int, dist::ContextFmhaArgs& args) {
      args.exchange = dist::Exchange::keys;
      change(args);
    })[0];
  };
  const auto refuses = [&](const std::string& part, const std::function<void(dist::ContextFmhaArgs&)>& change) {
    const std::string text = said(change);
    CHECK_MESSAGE(testing::has(text, part), text);
  };
  float slope = 1;
  refuses("split is 3; allowed: contiguous (0)", [](auto& args) { args.split = static_cast<Split>(3); });
  refuses("window.left is 4 without causal", [](auto& args) {
    args.causal = false;
    args.window.left = 4;
  });
  refuses("window.left is 4 with split striped", [](auto& args) {
    args.split = Split::striped;
    args.window.left = 4;
  });
  refuses("alibi_slopes without causal", [&](auto& args) {
    args.causal = false;
    args.alibi_slopes = Tensor::contiguous(&slope, {DeviceKind::cpu, 0}, DType::f32, {2});
  });
  refuses("alibi_slopes with split striped", [&](auto& args) {
    args.split = Split::striped;
    args.alibi_slopes = Tensor::contiguous(&slope, {DeviceKind::cpu, 0}, DType::f32, {2});
  });
  refuses("lengths has 2 numbers; allowed: one a rank, 1", [](auto& args) { args.lengths = {8, 8}; });
  refuses("lengths[0] is 9; allowed: q.shape[2] of this rank, 8", [](auto& args) { args.lengths = {9}; });
  refuses("q.shape[2] is 7 with split zigzag", [](auto& args) {
    args.q.shape[2] = args.k.shape[2] = args.v.shape[2] = args.o.shape[2] = 7;
    args.lse.reset();
  });
  refuses("k.shape[2] is 7", [](auto& args) { args.k.shape[2] = args.v.shape[2] = 7; });
  refuses("k.strides are", [](auto& args) { args.k.strides[2] *= 2; });
  refuses("allowed with heads_first true", [](auto& args) { args.heads_first = true; });
  refuses("q is on cuda:0", [](auto& args) {
    args.q.device = args.k.device = args.v.device = args.o.device = {DeviceKind::cuda, 0};
    args.lse.reset();
  });
  refuses("dimensions; allowed: [B, H, S, D]", [](auto& args) { args.q.rank = 3; });
  CHECK(said([](auto&) {}) == "");
  CHECK(testing::has(testing::said_by([] { dist::Group::on_model(testing::model_runtime(), 0); }),
                     "size is 0; allowed: 1 to"));
}
