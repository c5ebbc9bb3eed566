// Protects what is served on sm_103a, whose special functions are twice as fast and whose schedules may differ for it:
// attention, products and chunk output on its model, against f64.
#include <doctest/doctest.h>

#include <tilejit/tilejit.hpp>

#include "ops/chunk_o/problem.hpp"
#include "ops/fmha/checks.hpp"
#include "ops/gemm/checks.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {
constexpr const char* kTarget = "model:sm_103a";
}  // namespace

TEST_CASE("attention: both head dims and types, masks, layouts, grouped heads, edges of tiles, without log-sum-exp") {
  std::uint64_t seed = 8101;
  for (const test::FmhaShape& shape : {test::FmhaShape{1, 1, 1, 1, 1, 64, DType::f16, false, false, true},
                                       {1, 2, 1, 129, 127, 128, DType::f16, true, true, true},
                                       {1, 1, 1, 200, 50, 64, DType::f16, true, false, false},
                                       {2, 1, 1, 65, 300, 64, DType::bf16, false, true, true},
                                       {1, 4, 1, 63, 64, 128, DType::bf16, true, true, true},
                                       {1, 1, 1, 300, 700, 128, DType::f16, false, false, true}}) {
    CAPTURE(shape.text());
    CHECK(test::run_fmha(kTarget, shape, seed++) == "");
  }
}

TEST_CASE("chunk output: one and two heads an item, with and without gates, whole and partial chunks") {
  std::uint64_t seed = 8201;
  for (const int heads : {1, 2})
    for (const bool gated : {true, false}) {
      test::ChunkOShape shape;
      shape.lengths = {64, 70, 1, 64, 0, 130};
      shape.v_heads = heads;
      shape.gated = gated;
      shape.lead = 1;
      shape.tail = 2;
      CAPTURE(shape.text());
      test::ChunkOProblem problem(shape, seed++);
      testing::model_runtime(kTarget).run(problem.args);
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("products") { test::check_gemm_edges("sm_103a"); }
