// Protects products whose blocks share the iterations of tiles, on the CPU model, against f64 with inputs between NaNs
// and poisoned sums: tiles cut in two and in many pieces, more blocks than tiles and the other way round, clusters,
// every family; that the same grid gives the same bits in any order of events; and that a plan gives its launches what
// they take.
#include <doctest/doctest.h>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/parts.hpp"
#include "support/full.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;
using test::GemmShape;

namespace {

ops::GemmChoice split(const char* tile) { return {.tile = gemm_tile_named(tile), .walk = ops::WalkChoice::split}; }

}  // namespace

TEST_CASE("any number of blocks, of tiles and of iterations") {
  test::StepKernels kernels;
  std::uint64_t seed = 1;
  int index = 0;
  struct Case {
    int m, n, k;
    std::vector<unsigned> blocks;
  };
  // Tiles of 64 x 64, iterations of 128: pieces of one tile in all blocks; two tiles and a half a block; tiles that are
  // too short to be cut; whole waves, where none is; none at all.
  for (const Case& each : {Case{60, 64, 4000, {1, 2, 3, 7}},
                           {128, 320, 1500, {3, 4, 7, 9}},
                           {200, 128, 900, {5}},
                           {128, 128, 1100, {2, 4}},
                           {130, 130, 1024, {7, 8}}})
    for (const unsigned blocks : each.blocks) {
      if (testing::thinned_out(index++)) continue;
      GemmShape shape = gemm_shape(each.m, each.n, each.k);
      shape.bias = blocks % 2 != 0;
      CAPTURE(shape.text());
      CAPTURE(blocks);
      GemmProblem problem(shape, seed);
      CHECK(kernels.run(problem, split("64x64x128"), seed++, blocks) == "");
    }
}

TEST_CASE("every family, clusters, both ways of storing, batches, addends") {
  struct Case {
    const char* arch;
    const char* tile;
    DType dtype, out;
  };
  std::uint64_t seed = 50;
  int index = 0;
  for (const Case& each : {Case{"sm_90a", "128x128x64c2x1", DType::f16, DType::f16},
                           {"sm_90a", "128x64x64c2x2", DType::bf16, DType::f32},
                           {"sm_90a", "128x128x128c1x2", DType::e4m3, DType::bf16},
                           {"sm_90a", "72x64x128s", DType::f16, DType::f16},  // the last part of a column is incomplete
                           {"sm_90a", "48x64x128c2x2s", DType::bf16, DType::bf16},
                           {"sm_100a", "256x128x64c2x1", DType::f16, DType::f16},
                           {"sm_80", "64x64x128", DType::f16, DType::f16},
                           {"gfx1100", "64x64x128", DType::f16, DType::f16},
                           {"gfx90a", "64x64x128", DType::bf16, DType::f32}}) {
    const int place = index++;
    if (testing::thinned_out(place)) continue;
    test::StepKernels kernels(each.arch);
    GemmShape shape = gemm_shape(260, 150, each.dtype == DType::e4m3 ? 2000 : 1300, each.dtype, each.out);
    shape.batch = place % 3 == 1 || testing::full_run() ? 2 : 1;  // batches are tiles more to every family alike
    shape.beta = 0.5f;
    shape.activation = Activation::silu;
    shape.padding = 3;
    CAPTURE(std::string(each.arch));
    CAPTURE(shape.text());
    GemmProblem problem(shape, seed);
    CHECK(kernels.run(problem, split(each.tile), seed++, 7) == "");
    CHECK(kernels.left_sums);
  }
}

TEST_CASE("the same grid gives the same bits, whichever block draws first") {
  test::StepKernels kernels;
  const GemmShape shape = gemm_shape(190, 250, 3000);
  std::vector<unsigned char> bits;
  for (const std::uint64_t seed : {9, 7, 8, 12}) {
    if (!bits.empty() && testing::thinned_out(static_cast<int>(seed))) continue;
    GemmProblem problem(shape, 70);
    REQUIRE(kernels.run(problem, split("64x64x128"), seed, 7) == "");
    if (bits.empty()) bits = problem.result();
    CHECK(problem.result() == bits);
  }
}

TEST_CASE("the grid has no more blocks than have pieces") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const auto blocks = [&](int m, int n, int k) {
    GemmProblem problem(gemm_shape(m, n, k), 1);
    const ops::Kernel kernel = ops::resolve(ops::gemm_op(), &problem.args, split("64x64x128").number(), arch);
    ops::LaunchPlan plan;
    plan.sm_count = 132;
    ops::gemm_op().plan(&problem.args, kernel, ops::Geometry::of(ops::GemmLaunch{.split = true}), plan);
    return plan.blocks;
  };
  CHECK(blocks(64, 64, 128 * 40) == 10);  // four iterations each
  CHECK(blocks(64, 64, 128 * 3) == 1);    // none is cut
  CHECK(blocks(64, 64 * 200, 128 * 3) == 132);
  CHECK(blocks(64, 64 * 100, 128 * 64) == 132);
}
