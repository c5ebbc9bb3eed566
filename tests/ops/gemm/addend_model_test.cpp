// Protects an addend of f32 beside a d of 16 bits on the CPU model, against f64. Every family and way of storing has
// it. So have swapped tiles, parts of K, and tiles that blocks share or draw. No other kernel has its name and its key.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;
using test::GemmShape;

namespace {

GemmShape shape_of(int m, int n, int k, int number) {
  GemmShape shape =
      gemm_shape(m, n, k, number % 2 == 0 ? DType::f16 : DType::bf16, number % 2 == 0 ? DType::f16 : DType::bf16);
  shape.c_f32 = true;
  shape.alpha = 0.125f;
  shape.beta = 0.5f;
  shape.bias = number % 3 == 0;
  shape.activation = number % 3 == 1 ? Activation::relu : Activation::none;
  shape.batch = number % 3 == 2 ? 2 : 0;
  shape.padding = number % 4 == 0 ? 3 : 0;
  return shape;
}

std::string run(test::StepKernels& kernels, const GemmShape& shape, const ops::GemmChoice& choice, int number,
                unsigned blocks) {
  GemmProblem problem(shape, static_cast<std::uint64_t>(7000 + number));
  return kernels.run(problem, choice, static_cast<std::uint64_t>(number), blocks);
}

}  // namespace

TEST_CASE("every family takes an f32 addend, as a call does") {
  int number = 0;
  for (const char* target : {"sm_90a", "sm_80", "sm_100a", "gfx90a", "gfx1100"})
    for (int i = 0; i < 2; ++i, ++number) {
      const GemmShape shape = shape_of(70 + 7 * i, 151 - i, 200, number);
      CAPTURE(std::string(target));
      CAPTURE(shape.text());
      GemmProblem problem(shape, static_cast<std::uint64_t>(number));
      problem.run(testing::model_runtime(std::string("model:") + target), {DeviceKind::cpu, 0});
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("tiles of every kind take one, parts of K and tiles that blocks share, too") {
  test::StepKernels kernels;
  int number = 0;
  for (const char* tile : {"128x128x64", "64x64x128", "128x256x64c2x1", "72x64x128s", "136x256x64s", "24x64x128c1x1x2s",
                           "64x64x128c1x1x2"}) {
    if (testing::sampled_out(number++)) continue;
    const GemmShape shape = shape_of(150, 131, 400, number);
    CAPTURE(std::string(tile));
    CAPTURE(shape.text());
    CHECK(run(kernels, shape, {.tile = gemm_tile_named(tile)}, number, 3) == "");
  }
  for (const ops::WalkChoice walk : {ops::WalkChoice::split, ops::WalkChoice::dynamic}) {
    const GemmShape shape = shape_of(150, 131, 1300, ++number);
    CHECK(run(kernels, shape, {.tile = gemm_tile_named("64x64x128"), .walk = walk}, number, 7) == "");
  }
  for (const char* arch : {"sm_90a", "sm_80", "gfx1100"}) {
    test::StepKernels parts(arch);
    const GemmShape shape = shape_of(67, 131, 1000, ++number);
    CHECK(run(parts, shape, {gemm_tile_named("64x64x128"), 3}, number, 5) == "");
    REQUIRE(parts.launches.size() == 2);
    CHECK(parts.launches[0].find("_c") == std::string::npos);
  }
}

TEST_CASE("a kernel with one has a name of its own, and other types are refused by name") {
  GemmProblem problem(shape_of(64, 64, 64, 0), 1);
  const auto key = [&] { return ops::gemm_op().problem_key(&problem.args).kind; };
  const ops::GemmKernel own = ops::gemm_kernel(key());
  CHECK(own.add_f32);
  problem.args.c->dtype = DType::f16;
  CHECK(!ops::gemm_kernel(key()).add_f32);
  problem.args.c->dtype = DType::bf16;
  const std::string said = testing::said_by([&] { testing::model_runtime().run(problem.args); });
  CHECK_MESSAGE(testing::has(said, "c.dtype is bf16; allowed: f16, as d.dtype, or f32"), said);
  problem.args.c = problem.args.d;
  problem.args.c->dtype = DType::f32;
  CHECK(testing::has(testing::said_by([&] { testing::model_runtime().run(problem.args); }), "overlap"));
}
