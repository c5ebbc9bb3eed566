// Protects products by tiles of their own ways on sm_90a, on the CPU model against f64: swapped tiles so wide that a
// consumer has two products, those of few rows of a transposed, and tiles whose threads read rows that begin anywhere.
// d leaves from registers, turned.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/steps.hpp"
#include "support/full.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;
using test::GemmShape;

namespace {

ops::GemmChoice by_tile(const char* tile) { return {.tile = gemm_tile_named(tile)}; }

/// Every type of d, with addends, a bias and an activation, from rows of whole 16 bytes and others.
std::vector<GemmShape> ends(int m, int n, int k) {
  std::vector<GemmShape> shapes;
  for (const DType out : {DType::f16, DType::f32})
    for (const int less : {0, 3}) {
      GemmShape shape = gemm_shape(m, n - less, k, DType::f16, out);
      shape.beta = less == 0 ? 0.5f : 0.0f;
      shape.bias = less == 0;
      shape.activation = less == 0 ? Activation::gelu : Activation::none;
      shapes.push_back(shape);
    }
  return shapes;
}

/// Each tile computes each shape, on so many blocks.
struct Runs {
  explicit Runs(std::uint64_t first) : seed(first) {}
  test::StepKernels kernels;
  std::uint64_t seed;
  void check(const char* tile, const GemmShape& shape, unsigned blocks) {
    CAPTURE(std::string(tile));
    CAPTURE(shape.text());
    GemmProblem problem(shape, seed);
    CHECK(kernels.run(problem, by_tile(tile), seed++, blocks) == "");
  }
};

}  // namespace

TEST_CASE("a consumer with two products: every way of d, ragged tiles, blocks that share copies, several tiles") {
  Runs runs(1);
  int index = 0;
  for (const char* tile : {"136x256x64s", "112x256x64c2x1s", "104x256x64s"})
    for (const GemmShape& shape : ends(170, 304, 200))
      if (!testing::sampled_out(index++)) runs.check(tile, shape, 2);
  GemmShape in_place = gemm_shape(170, 304, 200);
  in_place.beta = 0.5f;
  in_place.in_place = true;
  runs.check("152x256x64s", in_place, 2);
}

TEST_CASE("addends of staged swapped tiles come as whole rows") {
  Runs runs(30);
  for (const char* tile : {"72x64x128s", "208x128x64s"})
    for (const int columns : {200, 131}) {
      GemmShape shape = gemm_shape(150, columns, 130);
      shape.beta = -1;
      shape.batch = 2;
      shape.in_place = columns == 200;
      runs.check(tile, shape, 3);
    }
}

TEST_CASE("a transposed comes in boxes of 64 rows, of which tiles of fewer rows read their own") {
  Runs runs(40);
  int index = 0;
  for (const char* tile : {"16x64x128s", "40x128x64s", "56x64x128s", "48x64x128c1x2s", "24x64x128c1x1x2s"})
    // Rows of one tile, of a part of it, of a whole number of tiles and one more: boxes end in a, outside, and at its
    // end.
    for (const int m : {5, 48, 64, 97}) {
      if (testing::sampled_out(index++)) continue;
      GemmShape shape = gemm_shape(m, 150, 300, DType::bf16, m == 64 ? DType::f32 : DType::bf16);
      shape.a_transposed = true;
      shape.b_transposed = m % 2 == 0;
      shape.batch = m == 97 ? 2 : 0;
      shape.beta = m == 48 ? 0.5f : 0.0f;
      runs.check(tile, shape, 4);
    }
}

TEST_CASE("threads read rows that begin anywhere: no copy comes before") {
  Runs runs(50);
  int index = 0;
  for (const char* tile : {"16x64x128sr", "24x64x128sr", "32x64x128sr"})
    // Less than an iteration, one element more than one, several; rows between two words and on them.
    for (const int k : {1, 125, 129, 254, 391, 1031}) {
      if (testing::sampled_out(index++)) continue;
      GemmShape shape = gemm_shape(index % 3 == 0 ? 1 : 27, index % 2 == 0 ? 64 : 131, k,
                                   index % 2 == 0 ? DType::bf16 : DType::f16, DType::f32);
      shape.any_stride = true;
      shape.shift = index % 4;
      shape.padding = index % 3;
      shape.batch = index % 5 == 0 ? 2 : 0;
      CHECK(ops::gemm_scratch_bytes(GemmProblem(shape, 1).args, by_tile(tile)) == 0);
      runs.check(tile, shape, 2);
    }
  for (const GemmShape& shape : ends(19, 100, 203)) runs.check("24x64x128sr", shape, 2);
  GemmShape nothing = gemm_shape(19, 100, 203);
  nothing.alpha = 0;
  runs.check("24x64x128sr", nothing, 2);
}

TEST_CASE(
    "threads read rows of b that begin anywhere beside copies of a, which blocks share: a alone is copied before") {
  Runs runs(60);
  int index = 0;
  for (const char* tile : {"48x64x128sr", "64x64x128sr", "64x64x128c1x2sr", "96x64x128c1x2sr", "80x64x128c1x2sr"})
    for (const int k : {3, 125, 254, 391, 1031}) {
      if (testing::sampled_out(index++)) continue;
      // One cluster's columns in part, one block of which has none; several clusters.
      GemmShape shape = gemm_shape(index % 3 == 0 ? 133 : 45, index % 3 == 1 ? 61 : 200, k,
                                   index % 2 == 0 ? DType::bf16 : DType::f16, DType::f32);
      shape.any_stride = true;
      shape.shift = index % 4;
      shape.padding = index % 3;
      shape.batch = index % 5 == 0 ? 2 : 0;
      const GemmProblem problem(shape, 1);
      GemmArgs of_b = problem.args;  // with an a that nobody copies
      of_b.a = Tensor::contiguous(nullptr, of_b.b.device, of_b.b.dtype, {shape.m, 64});
      const std::size_t both = ops::gemm_scratch_bytes(problem.args, by_tile("64x64x128")),
                        right = ops::gemm_scratch_bytes(of_b, by_tile("64x64x128"));
      CAPTURE(tile);
      CHECK(right > 0);
      CHECK(ops::gemm_scratch_bytes(problem.args, by_tile(tile)) == both - right);
      runs.check(tile, shape, 2);
    }
  for (const GemmShape& shape : ends(90, 100, 203)) runs.check("96x64x128c1x2sr", shape, 2);
  for (const int m : {1, 72, 90}) {  // M of a is contiguous, of whole 16 bytes or not
    GemmShape shape = gemm_shape(m, 100, 203);
    shape.a_transposed = true;
    shape.any_stride = true;
    shape.batch = m == 72 ? 2 : 0;
    shape.b_shared = m == 72;
    for (const char* tile : {"48x64x128sr", "96x64x128c1x2sr"}) runs.check(tile, shape, 2);
  }
  GemmShape nothing = gemm_shape(90, 100, 203);
  nothing.alpha = 0;
  runs.check("96x64x128c1x2sr", nothing, 2);
}

TEST_CASE(
    "threads read nothing outside: rows of every length and place, of matrices that end where their memory does") {
  Runs runs(70);
  int index = 0;
  // From less than one vector to more than an iteration. Rows follow each other without a gap, or with one.
  for (const int k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 121, 127, 128, 135, 136, 137, 257, 263})
    for (int shift = 0; shift < 8; ++shift) {
      if (testing::sampled_out(index++)) continue;
      // One row, some of a tile's, all of them; columns of a part of a tile, and of more than one.
      GemmShape shape =
          gemm_shape(index % 3 == 0   ? 1
                     : index % 3 == 1 ? 9
                                      : 24,
                     index % 4 == 0 ? 67 : 1 + index % 61, k, index % 2 == 0 ? DType::bf16 : DType::f16, DType::f32);
      shape.any_stride = true;
      shape.shift = shift;
      // Rows of one element without gaps would be a column, which is contiguous in M.
      shape.padding = k == 1 || index % 5 == 0 ? 1 + index % 7 : 0;
      shape.batch = index % 7 == 0 ? 3 : 0;
      shape.b_shared = index % 2 == 0;
      shape.wide_a = index % 11 == 0;
      runs.check(index % 2 == 0 ? "16x64x128sr" : "24x64x128sr", shape, 2);
    }
}

TEST_CASE("tiles whose threads read are taken for few rows off 16 bytes alone") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const auto reads = [&](const ops::GemmSizes& sizes) {
    ops::GemmKernel kernel;
    ops::set_dense(kernel, sizes);
    return ops::gemm_tiles()[static_cast<std::size_t>(ops::choose_gemm(sizes, kernel, arch).tile)].reads;
  };
  CHECK(reads({2, 31992, 4090, 1}));
  CHECK(reads({28, 73712, 4603, 1}));
  CHECK_FALSE(reads({2, 31992, 4096, 1}));
  CHECK_FALSE(reads({512, 31992, 4090, 1}));
}
