// Protects gates of key channels in chunks on the CPU model, against the serial recurrence in f64: lengths around a
// chunk, lists, types and orders of states, gates in each form, hard inputs, and sequences that are cut.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "support/full.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape chunked(std::int64_t tokens) { return test::in_chunks(tokens, true); }
constexpr auto checked = test::run_chunks;

}  // namespace

TEST_CASE("channels in chunks: lengths around a chunk, and fewer tokens than chunks are for") {
  unsigned seed = 1;
  for (const std::int64_t tokens : {63, 64, 65, 200}) {
    CAPTURE(tokens);
    CHECK(checked(chunked(tokens), seed++) == "");
  }
  for (const std::int64_t tokens : {1, 8}) {
    RuleProblem few(chunked(tokens), seed);
    CHECK_FALSE(ops::prefers_chunks(few.args));
    CHECK(few.run() == "");
  }
}

TEST_CASE("channels in chunks: types, widths and orders of states, and blocks of 128 rows" *
          doctest::skip(testing::left_out())) {
  test::check_chunk_states(true);
}

TEST_CASE("channels in chunks: logarithms, decays and raw gates, with the delta (KDA) and without it (GLA)" *
          doctest::skip(testing::left_out())) {
  unsigned seed = 40;
  int index = 0;
  for (const Given gate : {Given::plain, Given::raw})
    for (const Given beta : {Given::none, Given::plain, Given::raw})
      for (const bool delta : {true, false}) {
        if (testing::thinned_out(index++)) continue;
        RuleShape shape = chunked(90);
        shape.width = 64;
        shape.gate = gate;
        shape.beta = beta;
        shape.delta = delta;
        shape.half_numbers = seed % 2 == 0;
        shape.exp_gate = gate == Given::plain && seed % 2 == 1;
        shape.bias = seed % 3 != 0;
        shape.gate_size = 0.3;
        CAPTURE(seed);
        CHECK(checked(shape, seed++) == "");
      }
}

TEST_CASE("channels in chunks: heads that share, and fewer of v than of q") {
  unsigned seed = 70;
  const std::int64_t heads[][4] = {{1, 1, 3, 3}, {6, 2, 3, 6}};
  for (const auto& each : heads) {
    RuleShape shape = chunked(66);
    shape.width = 64;
    shape.q_heads = each[0];
    shape.k_heads = each[1];
    shape.v_heads = each[2];
    shape.heads = each[3];
    shape.normalise = seed % 2 == 0;
    CAPTURE(seed);
    CHECK(checked(shape, seed++) == "");
  }
}

TEST_CASE("channels in chunks: lists, without tokens among them, slots out of order, checkpoints") {
  RuleShape shape;
  shape.channels = shape.chunked = true;
  shape.lengths = {130, 0, 64, 1, 0, 63, 65};
  shape.lead = 2;
  shape.tail = 1;
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.padding = 8;
  CHECK(checked(shape, 90) == "");
  shape.width = 128;
  shape.pool = 9;
  shape.reads = {5, -1, 0, 3, 8, 2, 7};
  shape.writes = shape.reads;
  shape.in_place = true;
  CHECK(checked(shape, 91) == "");
  RuleShape kept = chunked(200);
  kept.batch = 2;
  kept.width = 64;
  kept.kept = 4;
  kept.every = 64;
  CHECK(checked(kept, 92) == "");
}

TEST_CASE("channels in chunks: no decay, weak and strong ones, repeated keys, beta near 1" *
          doctest::skip(testing::left_out())) {
  unsigned seed = 120;
  int index = 0;
  for (const std::int64_t tokens : {63, 64, 65, 300})
    for (const double size : {0.0, 1e-3, 0.1, 3.0, 20.0}) {
      if (testing::sampled_out(index++)) continue;
      RuleShape shape = chunked(tokens);
      shape.gate_size = size;
      shape.repeated_keys = size == 1e-3;
      if (shape.repeated_keys) shape.batch = 0;
      shape.beta_least = shape.repeated_keys ? 0.8 : size == 0.1 ? 0.99 : 0;
      CAPTURE(tokens);
      CAPTURE(size);
      CHECK(checked(shape, seed++) == "");
    }
}

TEST_CASE("channels in chunks: every decay strong, one that leaves nothing, and rows that neighbour no token") {
  RuleShape shape = chunked(100);
  shape.width = 64;
  shape.gate_size = 1e4;
  CHECK(checked(shape, 171) == "");
  RuleProblem all(shape, 172);
  float* const gates = static_cast<float*>(all.args.gate->data);
  const std::int64_t count = 100 * 64;
  for (std::int64_t i = 0; i < count; ++i) gates[i] = -20;
  CHECK(all.run() == "");
  for (std::int64_t i = 0; i < count; ++i) gates[i] = i / 64 % 7 == 3 || i % 5 == 2 ? -INFINITY : -1e-3f;
  CHECK(all.run() == "");
  for (std::int64_t i = 0; i < count; ++i) gates[i] = i % 3 == 0 ? -1e30f : 0.0f;
  CHECK(all.run() == "");
}

TEST_CASE("channels in chunks: many tokens that hardly fade" * doctest::skip(testing::left_out())) {
  for (const double size : {0.0, 1e-3}) {
    RuleShape shape = chunked(2000);
    shape.width = 64;
    shape.gate_size = size;
    RuleProblem problem(shape, 140);
    problem.args.max_sms = 1;
    CAPTURE(size);
    CHECK(problem.run() == "");
  }
}

TEST_CASE("channels in chunks: where a kernel of 128 rows would spill, one of 64 rows serves" *
          doctest::skip(testing::left_out())) {
  RuleShape shape = chunked(64);
  shape.batch = 5;
  shape.v_heads = shape.heads = 14;
  shape.kept = 1;
  shape.every = 64;
  for (const DType state : {DType::f32, DType::bf16}) {
    shape.state = state;
    RuleProblem problem(shape, 150);
    const test::Ran ran = test::run_cut(problem, {});
    CHECK(ran.wrong == "");
    REQUIRE(ran.launches.size() == 2);
    CHECK((ran.launches[1].find("wide-state") != std::string::npos) == (state == DType::f32));
    CHECK(ran.launches[1].find("keeps_channels") != std::string::npos);
  }
}

TEST_CASE("channels in chunks: bad bounds of sequences never lead out of the tensors") {
  RuleShape shape;
  shape.channels = shape.chunked = true;
  shape.lengths = {70, 130, 64};
  shape.width = 64;
  RuleProblem problem(shape, 160);
  problem.ends = {-5, 999, 1, -2147483647 - 1};  // all tokens, then none, none
  CHECK(problem.run() == "");
  problem.ends = {2147483647, -1, 130, 2147483647};  // none; 130 tokens from 0 on; the others
  CHECK(problem.run() == "");
}

TEST_CASE("channels in chunks: ranges give the bits of all at once, and segments agree with f64") {
  RuleShape shape = chunked(330);
  shape.batch = 2;
  shape.width = 64;
  shape.v_heads = shape.heads = 2;
  test::check_ranges(shape, 3, 6);
  test::check_segments(shape, 3);
  shape.batch = 1;
  shape.width = 128;
  shape.in_place = true;
  test::check_segments(shape, 4);
}
