// Protects attention of few queries on the CPU model, against f64. Heads of a group are rows. Keys are in parts that
// are merged, with every mask and modification. Lists and pages change lengths between runs of a plan. Bits are equal.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/plan.hpp>

#include "common/half.hpp"
#include "ops/fmha/checks.hpp"
#include "ops/fmha/sequences_problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::run_sequences;
using test::sequences_shape;
using test::SequencesProblem;
using test::SequencesShape;

namespace {

constexpr const char* kTargets[] = {"model:sm_90a", "model:sm_90", "model:sm_80"};

SequencesShape decode(std::vector<int> queries, std::vector<int> keys, int heads, int heads_kv) {
  SequencesShape shape = sequences_shape(std::move(queries), std::move(keys));
  shape.heads = heads, shape.heads_kv = heads_kv, shape.causal = true;
  return shape;
}

}  // namespace

TEST_CASE("one token of each sequence, groups of powers of two and of others, long keys, short ones and none") {
  std::uint64_t seed = 8100;
  int index = 0;
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const int group : {1, 3, 4, 8}) {
      if (testing::sampled_out(index++)) continue;
      SequencesShape shape = decode({1, 1, 1, 0}, {900, 7, 0, 300}, group * 2, 2);
      shape.front = group == 4 ? 2 : 0;
      CAPTURE(shape.text());
      CHECK(run_sequences(target, shape, ++seed) == "");
    }
  }
}

TEST_CASE("more sequences than one look at their list tells apart, some without a query") {
  std::vector<int> queries(70, 1), keys(70, 9);
  queries[0] = queries[8] = queries[63] = queries[69] = 0;
  queries[20] = 7, keys[33] = 140;
  CHECK(run_sequences("model:sm_90a", decode(queries, keys, 4, 1), 8150) == "");
}

TEST_CASE("several tokens, masks and modifications in parts") {
  std::uint64_t seed = 8200;
  for (const char* target : kTargets) {
    CAPTURE(target);
    SequencesShape shape = decode({8, 1, 5}, {700, 1, 260}, 4, 2);
    shape.sinks = true, shape.window = {300, -1};
    CAPTURE(shape.text());
    CHECK(run_sequences(target, shape, ++seed) == "");
    shape.window = {}, shape.alibi = true, shape.softcap = 5, shape.sinks = false, shape.head_dim = 128;
    CHECK(run_sequences(target, shape, ++seed) == "");
    shape.alibi = shape.causal = false, shape.sinks = true, shape.value_dim = 72, shape.head_dim = 96;
    CHECK(run_sequences(target, shape, ++seed) == "");
  }
}

// The part that has the sink weighs, and is 0: outputs of such rows were what the workspace held.
TEST_CASE("rows without keys, whose sink is in the first of several parts") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    SequencesShape shape = decode({1, 2}, {1300, 0}, 4, 1);
    shape.sinks = true;
    SequencesProblem problem(shape, 8250);
    Runtime& runtime = testing::model_runtime(target);
    CHECK(runtime.plan(problem.args).workspace_bytes() > 0);
    runtime.run(problem.args);
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("pages, NaN behind the keys and in a neighbour, rows of any length beside single ones") {
  std::uint64_t seed = 8300;
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const int page : {16, 7, 64}) {
      SequencesShape shape = decode({1, 2, 1}, {500, 129, 64}, 8, 1);
      shape.page_size = page, shape.unused = 9, shape.nan = 1, shape.dtype = DType::bf16,
      shape.heads_first = page == 16;
      CAPTURE(shape.text());
      CHECK(run_sequences(target, shape, ++seed) == "");
    }
    // The mean is short, so the kernel of few queries serves all.
    const SequencesShape mixed = decode({1, 90, 1, 1, 1, 1, 1, 1}, {130, 300, 64, 1, 2, 400, 0, 9}, 4, 1);
    CHECK(run_sequences(target, mixed, ++seed) == "");
  }
}

TEST_CASE("a plan serves other lengths, with the same bits for the same ones") {
  const SequencesShape shape = decode({1, 1, 6}, {4000, 80, 200}, 8, 2);
  SequencesProblem problem(shape, 1);
  CHECK(testing::model_runtime().plan(problem.args).workspace_bytes() > 0);  // in parts
  CHECK(plan_for_other_lengths(shape, 8400, {0, 7, 1}, {10, 1000, 0}) == "");
}

TEST_CASE("equal lengths, and o in f32: the same numbers as in lists, before they are rounded") {
  for (const char* target : kTargets)
    for (const int rows : {1, 5}) {
      CAPTURE(target);
      test::FmhaShape shape;
      shape.batch = 2, shape.heads = 8, shape.heads_kv = 2, shape.seq_q = rows, shape.seq_k = 1500;
      shape.causal = true, shape.rows_first = rows == 5, shape.alibi = rows == 5 ? 2 : 0, shape.sinks = true;
      CHECK(test::run_fmha(target, shape, static_cast<std::uint64_t>(8500 + rows)) == "");
      SequencesProblem problem(decode({rows, 1}, {1500, 20}, 4, 2), static_cast<std::uint64_t>(8600 + rows));
      Runtime& runtime = testing::model_runtime(target);
      runtime.run(problem.args);
      CHECK(problem.problem() == "");
      const Tensor rounded = problem.args.o;
      std::vector<float> exact(static_cast<std::size_t>((rows + 1) * 4 * 64), -1.0f);
      problem.args.o = Tensor::contiguous(exact.data(), rounded.device, DType::f32, {rows + 1, 4, 64});
      runtime.run(problem.args);
      for (std::size_t i = 0; i < exact.size(); ++i)
        REQUIRE(samples::from_float(exact[i], rounded.dtype) == static_cast<const std::uint16_t*>(rounded.data)[i]);
    }
}
