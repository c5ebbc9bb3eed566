// Protects the gated delta rule in chunks on the CPU model, against the serial recurrence in f64: lengths around a
// chunk, lists, types and orders of states, gates and beta in each form, heads that share, and hard inputs.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "support/full.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape chunked(std::int64_t tokens) { return test::in_chunks(tokens, false); }
constexpr auto checked = test::run_chunks;

}  // namespace

TEST_CASE("lengths around a chunk") {
  unsigned seed = 1;
  for (const std::int64_t tokens : {63, 64, 65, 200}) {
    if (tokens != 65 && testing::left_out()) continue;
    CAPTURE(tokens);
    CHECK(checked(chunked(tokens), seed++) == "");
  }
}

TEST_CASE("types, widths and orders of states, and blocks of 128 rows" * doctest::skip(testing::left_out())) {
  test::check_chunk_states(false);
}

TEST_CASE("gates and beta in each form, with and without the delta" * doctest::skip(testing::left_out())) {
  unsigned seed = 40;
  int index = 0;
  for (const Given gate : {Given::none, Given::plain, Given::raw})
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
        shape.gate_size = 0.02;
        CAPTURE(seed);
        CHECK(checked(shape, seed++) == "");
      }
}

TEST_CASE("heads that share, and fewer of v than of q") {
  unsigned seed = 70;
  const std::int64_t heads[][4] = {{1, 1, 3, 3}, {2, 2, 4, 4}, {4, 4, 2, 4}, {6, 2, 3, 6}};
  int index = 0;
  for (const auto& each : heads) {
    if (testing::thinned_out(index++)) continue;
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

TEST_CASE("sequences of any lengths, without tokens among them, and slots out of order") {
  RuleShape shape;
  shape.chunked = true;
  shape.lengths = {130, 0, 64, 1, 0, 63, 65};
  shape.lead = 2;
  shape.tail = 1;
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.padding = 8;
  for (const bool final : {true, false}) {
    shape.final = shape.initial = final;
    CHECK(checked(shape, 90) == "");
  }
  shape.width = 128;
  shape.final = shape.initial = true;
  shape.pool = 9;
  shape.reads = {5, -1, 0, 3, 8, 2, 7};
  shape.writes = shape.reads;
  shape.in_place = true;
  CHECK(checked(shape, 91) == "");
}

TEST_CASE("checkpoints: states after every so many chunks, of equal lengths and of lists" *
          doctest::skip(testing::left_out())) {
  unsigned seed = 100;
  for (const int every : {64, 128})
    for (const bool transposed : {false, true}) {
      RuleShape shape = chunked(200);
      shape.batch = 2;
      shape.width = 64;
      shape.kept = transposed ? 2 : 4;  // fewer than there are, and more
      shape.every = every;
      shape.transposed = transposed;
      shape.state = transposed ? DType::bf16 : DType::f32;
      shape.padding = transposed ? 8 : 0;
      shape.final = shape.initial = !transposed;
      CAPTURE(seed);
      CHECK(checked(shape, seed++) == "");
    }
  RuleShape listed;
  listed.chunked = true;
  listed.lengths = {130, 0, 64, 1, 63, 192};
  listed.lead = 2;
  listed.v_heads = listed.heads = 2;
  listed.kept = 3;
  listed.every = 64;
  CHECK(checked(listed, seed) == "");
}

TEST_CASE("no gate, strong gates, repeated keys, beta near 1" * doctest::skip(testing::left_out())) {
  unsigned seed = 120;
  int index = 0;
  for (const std::int64_t tokens : {63, 64, 65, 300})
    for (const int kind : {0, 1, 2, 3}) {
      if (testing::sampled_out(index++ / 4 + kind)) continue;
      RuleShape shape = chunked(tokens);
      shape.gate = kind == 0 ? Given::none : Given::plain;
      shape.gate_size = kind == 1 ? 20 : kind == 2 ? 1e-3 : 0.1;
      shape.repeated_keys = kind == 2;
      if (shape.repeated_keys) shape.batch = 0;
      shape.beta_least = kind == 2 ? 0.8 : kind == 3 ? 0.99 : 0;
      CAPTURE(tokens);
      CAPTURE(kind);
      CHECK(checked(shape, seed++) == "");
    }
}

TEST_CASE("repeated keys from no state on: rounding does not add up in results" * doctest::skip(testing::left_out())) {
  RuleShape shape = chunked(192);
  shape.batch = 0;
  shape.gate_size = 1e-3;
  shape.repeated_keys = true;
  shape.beta_least = 0.8;
  shape.initial = shape.final = false;
  for (const int width : {128, 64}) {
    shape.width = width;
    CHECK(checked(shape, 180) == "");
  }
}

TEST_CASE("many tokens without a gate, and few multiprocessors" * doctest::skip(testing::left_out())) {
  RuleShape shape = chunked(2000);
  shape.width = 64;
  shape.gate = Given::none;
  RuleProblem problem(shape, 140);
  problem.args.max_sms = 1;
  CHECK(problem.run() == "");
}

TEST_CASE("keys longer than 1, which nothing normalises" * doctest::skip(testing::left_out())) {
  unsigned seed = 150;
  for (const double size : {1.3, 2.0})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      RuleShape shape = chunked(64);
      shape.dtype = dtype;
      shape.normalise = false;
      shape.key_size = size;
      shape.gate = Given::none;
      CAPTURE(seed);
      CHECK(checked(shape, seed++) == "");
    }
}

TEST_CASE("bad bounds of sequences never lead out of the tensors") {
  RuleShape shape;
  shape.chunked = true;
  shape.lengths = {70, 130, 64};
  shape.width = 64;
  RuleProblem problem(shape, 160);
  problem.ends = {-5, 999, 1, -2147483647 - 1};  // all tokens, then none, none
  CHECK(problem.run() == "");
  problem.ends = {2147483647, -1, 130, 2147483647};  // none; 130 tokens from 0 on; the others
  CHECK(problem.run() == "");
}

TEST_CASE("bounds that fall count as rising ones, for all launches alike") {
  RuleShape shape;
  shape.chunked = true;
  shape.width = 64;
  shape.lengths = {64, 64, 64};
  shape.kept = 3;
  shape.every = 64;
  const std::vector<std::vector<std::int32_t>> lists = {
      {64, 128, 0, 64}, {0, 128, 64, 192}, {192, 0, 192, 0}, {100, 40, 20, 192}, {0, 64, 128, 64}};
  for (const std::vector<std::int32_t>& list : lists) {
    CAPTURE(list[1]);
    RuleProblem problem(shape, 161);
    problem.ends = list;
    CHECK(problem.run() == "");
  }
  std::mt19937 random(162);
  for (const std::int32_t sequences : {2, 4, 7, 9, 18}) {
    CAPTURE(sequences);
    shape.lengths.assign(static_cast<std::size_t>(sequences), 40);
    RuleProblem problem(shape, 163);
    REQUIRE(ops::prefers_chunks(problem.args));
    std::uniform_int_distribution<std::int32_t> anywhere(-20, 40 * sequences + 20);
    for (std::int32_t& end : problem.ends) end = anywhere(random);
    CHECK(problem.run() == "");
  }
}

TEST_CASE("scale, and gates that leave nothing" * doctest::skip(testing::left_out())) {
  RuleShape shape = chunked(100);
  shape.width = 64;
  RuleProblem problem(shape, 170);
  problem.args.scale = -2.5f;
  CHECK(problem.run() == "");
  shape.gate_size = 1e4;
  CHECK(checked(shape, 171) == "");
}
