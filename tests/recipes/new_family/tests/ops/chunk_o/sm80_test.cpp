// Protects the recipe "new family of an op" at run time. Archs of the family are served, and the CPU model's results
// agree with f64.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/problem.hpp"
#include "support/scratch.hpp"

using namespace tj;

TEST_CASE("the family serves archs with and without a copy engine beside their warps' products") {
  for (const std::string name : {"sm_80", "sm_90", "sm_120a"}) {
    CAPTURE(name);
    CHECK(ops::chunk_o_op().serves(*arch::find(name)));
    CHECK(!ops::chunk_o_candidates({}, *arch::find(name)).empty());
  }
  CHECK(ops::chunk_o_op().serves(*arch::find("sm_90a")));  // by a family of its own
}

TEST_CASE("chunk outputs of both kinds of sequences and states are right on the model of such an arch") {
  const testing::Scratch scratch;
  Options options;
  options.cache_dir = scratch.path() + "/cache";
  options.target = "model:sm_90";
  Runtime runtime(options);
  const std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  test::ChunkOShape gated{.lengths = {70, 0, 128, 1}, .heads = 1, .v_heads = 2, .padding = 8};
  test::ChunkOShape equal{.lengths = {100, 100}, .gated = false, .variable = false, .h_transposed = true};
  for (const test::ChunkOShape& shape : {gated, equal}) {
    CAPTURE(shape.text());
    test::ChunkOProblem problem(shape, seed);
    runtime.run(problem.args);
    CHECK(problem.problem() == "");
  }
}
