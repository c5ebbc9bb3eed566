// Protects products of e4m3 with scales of blocks on the CPU model, against f64: both forms of b's scales, each order
// of scales, scales that must be copied, edges of tiles, batches, parts of K, and that no scale outside is read.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "common/random.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

GemmShape shape_of(int m, int n, int k, Scales scales, DType out = DType::f32) {
  GemmShape shape = test::gemm_shape(m, n, k, DType::e4m3, out);
  shape.blocks = scales;
  return shape;
}

std::string run(const GemmShape& shape, std::uint64_t seed) {
  GemmProblem problem(shape, seed);
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  return problem.problem();
}

/// A kernel of the tile, on as many blocks as a test likes.
std::string run_tile(const GemmShape& shape, int index, std::uint64_t seed, unsigned blocks) {
  GemmProblem problem(shape, seed);
  ops::GemmKernel kernel = ops::gemm_kind(problem.args);
  kernel.tile = index;
  const ops::Candidate candidate = ops::gemm_candidate(kernel, *arch::find("sm_90a"));
  sched::Options options;
  options.order_barriers = candidate.turns;
  test::EmittedKernel emitted(candidate.graph, options);
  ops::LaunchPlan plan;
  plan.sm_count = blocks;
  ops::gemm_plan(problem.args, {index, 1}, ops::GemmLaunch{.store = ops::gemm_store(kernel)}, plan);
  const std::string fault = emitted.launch(plan, plan.blocks, seed, {});
  return fault.empty() ? problem.problem() : fault;
}

}  // namespace

TEST_CASE("every tile with each kind of scales, in each order") {
  int number = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    if (tile.element_bytes != 1 || tile.swapped) continue;  // swapped tiles have one scale an operand
    ++number;
    GemmShape shape = shape_of((3 * tile.block_m - 5) / 4 * 4, (2 * tile.block_n - 19) / 4 * 4, 8 * 128 - 5,
                               number % 2 == 0 ? Scales::row : Scales::block);
    shape.scale_a_transposed = number % 3 == 0;
    shape.scale_b_transposed = number % 4 == 0;
    shape.scale_padding = number % 5 == 0 ? 4 : 0;
    shape.packed_scales = number / 2 % 2 == 1;
    if (shape.packed_scales) shape.k = 13 * 128 - 5;  // rows of four words
    CAPTURE(shape.text());
    CAPTURE(t);
    CHECK(run_tile(shape, t, 100 + static_cast<std::uint64_t>(t), number % 2 == 0 ? 1 : 3) == "");
  }
  CHECK(number > 4);
}

TEST_CASE("sizes at the edges of tiles and of scales, aligned and not") {
  std::uint64_t seed = 1;
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {1, 9, 128},
                                {1, 300, 500},
                                {64, 128, 512},
                                {65, 129, 129},
                                {129, 191, 127},
                                {300, 1, 70},
                                {33, 31, 1300}})
    for (const Scales scales : {Scales::block, Scales::row}) {
      GemmShape shape = shape_of(m, n, k, scales, seed % 2 == 0 ? DType::bf16 : DType::f32);
      shape.scale_a_transposed = seed % 3 == 0;
      shape.scale_b_transposed = seed % 5 < 2;
      shape.bias = seed % 2 == 0;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE("batches, one b for all of them, and an addend") {
  GemmShape shape = shape_of(72, 40, 200, Scales::block, DType::bf16);
  shape.batch = 3;
  shape.beta = 0.5f;
  shape.alpha = 2;
  CHECK(run(shape, 11) == "");
  shape.b_shared = true;
  shape.in_place = true;
  CHECK(run(shape, 12) == "");
}

TEST_CASE("parts of K have their own scales") {
  for (const Scales scales : {Scales::block, Scales::row}) {
    GemmShape shape = shape_of(20, 70, 4096, scales, DType::bf16);
    shape.alpha = -0.5f;
    shape.beta = 1;
    shape.bias = true;
    GemmProblem problem(shape, 17);
    const ops::GemmKernel kind = ops::gemm_kind(problem.args);
    CHECK(ops::gemm_kernel(ops::gemm_small_key(kind)).scales == scales);
    CHECK(ops::choose_gemm(ops::gemm_sizes(problem.args), kind, *arch::find("sm_90a")).parts >
          1);  // else no part is run
    CHECK(run(shape, 17) == "");
  }
}

TEST_CASE("alpha 0 reads no scale") {
  GemmShape shape = shape_of(72, 90, 200, Scales::block);
  shape.alpha = 0;
  shape.beta = 1.5f;
  GemmProblem problem(shape, 21);
  static_cast<float*>(problem.args.scale_a->data)[0] = std::nanf("");
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  CHECK(problem.problem() == "");
}

TEST_CASE("exponents of two, four in an i32: sizes at the edges of tiles and of words, batches, parts of K, copies") {
  std::uint64_t seed = 61;
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, {1, 300, 500}, {64, 128, 512}, {65, 129, 513}, {33, 31, 1300}, {20, 70, 4096}})
    for (const Scales scales : {Scales::block, Scales::row}) {
      GemmShape shape = shape_of(m, n, k, scales, DType::bf16);
      shape.packed_scales = true;
      shape.scale_a_transposed = seed % 3 == 0;
      shape.scale_b_transposed = seed % 5 < 2;
      shape.batch = seed % 4 == 0 ? 2 : 0;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE("an exponent of 0 is 2^-127, one of 255 a NaN") {
  GemmShape shape = shape_of(8, 16, 128, Scales::block);
  shape.packed_scales = true;
  GemmProblem problem(shape, 90);
  auto& left = *problem.args.scale_a;
  const auto set = [&](std::int64_t row, std::uint32_t exponent) {
    static_cast<std::uint32_t*>(left.data)[row * left.strides[0]] = exponent;
  };
  for (std::int64_t row = 0; row < 8; ++row) set(row, 127);
  set(1, 255);
  static_cast<std::uint32_t*>(problem.args.scale_b->data)[0] = 127 + 100;
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  const auto* d = static_cast<const float*>(problem.args.d.data);
  CHECK(std::isnan(d[16]));
  const float plain = d[32];
  CHECK(plain != 0);
  set(2, 0);
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  CHECK(d[32] == doctest::Approx(static_cast<double>(plain) * 0x1p-127).epsilon(1e-6));
}
