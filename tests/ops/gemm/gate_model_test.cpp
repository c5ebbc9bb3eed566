// Protects products with a gate on the CPU model, against f64: every tile that has one, halves of b that follow each
// other and that take turns, each activation, bias, edges of tiles, batches, 8-bit operands with each kind of scales,
// and that nothing beside d is written.
#include <doctest/doctest.h>

#include <array>
#include <cstring>

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

constexpr std::array kGates = {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu};

/// The number-th shape: types, gates, orders and a bias change from one to the next.
GemmShape shape_of(int m, int columns, int k, DType dtype, int number) {
  constexpr std::array kOut = {DType::f16, DType::bf16, DType::f32};
  GemmShape shape = test::gemm_shape(m, 2 * columns, k, dtype, kOut[static_cast<std::size_t>(number) % 3]);
  shape.gate = kGates[static_cast<std::size_t>(number) % 4];
  shape.gate_interleaved = number % 2 == 0;
  shape.bias = number % 3 != 1;
  shape.alpha = 0.25f;
  return shape;
}

/// Scales of blocks where the number asks for them; halves of b have scales of their own then.
void set_scales(GemmShape& shape, int number) {
  if (number % 3 == 0) return;
  shape.blocks = number % 3 == 1 ? Scales::block : Scales::row;
  shape.gate_interleaved = false;
  shape.scale_a_transposed = number % 4 < 2;
  shape.scale_b_transposed = number % 5 < 2;
  const int step = shape.blocks == Scales::block ? 256 : 8;
  shape.n = (shape.n + step - 1) / step * step;
  if (shape.out == DType::f16) shape.out = DType::bf16;
}

int run_tiles(DType dtype) {
  int served = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    ops::GemmKernel kernel;
    kernel.dtype = dtype;
    kernel.gate = Activation::silu;
    if (!ops::gemm_tile_fits(tile, kernel) || ops::gemm_blocks_per_sm(tile, *arch::find("sm_90a")) == 0) continue;
    if (testing::sampled_out(served++)) continue;
    test::StepKernels kernels;
    const int half = tile.block_n / 2;
    for (const bool ragged : {false, true}) {
      const int number = 2 * t + (ragged ? 1 : 0);
      GemmShape shape = shape_of(2 * tile.block_m - (ragged ? 37 % tile.block_m : 0), 3 * half - (ragged ? 9 : 0),
                                 3 * tile.block_k - (ragged ? 5 : 0), dtype, number);
      shape.padding = ragged ? 3 : 0;
      if (dtype == DType::e4m3) set_scales(shape, number);
      CAPTURE(shape.text());
      CAPTURE(t);
      GemmProblem problem(shape, static_cast<std::uint64_t>(number));
      CHECK(kernels.run(problem, {t, 1}, static_cast<std::uint64_t>(number), ragged ? 3 : 1) == "");
    }
  }
  return served;
}

std::string run(const GemmShape& shape, std::uint64_t seed) { return test::run_gemm_on_model("sm_90a", shape, seed); }

}  // namespace

TEST_CASE("every tile of 16-bit operands that has a gate") { CHECK(run_tiles(DType::bf16) > 12); }

TEST_CASE("every tile of e4m3 that has a gate, with each kind of scales") { CHECK(run_tiles(DType::e4m3) > 8); }

TEST_CASE("sizes at the edges of tiles, by the choice that a call takes") {
  int row = 0;
  for (const auto& [m, columns, k] :
       {std::array{1, 1, 8}, {1, 64, 72}, {3, 9, 128}, {65, 129, 40}, {200, 70, 64}, {17, 300, 1300}}) {
    const int number = 7 + row + row / 2;  // so that types meet gates and both orders
    int place = row++;
    for (const DType dtype : {DType::f16, DType::bf16}) {
      if (testing::sampled_out(place++)) continue;
      const GemmShape shape = shape_of(m, columns, k, dtype, number);
      CAPTURE(shape.text());
      CHECK(run(shape, static_cast<std::uint64_t>(number)) == "");
    }
  }
}

TEST_CASE("batches, one b for all of them, rows of operands that are copied first") {
  GemmShape shape = shape_of(70, 45, 104, DType::bf16, 1);
  shape.bias = true;
  shape.batch = 3;
  CHECK(run(shape, 21) == "");
  shape.b_shared = true;
  shape.gate_interleaved = true;
  CHECK(run(shape, 22) == "");
  shape = shape_of(33, 50, 67, DType::f16, 3);
  shape.any_stride = true;
  shape.shift = 1;
  shape.padding = 1;
  CHECK(run(shape, 23) == "");
}

TEST_CASE("e4m3 calls with each kind of scales, and of a batch") {
  for (int number = 0; number < 6; ++number) {
    GemmShape shape = shape_of(70 + number, 128, 500, DType::e4m3, number);
    shape.scales = number % 3 == 0;
    set_scales(shape, number);
    shape.batch = number == 4 ? 2 : 0;
    CAPTURE(shape.text());
    CHECK(run(shape, 40 + static_cast<std::uint64_t>(number)) == "");
  }
}

TEST_CASE("alpha 0 leaves a gate of the bias alone, and reads neither a nor b") {
  GemmShape shape = shape_of(40, 33, 64, DType::bf16, 2);
  shape.alpha = 0;
  GemmProblem problem(shape, 31);
  std::memset(problem.args.a.data, 0xff, 2);  // NaN
  problem.run(testing::model_runtime("model:sm_90a"), {DeviceKind::cpu, 0});
  CHECK(problem.problem() == "");
}

TEST_CASE("K is never cut for a gate: its sums are whole in one block") {
  ops::GemmKernel kernel;
  kernel.gate = Activation::silu;
  for (const auto& [m, n, k] : {std::array{16, 256, 65536}, {128, 2048, 32768}, {300, 6000, 8192}}) {
    const ops::GemmChoice choice = ops::choose_gemm({m, n, k, 1}, kernel, *arch::find("sm_90a"));
    CHECK(choice.parts == 1);
    CHECK(choice.walk != ops::WalkChoice::split);
    for (const ops::RankedGemm& ranked : ops::rank_gemm({m, n, k, 1}, kernel, *arch::find("sm_90a")))
      CHECK(ranked.choice.parts == 1);
  }
}
