// Protects matrix products in parts of K on the CPU model, against f64 with inputs between NaNs, poisoned outputs and
// poisoned scratch memory: every kind of call, parts that K does not divide into, more parts than iterations, blocks
// that walk tiles of several parts; that equal calls give equal bits; and that the runtime takes parts where it
// predicts them.
#include <doctest/doctest.h>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "ops/gemm/parts.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;
using test::GemmShape;

TEST_CASE("e4m3 with scales, each type of d") {
  test::StepKernels kernels;
  std::uint64_t seed = 300;
  for (const DType out : {DType::f16, DType::bf16, DType::f32})
    for (const char* tile : {"128x128x128", "16x32x256"}) {
      GemmShape shape = gemm_shape(tile[1] == '6' ? 5 : 130, 70, 1500, DType::e4m3, out);
      shape.scales = true;
      shape.alpha = 0.5f;
      shape.activation = Activation::silu;
      CAPTURE(shape.text());
      GemmProblem problem(shape, seed);
      CHECK(kernels.run(problem, {gemm_tile_named(tile), 3}, seed++, 132) == "");
    }
}

TEST_CASE("the runtime takes parts where it predicts a gain") {
  GemmShape shape = gemm_shape(16, 64, 24576);
  shape.bias = true;
  shape.activation = Activation::gelu;
  GemmProblem problem(shape, 700);
  CHECK(testing::model_runtime().prepare(problem.args).name == "gemm_f16_f32_kk_16x32x128_parts");
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  CHECK(problem.problem() == "");
}

TEST_CASE("sizes that nothing divides: the last part shorter, parts without iterations left out, one block for all") {
  test::check_gemm_part_sizes("sm_90a");
}

TEST_CASE("every order of the operands, type, epilogue and output, batches, shared operands, in place") {
  test::check_gemm_part_forms("sm_90a");
}

TEST_CASE("tiles of two consumers, few rows, clusters") { test::check_gemm_part_tiles("sm_90a"); }

TEST_CASE("operands that begin anywhere are copied first; with alpha 0 nothing is read, and only the epilogue runs") {
  test::check_gemm_part_places("sm_90a");
}

TEST_CASE("equal calls give equal bits, whatever the order in which blocks run") {
  test::check_gemm_part_bits("sm_90a");
}

TEST_CASE("a NaN in a row of a makes that row NaN and no other") { test::check_gemm_part_nan("sm_90a"); }

TEST_CASE("random calls in random parts") { test::check_random_gemm_parts("sm_90a"); }
