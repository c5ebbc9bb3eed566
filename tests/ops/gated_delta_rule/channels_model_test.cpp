// Protects gates of key channels on the CPU model, against the serial recurrence in f64. Gates have each form, with the
// delta (KDA) and without it (GLA). States have each type, width and order, in lists, pools and kept. Archs are all.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ops/gated_delta_rule/problem.hpp"
#include "support/full.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape channels(std::int64_t tokens) {
  RuleShape shape;
  shape.batch = 2;
  shape.tokens = tokens;
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.channels = true;
  return shape;
}

std::string run_channels(const RuleShape& shape, unsigned seed, const char* target = "model:sm_90a") {
  return RuleProblem(shape, seed).run(target);
}

}  // namespace

TEST_CASE("gates of key channels: logarithms, decays and raw, with and without the delta") {
  unsigned seed = 1;
  for (const Given gate : {Given::plain, Given::raw})
    for (const bool delta : {true, false})
      for (const bool half : {true, false})
        for (const bool other : {true, false}) {
          RuleShape shape = channels(3);
          shape.gate = gate;
          shape.gate_size = 2;
          shape.delta = delta;
          shape.half_numbers = half;
          shape.exp_gate = gate == Given::plain && other;
          shape.bias = other;
          shape.beta = other ? Given::raw : Given::none;
          CAPTURE(seed);
          CHECK(run_channels(shape, seed++) == "");
        }
}

TEST_CASE("gates of key channels: types, widths and orders of states" * doctest::skip(testing::left_out())) {
  unsigned seed = 20;
  int index = 0;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const DType state : {DType::f32, DType::bf16, DType::f16})
      for (const int width : {128, 64})
        for (const bool transposed : {false, true}) {
          if (testing::thinned_out(index++)) continue;
          RuleShape shape = channels(1 + seed % 3);
          shape.dtype = dtype;
          shape.state = state;
          shape.width = width;
          shape.transposed = transposed;
          shape.half_numbers = seed % 2 == 0;
          shape.padding = seed % 3 == 0 ? 8 : 0;
          CAPTURE(seed);
          CHECK(run_channels(shape, seed++) == "");
        }
}

TEST_CASE("gates of key channels: lists, pools, kept states, and many tokens one by one") {
  RuleShape shape = channels(1);
  shape.batch = 0;
  shape.lengths = {3, 0, 7, 1};
  shape.lead = 2;
  shape.tail = 1;
  shape.pool = 6;
  shape.in_place = true;
  shape.reads = shape.writes = {5, -1, 0, 3};
  shape.padding = 8;
  CHECK(run_channels(shape, 50) == "");
  shape = channels(5);
  shape.kept = 3;
  shape.state = DType::bf16;
  CHECK(run_channels(shape, 51) == "");
  shape = channels(90);
  shape.gate_size = 0.1;
  CHECK(run_channels(shape, 52, "model:sm_80") == "");
}

TEST_CASE("gates of key channels: strong ones, one key after the other, heads that share" *
          doctest::skip(testing::left_out())) {
  RuleShape shape = channels(65);
  shape.gate_size = 20;
  CHECK(run_channels(shape, 60, "model:sm_80") == "");
  shape = channels(64);
  shape.batch = 0;
  shape.repeated_keys = true;
  shape.gate_size = 1e-3;
  shape.beta_least = 0.8;
  CHECK(run_channels(shape, 61, "model:sm_80") == "");
  shape = channels(2);
  shape.q_heads = 2;
  shape.v_heads = 3;
  shape.heads = 6;
  CHECK(run_channels(shape, 62) == "");
}

TEST_CASE("gates of key channels: all archs" * doctest::skip(testing::left_out())) {
  for (const char* target : {"model:sm_80", "model:sm_100a", "model:sm_120a", "model:gfx1100", "model:gfx90a"})
    for (const bool transposed : {false, true}) {
      RuleShape shape = channels(2);
      shape.state = transposed ? DType::bf16 : DType::f32;
      shape.transposed = transposed;
      shape.width = transposed ? 64 : 128;
      CAPTURE(std::string(target));
      CHECK(run_channels(shape, 70, target) == "");
    }
}
