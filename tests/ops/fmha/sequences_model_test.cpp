// Protects attention over sequences of different lengths: on the CPU model against f64, with NaN in neighbours and
// wherever no sequence has a row, outputs poisoned; lists that change between runs of a plan.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include <tilejit/plan.hpp>

#include "common/random.hpp"
#include "ops/fmha/sequences_problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::kSequencesTargets;
using test::run_sequences;
using test::sequences_shape;
using test::SequencesProblem;
using test::SequencesShape;

TEST_CASE("lengths around blocks, of 0 and of 1, on every family") {
  std::uint64_t seed = 4100;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    ++index;
    CAPTURE(target);
    for (const bool causal : {false, true}) {
      if (testing::sampled_out(index + causal)) continue;
      SequencesShape shape = sequences_shape({129, 0, 1, 64, 0}, {200, 7, 129, 0, 0});
      shape.causal = causal, shape.front = causal ? 3 : 0;
      CAPTURE(shape.text());
      CHECK(run_sequences(target, shape, ++seed) == "");
    }
  }
}

TEST_CASE("NaN in a neighbour, and behind the keys that count, shows nowhere") {
  std::uint64_t seed = 4200;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    ++index;
    CAPTURE(target);
    for (const int nan : {0, 1, 2}) {
      if (testing::sampled_out(index + nan)) continue;
      SequencesShape shape = sequences_shape({30, 70, 131}, {90, 40, 33});
      shape.causal = true, shape.nan = nan, shape.unused = 5, shape.head_dim = 128, shape.dtype = DType::bf16;
      CAPTURE(shape.text());
      CHECK(run_sequences(target, shape, ++seed) == "");
    }
  }
}

TEST_CASE("windows, places of queries, softcap, ALiBi and sinks are each sequence's own") {
  std::uint64_t seed = 4300;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    if (testing::thinned_out(index++)) continue;
    CAPTURE(target);
    SequencesShape shape = sequences_shape({140, 3, 61}, {61, 150, 0});
    shape.window = {20, 9}, shape.top_left = true, shape.sinks = true;
    CAPTURE(shape.text());
    CHECK(run_sequences(target, shape, ++seed) == "");
    shape.window = {33, 0}, shape.top_left = false, shape.alibi = true, shape.softcap = 5, shape.sinks = false;
    CHECK(run_sequences(target, shape, ++seed) == "");
  }
}

TEST_CASE("blocks that walk, blocks that draw, output that the copy engine cannot store, other head dims") {
  SequencesShape shape = sequences_shape({300, 0, 150, 20}, {300, 50, 260, 90});
  shape.causal = true, shape.heads = 3;
  CHECK(run_sequences("model:sm_90a", shape, 4400, 2) == "");
  CHECK(run_sequences("model:gfx942", shape, 4401, 2) == "");
  shape.shifted_o = true, shape.head_dim = 96, shape.value_dim = 72, shape.heads_kv = 3;
  CHECK(run_sequences("model:sm_90a", shape, 4402) == "");
  shape.causal = false, shape.head_dim = 256, shape.value_dim = 0;
  CHECK(run_sequences("model:sm_90a", shape, 4403) == "");
}

TEST_CASE("random lengths and features") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t next = 0;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < testing::drawn(12); ++i) {
    SequencesShape shape;
    const int count = between(1, 5);
    for (int s = 0; s < count; ++s) {
      shape.queries.push_back(between(0, 3) == 0 ? 0 : between(1, 150));
      shape.keys.push_back(between(0, 5) == 0 ? 0 : between(1, 250));
    }
    shape.heads_kv = between(1, 2), shape.heads = shape.heads_kv * between(1, 2);
    shape.head_dim = between(0, 1) == 0 ? 64 : 128, shape.dtype = between(0, 1) == 0 ? DType::f16 : DType::bf16;
    shape.causal = between(0, 1) == 1, shape.top_left = between(0, 3) == 0;
    if (between(0, 2) == 0) shape.window = {between(0, 200), shape.causal ? -1 : between(-1, 100)};
    shape.unused = between(0, 1) * between(1, 40), shape.front = between(0, 1) * between(1, 70);
    shape.alibi = between(0, 4) == 0, shape.sinks = between(0, 4) == 0, shape.with_lse = between(0, 3) > 0;
    shape.nan = between(-2, count - 1);
    if (i % 3 == 0) shape.page_size = between(0, 1) == 0 ? between(1, 80) : 16 << between(0, 4);
    shape.heads_first = between(0, 2) == 0;
    const char* target = i % 2 == 0 ? kSequencesTargets[0] : kSequencesTargets[static_cast<std::size_t>(between(1, 5))];
    CAPTURE(target);
    CAPTURE(shape.text());
    CHECK(run_sequences(target, shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}

TEST_CASE("a plan serves other lengths, with the same bits for the same ones") {
  const SequencesShape shape = sequences_shape({100, 30, 70}, {100, 80, 200});
  CHECK(plan_for_other_lengths(shape, 4500, {0, 199, 1}, {300, 0, 80}) == "");
}
