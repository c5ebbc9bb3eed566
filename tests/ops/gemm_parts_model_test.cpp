// Protects matrix products in parts of K on the CPU model, against f64 with inputs between NaNs, poisoned outputs and poisoned scratch
// memory: every kind of call, parts that K does not divide into, more parts than iterations, blocks that walk tiles of several parts;
// that equal calls give equal bits; and that the runtime takes parts where it predicts them.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstring>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/gemm.hpp"
#include "ops/gemm_checks.hpp"
#include "ops/gemm_parts.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;
using test::gemm_shape;
using test::gemm_tile_named;

namespace {

test::StepKernels& kernels() {
  static test::StepKernels all;
  return all;
}

std::string run(const GemmShape& shape, const std::string& tile, int parts, std::uint64_t seed, unsigned blocks = 132) {
  GemmProblem problem(shape, seed);
  return kernels().run(problem, {gemm_tile_named(tile), parts}, seed, blocks);
}

}  // namespace

TEST_CASE("sizes that nothing divides: the last part shorter, parts without iterations left out, one block for all") {
  std::uint64_t seed = 1;
  // m, n, k, parts, blocks
  for (const auto& [m, n, k, parts, blocks] : {std::array{128, 128, 256, 2, 132}, {70, 90, 700, 3, 132}, {70, 90, 700, 4, 1}, {65, 257, 650, 5, 3}, {1, 1, 1, 2, 132},
                                               {1, 129, 130, 7, 132}, {33, 3, 1281, 128, 2}, {130, 131, 1283, 17, 5}, {64, 66, 2200, 34, 132}}) {
    const GemmShape shape = gemm_shape(m, n, k);
    const int cut = parts;
    CAPTURE(shape.text());
    CAPTURE(cut);
    CHECK(run(shape, "64x64x128", cut, seed++, static_cast<unsigned>(blocks)) == "");
    CHECK(kernels().launches.back() == "sum_parts_f16");
  }
}

TEST_CASE("every order of the operands, type, epilogue and output, batches, shared operands, in place") {
  constexpr DType kOut[] = {DType::f16, DType::bf16, DType::f32};
  for (int i = 0; i < 12; ++i) {
    GemmShape shape = gemm_shape(70 + i, 100 + 3 * i, 900 + 5 * i, i % 2 == 0 ? DType::f16 : DType::bf16, kOut[i % 3]);
    shape.a_transposed = i % 4 >= 2;
    shape.b_transposed = i % 2 == 1;
    shape.alpha = 0.75f;
    shape.beta = i % 3 == 2 ? 0.0f : -0.5f;
    shape.bias = i % 4 != 1;
    shape.activation = static_cast<Activation>(i % 4);
    shape.batch = i % 5 == 0 ? 0 : i % 3 + 1;
    shape.b_shared = i % 2 == 0;
    shape.in_place = i % 3 == 1;
    shape.padding = i % 3 == 0 ? 0 : i;
    CAPTURE(shape.text());
    CHECK(run(shape, "64x64x128", 2 + i % 4, 100 + static_cast<std::uint64_t>(i), i % 2 == 0 ? 132 : 3) == "");
  }
}

TEST_CASE("tiles of two consumers, few rows, clusters") {
  std::uint64_t seed = 200;
  for (const char* tile : {"128x256x64", "16x64x128", "128x128x64c2x1", "64x128x64c2x1", "128x64x64c1x2", "128x64x64c2x2"}) {
    const bool low = std::strncmp(tile, "16x", 3) == 0;
    GemmShape shape = gemm_shape(low ? 7 : 133, 261, 1000, DType::bf16, DType::bf16);
    shape.bias = true;
    CAPTURE(tile);
    CHECK(run(shape, tile, 3, seed++) == "");
    CHECK(run(shape, tile, 5, seed++, 1) == "");
  }
}

TEST_CASE("e4m3 with scales, each type of d") {
  std::uint64_t seed = 300;
  for (const DType out : {DType::f16, DType::bf16, DType::f32})
    for (const char* tile : {"128x128x128", "16x32x256"}) {
      GemmShape shape = gemm_shape(tile[1] == '6' ? 5 : 130, 70, 1500, DType::e4m3, out);
      shape.scales = true;
      shape.alpha = 0.5f;
      shape.activation = Activation::silu;
      CAPTURE(shape.text());
      CHECK(run(shape, tile, 3, seed++) == "");
    }
}

TEST_CASE("operands that begin anywhere are copied first; with alpha 0 nothing is read, and only the epilogue runs") {
  GemmShape shape = gemm_shape(67, 45, 1001);
  shape.any_stride = true;
  shape.shift = 3;
  shape.batch = 2;
  shape.a_transposed = true;
  CHECK(run(shape, "64x64x128", 3, 400) == "");
  CHECK(kernels().launches == std::vector<std::string>{"copy_rows", "copy_rows", "gemm_f16_f32_mk_64x64x128_parts", "sum_parts_f16"});
  shape.alpha = 0;
  shape.beta = 1.5f;
  GemmProblem problem(shape, 401);
  std::memset(problem.args.a.data, 0xff, 2);  // NaN
  CHECK(kernels().run(problem, {gemm_tile_named("64x64x128"), 3}, 401, 132) == "");
  CHECK(kernels().launches == std::vector<std::string>{"sum_parts_f16"});
  CHECK(ops::gemm_op().scratch_bytes(&problem.args, ops::GemmChoice{gemm_tile_named("64x64x128"), 3}.number()) == 0);
}

TEST_CASE("equal calls give equal bits, whatever the order in which blocks run") {
  const GemmShape shape = gemm_shape(100, 72, 3000, DType::f16, DType::f32);
  std::vector<float> first;
  for (const unsigned blocks : {132u, 1u, 3u, 7u}) {
    GemmProblem problem(shape, 500);
    REQUIRE(kernels().run(problem, {gemm_tile_named("64x64x128"), 6}, 500 + blocks, blocks) == "");
    const auto* d = static_cast<const float*>(problem.args.d.data);
    if (first.empty()) first.assign(d, d + 100 * 72);
    CHECK(std::memcmp(first.data(), d, first.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a NaN in a row of a makes that row NaN and no other") {
  GemmProblem problem(gemm_shape(70, 66, 1000), 600);
  static_cast<std::uint16_t*>(problem.args.a.data)[problem.args.a.strides[0] * 65 + 999] = 0x7e00;
  kernels().run(problem, {gemm_tile_named("64x64x128"), 4}, 600, 132);
  const auto* d = static_cast<const std::uint16_t*>(problem.args.d.data);
  for (int row = 0; row < 70; ++row) {
    CAPTURE(row);
    CHECK(((d[row * 66 + 65] & 0x7fff) > 0x7c00) == (row == 65));
  }
}

TEST_CASE("the runtime takes parts where it predicts a gain") {
  GemmShape shape = gemm_shape(16, 64, 8192);
  shape.bias = true;
  shape.activation = Activation::gelu;
  GemmProblem problem(shape, 700);
  CHECK(testing::model_runtime().prepare(problem.args).name == "gemm_f16_f32_kk_16x32x128_parts");
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  CHECK(problem.problem() == "");
}

TEST_CASE("random calls in random parts") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t next = 0;
  const auto between = [&](int low, int high) { return low + static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(high - low + 1)); };
  for (int i = 0; i < 12; ++i) {
    GemmShape shape = gemm_shape(between(1, 140), between(1, 300), between(1, 2500));
    shape.batch = between(0, 2);
    shape.b_shared = between(0, 1) == 1;
    shape.beta = static_cast<float>(between(-1, 1));
    shape.alpha = static_cast<float>(between(-8, 8)) / 4;
    shape.bias = between(0, 1) == 1;
    shape.activation = static_cast<Activation>(between(0, 3));
    shape.in_place = between(0, 1) == 1;
    shape.padding = between(0, 9);
    shape.any_stride = between(0, 1) == 1;
    shape.shift = between(0, 7);
    const int parts = between(2, 12);
    CAPTURE(shape.text());
    CAPTURE(parts);
    CHECK(run(shape, "64x64x128", parts, seed + static_cast<std::uint64_t>(i), static_cast<unsigned>(between(1, 9))) == "");
  }
}
