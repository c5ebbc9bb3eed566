// Protects matrix products of e4m3 on the CPU model, against f64 on the rounded inputs: shapes at the edges of tiles,
// every tile and epilogue, scales in memory, batches; that sums over a long K keep their precision; and NaNs of either
// sign.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "common/random.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

GemmShape shape_of(int m, int n, int k, DType out = DType::f32) { return test::gemm_shape(m, n, k, DType::e4m3, out); }

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

TEST_CASE("shapes at the edges of tiles and of K") {
  std::uint64_t seed = 1;
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {1, 1, 128},
                                {64, 128, 128},
                                {65, 129, 129},
                                {128, 192, 256},
                                {129, 191, 127},
                                {1, 300, 500},
                                {300, 1, 70},
                                {16, 96, 1000},
                                {33, 31, 257}}) {
    const GemmShape shape = shape_of(m, n, k);
    CAPTURE(shape.text());
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE("every tile, with each type of d and epilogue, with scales and without; one block for many tiles") {
  constexpr DType kOut[] = {DType::f16, DType::bf16, DType::f32};
  int number = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    // Slices have a tile a block: slices_model_test.cpp.
    if (tile.element_bytes != 1 || tile.sliced() || (tile.swapped && !testing::full_run() && t % 4 != 1)) continue;
    ++number;
    GemmShape shape = shape_of(3 * tile.block_m - 5, 2 * tile.block_n - 19, 3 * tile.block_k - 5, kOut[number % 3]);
    shape.beta = number % 2 == 0 ? 0.0f : -0.5f;
    shape.alpha = 0.75f;
    shape.bias = number % 3 != 1;
    shape.activation = static_cast<Activation>(number % 4);
    shape.scales = number % 2 == 0;
    shape.padding = number % 3;
    CAPTURE(shape.text());
    CAPTURE(t);
    CHECK(run_tile(shape, t, 100 + static_cast<std::uint64_t>(t), number % 2 == 0 ? 1 : 3) == "");
  }
  CHECK(number > 4);
}

TEST_CASE("batches with scales, in place") {
  GemmShape shape = shape_of(70, 40, 200, DType::bf16);
  shape.batch = 3;
  shape.scales = true;
  CHECK(run(shape, 11) == "");
  shape.b_shared = true;
  shape.in_place = true;
  shape.beta = 2;
  CHECK(run(shape, 12) == "");
}

TEST_CASE("a long K loses no more than a short one: sums of the matrix unit are added in f32") {
  CHECK(run(shape_of(16, 32, 8192, DType::f16), 15) == "");
  CHECK(run(shape_of(16, 32, 8192), 16) == "");
}

TEST_CASE("alpha 0 reads neither operand nor scale") {
  GemmShape shape = shape_of(70, 90, 200);
  shape.alpha = 0;
  shape.beta = 1.5f;
  shape.scales = true;
  GemmProblem problem(shape, 21);
  std::memset(problem.args.a.data, 0xff, 1);
  *static_cast<float*>(problem.args.scale_a->data) = std::nanf("");
  const GemmArgs with_nan = problem.args;
  problem.args.scale_a.reset();  // what is compared with; its scale plays no part
  GemmArgs args = with_nan;
  testing::model_runtime().run("gemm", &args);
  CHECK(problem.problem() == "");
}

TEST_CASE("a NaN of either sign in a row of a makes that row NaN and no other") {
  for (const std::uint8_t nan : {std::uint8_t{0x7f}, std::uint8_t{0xff}}) {
    const GemmShape shape = shape_of(130, 70, 200, DType::f16);
    GemmProblem problem(shape, 31);
    static_cast<std::uint8_t*>(problem.args.a.data)[problem.args.a.strides[0] * 65 + 199] = nan;
    problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
    const auto* d = static_cast<const std::uint16_t*>(problem.args.d.data);
    for (int row = 0; row < shape.m; ++row) {
      CAPTURE(row);
      CHECK(((d[row * 70 + 69] & 0x7fff) > 0x7c00) == (row == 65));
    }
  }
}

TEST_CASE("random shapes, strides and scalars") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t next = 0;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 10; ++i) {
    GemmShape shape = shape_of(between(1, 300), between(0, 1) ? between(1, 400) : between(1, 40),
                               between(0, 1) ? between(1, 600) : between(1, 66));
    shape.batch = between(0, 2);
    shape.b_shared = between(0, 1) == 1;
    shape.beta = 0.25f;  // one kernel for all: what it costs is compiling
    shape.alpha = static_cast<float>(between(1, 8)) / 4;
    shape.scales = between(0, 1) == 1;
    shape.padding = between(0, 9);
    shape.any_stride = between(0, 1) == 1;  // rows between multiples of 16 bytes are copied first
    shape.shift = between(0, 15);
    CAPTURE(shape.text());
    CHECK(run(shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}
