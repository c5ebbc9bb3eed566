// Protects matrix products' results: chosen odd shapes and random ones on the CPU model, against f64, with inputs between
// NaNs and poisoned outputs inside guard bands; every tile, order, type and epilogue; blocks that walk several tiles.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstring>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/gemm_checks.hpp"
#include "ops/gemm_problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

std::string run(const GemmShape& shape, std::uint64_t seed) { return test::run_gemm_on_model("sm_90a", shape, seed); }

}  // namespace

TEST_CASE("shapes at the edges of tiles and of K") {
  std::uint64_t seed = 1;
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {1, 1, 64},
                                {64, 256, 64},
                                {65, 257, 65},
                                {128, 256, 128},
                                {129, 255, 63},
                                {127, 300, 200},
                                {1, 300, 500},
                                {300, 1, 70},
                                {16, 96, 1000},
                                {33, 31, 129},
                                {7, 513, 127}}) {
    GemmShape shape = test::gemm_shape(m, n, k);
    CAPTURE(shape.text());
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE("every tile, in every order of the operands, with each type and epilogue; one block for many tiles") {
  const auto shape_of = [](int, int t, const ops::GemmTile& tile) {
    GemmShape shape = test::gemm_shape_of_kind(t, tile);
    shape.a_transposed = t % 4 >= 2;
    shape.b_transposed = t % 2 == 1 && tile.block_n >= 64;
    return shape;
  };
  // Whole tiles; ragged ones; fewer iterations than slots and more; 1 and 3 blocks. 8-bit elements: gemm_e4m3_model_test.cpp.
  CHECK(test::check_gemm_tiles("sm_90a", {{2, 2, 2, 1}, {5, 3, 1, 3, 37}, {3, 1, 13, 1, 37}}, shape_of) >= 7);
}

TEST_CASE("operands that begin anywhere, in every order: their rows are copied first") {
  std::uint64_t seed = 500;
  for (int order = 0; order < 4; ++order)
    for (const auto& [m, n, k, shift] : {std::array{131, 261, 201, 0}, {5, 3, 3, 1}, {70, 11, 65, 3}, {64, 64, 64, 1}}) {
      GemmShape shape;
      shape.dtype = order % 2 == 0 ? DType::f16 : DType::bf16;
      shape.out = order == 3 ? DType::f32 : shape.dtype;
      shape.a_transposed = order / 2 == 1;
      shape.b_transposed = order % 2 == 1;
      shape.any_stride = true;
      shape.m = m;
      shape.n = n;
      shape.k = k;
      shape.shift = shift;
      shape.batch = shift == 3 ? 2 : 0;  // the second matrix begins elsewhere than the first
      shape.alpha = shift == 3 ? 0.5f : 1.0f;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE("batches: strided, with one b for all, in place") {
  GemmShape shape;
  shape.batch = 3;
  shape.m = 70;
  shape.n = 40;
  shape.k = 100;
  shape.padding = 1;
  CHECK(run(shape, 11) == "");
  shape.b_shared = true;
  shape.beta = 2;
  CHECK(run(shape, 12) == "");
  shape.in_place = true;
  CHECK(run(shape, 13) == "");
  shape.padding = 0;
  shape.n = 64;  // 16 bytes at a time
  CHECK(run(shape, 14) == "");
}

TEST_CASE("alpha 0 reads neither a nor b, beta 0 not c") {
  GemmShape shape = test::gemm_shape(70, 90, 200);
  shape.alpha = 0;
  shape.beta = 1.5f;
  GemmProblem problem(shape, 21);
  std::memset(problem.args.a.data, 0xff, 2);  // NaN
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  CHECK(problem.problem() == "");
  shape.beta = 0;  // c is all NaN then
  GemmProblem zeros(shape, 22);
  std::memset(zeros.args.b.data, 0xff, 2);
  zeros.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  CHECK(zeros.problem() == "");
  zeros.args.c.reset();
  zeros.run(testing::model_runtime(), {DeviceKind::cpu, 0});
}

TEST_CASE("a NaN in a row of a makes that row NaN and no other") {
  GemmShape shape = test::gemm_shape(130, 70, 100);
  shape.activation = Activation::relu;
  GemmProblem problem(shape, 31);
  static_cast<std::uint16_t*>(problem.args.a.data)[problem.args.a.strides[0] * 65 + 99] = 0x7e00;
  problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  const auto* d = static_cast<const std::uint16_t*>(problem.args.d.data);
  for (int row = 0; row < shape.m; ++row) {
    CAPTURE(row);
    CHECK(((d[row * 70 + 69] & 0x7fff) > 0x7c00) == (row == 65));
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
  for (int i = 0; i < 16; ++i) {
    GemmShape shape;
    shape.m = between(0, 1) ? between(1, 300) : between(1, 20);
    shape.n = between(0, 1) ? between(1, 600) : between(1, 40);
    shape.k = between(0, 1) ? between(1, 400) : between(1, 66);
    shape.batch = between(0, 3);
    shape.b_shared = between(0, 1) == 1;
    shape.beta = 0.25f;  // one kernel for all: what it costs is compiling
    shape.alpha = static_cast<float>(between(-8, 8)) / 4;
    shape.in_place = between(0, 1) == 1;
    shape.padding = between(0, 9);
    shape.any_stride = between(0, 1) == 1;
    shape.shift = between(0, 7);
    CAPTURE(shape.text());
    CHECK(run(shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}
