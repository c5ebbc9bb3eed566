// Protects products whose d is quantised on the CPU model, against f64: every tile that does so, with a gate and
// without, scales of each kind and order, exponents, edges of tiles, batches, a bias; that the bits are those of
// quantise() on a result in f32; and that nothing beside d and its scales is written.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr std::array kGates = {Activation::none, Activation::silu, Activation::gelu_tanh};

/// The number-th shape: gates, orders, a bias and kinds of scales change from one to the next.
GemmShape shape_of(int m, int columns, int k, DType dtype, int number) {
  GemmShape shape = test::gemm_shape(m, columns, k, dtype, DType::e4m3);
  shape.gate = kGates[static_cast<std::size_t>(number) % 3];
  if (shape.gate != Activation::none) shape.n = 2 * columns;
  shape.gate_interleaved = number % 2 == 0;
  if (shape.gate == Activation::none && number % 2 == 0) shape.activation = Activation::gelu;
  shape.bias = number % 4 < 2;
  shape.powers_of_two = number % 5 == 3;
  shape.packed_out = number % 5 == 4;
  shape.scale_d_transposed = number % 7 < 3;
  shape.alpha = 0.25f;
  return shape;
}

/// Scales of operands' blocks, whose halves have scales of their own.
void set_scales(GemmShape& shape, int number, bool rows) {
  if (number % 4 == 0) return;
  shape.blocks = rows && number % 4 == 1 ? Scales::row : Scales::block;
  shape.gate_interleaved = false;
  shape.scale_a_transposed = number % 3 == 0;
  const int step = shape.blocks == Scales::block ? 256 : 8;
  if (shape.gate != Activation::none) shape.n = (shape.n + step - 1) / step * step;
}

bool served(int tile, const GemmShape& shape) {
  ops::GemmKernel kernel;
  kernel.dtype = shape.dtype;
  kernel.out = DType::e4m3;
  kernel.gate = shape.gate;
  kernel.scales = shape.blocks;
  const ops::GemmTile& of = ops::gemm_tiles()[static_cast<std::size_t>(tile)];
  return ops::gemm_tile_fits(of, kernel) && ops::gemm_blocks_per_sm(of, *arch::find("sm_90a")) > 0;
}

int run_tiles(DType dtype) {
  int count = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    test::StepKernels kernels;
    for (int kind = 0; kind < 4; ++kind) {
      const bool ragged = kind % 2 == 1, gated = kind >= 2;
      const int number = 3 * (t + kind) + (gated ? 1 + t % 2 : 0);
      const int columns = gated ? tile.block_n / 2 : tile.block_n;
      GemmShape shape = shape_of(2 * tile.block_m - (ragged ? 37 % tile.block_m : 0), 2 * columns - (ragged ? 9 : 0),
                                 3 * tile.block_k - (ragged ? 5 : 0), dtype, number);
      shape.padding = ragged ? 3 : 0;
      if (dtype == DType::e4m3) set_scales(shape, t + kind, tile.consumers() == 1);
      if (!served(t, shape) || testing::sampled_out(count++)) continue;
      CAPTURE(shape.text());
      CAPTURE(ops::gemm_tile_name(tile));
      GemmProblem problem(shape, static_cast<std::uint64_t>(number));
      CHECK(kernels.run(problem, {t, 1}, static_cast<std::uint64_t>(number), ragged ? 3 : 1) == "");
    }
  }
  return count;
}

std::string run(const GemmShape& shape, std::uint64_t seed) { return test::run_gemm_on_model("sm_90a", shape, seed); }

}  // namespace

TEST_CASE("every tile of 16-bit operands whose columns of d are whole blocks") { CHECK(run_tiles(DType::bf16) > 20); }

TEST_CASE("every tile of e4m3 whose columns of d are whole blocks, also those whose halves take turns") {
  CHECK(run_tiles(DType::e4m3) > 12);
}

TEST_CASE("sizes at the edges of tiles and of blocks, by the choice that a call takes") {
  int row = 0;
  for (const auto& [m, columns, k] :
       {std::array{1, 1, 8}, {1, 128, 72}, {3, 129, 128}, {65, 255, 40}, {200, 70, 64}, {17, 700, 1300}}) {
    const int number = 5 + row + row / 2;
    int place = row++;
    for (const DType dtype : {DType::f16, DType::bf16}) {
      if (testing::sampled_out(place++)) continue;
      const GemmShape shape = shape_of(m, columns, k, dtype, number);
      CAPTURE(shape.text());
      CHECK(run(shape, static_cast<std::uint64_t>(number)) == "");
    }
  }
}

TEST_CASE("batches, one b for all of them, and e4m3 with scales of tensors and of blocks") {
  GemmShape shape = shape_of(70, 300, 104, DType::bf16, 4);
  shape.batch = 3;
  CHECK(run(shape, 21) == "");
  shape.b_shared = true;
  CHECK(run(shape, 22) == "");
  for (int number = 0; number < 4; ++number) {
    shape = shape_of(70 + number, 256, 500, DType::e4m3, number);
    shape.scales = number % 4 == 0;
    set_scales(shape, number, true);
    shape.batch = number == 2 ? 2 : 0;
    CAPTURE(shape.text());
    CHECK(run(shape, 40 + static_cast<std::uint64_t>(number)) == "");
  }
}

TEST_CASE("the bits are those of quantise() on the result in f32") {
  for (const bool gated : {false, true}) {
    GemmShape shape = test::gemm_shape(130, 512, 256, DType::bf16, DType::e4m3);
    if (gated) shape.gate = Activation::silu;
    GemmProblem quantised(shape, 5);
    shape.out = DType::f32;
    GemmProblem plain(shape, 5);
    const ops::GemmChoice choice{test::gemm_tile_named("128x256x64"), 1};
    test::StepKernels kernels;
    REQUIRE(kernels.run(quantised, choice, 5, 3) == "");
    REQUIRE(kernels.run(plain, choice, 5, 3) == "");
    const std::int64_t rows = shape.m, columns = shape.columns();
    std::vector<std::uint8_t> q(static_cast<std::size_t>(rows * columns));
    std::vector<float> scales(static_cast<std::size_t>(rows * columns / 128));
    QuantiseArgs args;
    args.x = plain.args.d;
    args.q = Tensor::contiguous(q.data(), kCpu, DType::e4m3, {rows, columns});
    args.scales = Tensor::strided(scales.data(), kCpu, DType::f32, {rows, columns / 128}, {1, rows});
    testing::model_runtime().run(args);
    CHECK(std::memcmp(q.data(), quantised.args.d.data, q.size()) == 0);
    CHECK(std::memcmp(scales.data(), quantised.args.scale_d->data, scales.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a row of zeros, one with infinity, one with NaN: as quantise() has them") {
  GemmShape shape = test::gemm_shape(4, 256, 64, DType::f16, DType::e4m3);
  GemmProblem problem(shape, 9);
  const auto at = [&](int row, int k) {
    return static_cast<std::uint16_t*>(problem.args.a.data) + row * problem.args.a.strides[0] + k;
  };
  for (int k = 0; k < 64; ++k) *at(0, k) = *at(1, k) = *at(2, k) = 0;
  *at(1, 3) = 0x7c00;  // infinity, times b's numbers, none of which is 0
  *at(2, 3) = 0x7e00;  // NaN
  problem.run(testing::model_runtime("model:sm_90a"), kCpu);
  const auto* q = static_cast<const std::uint8_t*>(problem.args.d.data);
  const auto scale = [&](int row) { return static_cast<const float*>(problem.args.scale_d->data)[row]; };
  CHECK(scale(0) == doctest::Approx(1e-4 / 448));
  CHECK(q[0] == 0);
  CHECK(std::isinf(scale(1)));
  CHECK(std::isnan(test::from_e4m3(q[problem.args.d.strides[0]])));
  CHECK(scale(2) == doctest::Approx(1e-4 / 448));
  CHECK(std::isnan(test::from_e4m3(q[2 * problem.args.d.strides[0]])));
}

TEST_CASE("alpha 0 quantises the bias, and reads neither a nor b") {
  GemmShape shape = test::gemm_shape(40, 130, 64, DType::bf16, DType::e4m3);
  shape.alpha = 0;
  shape.bias = true;
  GemmProblem problem(shape, 31);
  std::memset(problem.args.a.data, 0xff, 2);  // NaN
  problem.run(testing::model_runtime("model:sm_90a"), kCpu);
  CHECK(problem.problem() == "");
}

TEST_CASE("K is never cut where d is quantised, and a tile's columns are whole blocks") {
  ops::GemmKernel kernel;
  kernel.out = DType::e4m3;
  for (const auto& [m, n, k] : {std::array{16, 256, 65536}, {128, 2048, 32768}, {300, 6000, 8192}})
    for (const ops::RankedGemm& ranked : ops::rank_gemm({m, n, k, 1}, kernel, *arch::find("sm_90a"))) {
      CHECK(ranked.choice.parts == 1);
      CHECK(ranked.choice.walk != ops::WalkChoice::split);
      CHECK(ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].block_n % 128 == 0);
    }
}
