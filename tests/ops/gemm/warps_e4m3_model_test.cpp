// Protects products of e4m3 on warps' and waves' matrix instructions, on the CPU model against f64. Copies are by
// threads (sm_89), by the engine (sm_120a) and through registers (gfx1201). There are one scale for each operand,
// scales of blocks in every order, groups, batches, parts of K, NaN and subnormal numbers. Sums over a long K keep
// their precision, and archs without the instruction refuse e4m3 by name.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

constexpr std::array kArchs = {"sm_89", "sm_120a", "gfx1201"};

GemmShape narrow_shape(int m, int n, int k, Scales scales = Scales::tensor, DType out = DType::f32) {
  GemmShape shape = test::gemm_shape(m, n, k, DType::e4m3, out);
  shape.blocks = scales;
  return shape;
}

}  // namespace

TEST_CASE("e4m3 by warps: shapes at the edges of tiles, of K and of scales, each kind of scales in each order") {
  for (const std::string arch : kArchs) {
    std::uint64_t seed = 1;
    for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                  {64, 128, 128},
                                  {65, 129, 129},
                                  {129, 191, 127},
                                  {1, 300, 500},
                                  {300, 1, 70},
                                  {33, 31, 1300}})
      for (const Scales scales : {Scales::tensor, Scales::block, Scales::row}) {
        if (testing::sampled_out(static_cast<int>(seed++), 3)) continue;
        GemmShape shape = narrow_shape(m, n, k, scales, seed % 3 == 0 ? DType::bf16 : DType::f32);
        shape.scales = scales == Scales::tensor;
        shape.scale_a_transposed = seed % 3 == 0;
        shape.scale_b_transposed = seed % 5 < 2;
        shape.bias = seed % 4 < 2;
        shape.packed_scales = scales != Scales::tensor && seed % 7 < 3;
        CAPTURE(arch);
        CAPTURE(shape.text());
        CHECK(test::run_gemm_on_model(arch, shape, seed) == "");
      }
  }
}

TEST_CASE("e4m3 by warps: every tile, with each type of d and epilogue; one block for many tiles") {
  constexpr DType kOut[] = {DType::f16, DType::bf16, DType::f32};
  for (const std::string arch : kArchs) {
    int number = 0;
    test::StepKernels kernels(arch);
    for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
      const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
      if (tile.element_bytes != 1 || ops::gemm_blocks_per_sm(tile, *arch::find(arch)) == 0) continue;
      for (const Scales scales : {Scales::tensor, Scales::block, Scales::row}) {
        if (testing::sampled_out(++number + t)) continue;
        GemmShape shape =
            narrow_shape(3 * tile.block_m - 5, 2 * tile.block_n - 19, 5 * tile.block_k - 5, scales, kOut[number % 3]);
        shape.beta = number % 2 == 0 ? 0.0f : -0.5f;
        shape.alpha = 0.75f;
        shape.bias = number % 3 != 1;
        shape.activation = static_cast<Activation>(number % 4);
        shape.scales = scales == Scales::tensor && number % 2 == 0;
        shape.padding = number % 3;
        CAPTURE(arch);
        CAPTURE(shape.text());
        GemmProblem problem(shape, 100 + static_cast<std::uint64_t>(t));
        CHECK(kernels.run(problem, {t, 1}, 100 + static_cast<std::uint64_t>(t), number % 2 == 0 ? 1 : 3) == "");
      }
    }
    CHECK(number >= 6);
  }
}

TEST_CASE("e4m3 by warps: batches in place, parts of K, and a long K") {
  for (const std::string arch : kArchs) {
    CAPTURE(arch);
    GemmShape shape = narrow_shape(70, 40, 200, Scales::block, DType::bf16);
    shape.batch = 3;
    shape.b_shared = true;
    shape.in_place = true;
    shape.beta = 2;
    CHECK(test::run_gemm_on_model(arch, shape, 12) == "");
    CHECK(test::run_gemm_on_model(arch, narrow_shape(16, 32, 8192), 16) == "");
    test::StepKernels kernels(arch);
    for (const Scales scales : {Scales::tensor, Scales::row}) {
      shape = narrow_shape(70, 90, 1500, scales);
      shape.alpha = -0.5f;
      shape.bias = true;
      GemmProblem problem(shape, 31);
      CHECK(kernels.run(problem, {test::gemm_tile_named("64x128x128"), 3}, 31, 2) == "");
    }
  }
}

TEST_CASE("e4m3 by warps: each way to tell groups, with each kind of scales; lists that hold anything") {
  std::uint64_t seed = 1;
  for (const std::string arch : kArchs)
    for (const Grouping grouping : test::kGroupings)
      for (const Scales scales : {Scales::tensor, Scales::block, Scales::row}) {
        if (testing::sampled_out(static_cast<int>(seed++), 4)) continue;
        test::GroupedShape shape = test::scaled_shape(grouping, scales, seed % 3 == 0, static_cast<unsigned>(seed));
        shape.n = seed % 4 < 2 ? 144 : 300;
        shape.spare = static_cast<int>(seed % 3);
        shape.bias = seed % 2 == 0;
        shape.packed_scales = scales != Scales::tensor && seed % 4 == 2;
        CAPTURE(arch);
        CAPTURE(shape.text());
        test::GroupedProblem problem(shape, seed);
        Runtime& runtime = testing::model_runtime("model:" + arch);
        problem.run(runtime);
        CHECK(problem.problem() == "");
        test::GroupedProblem hostile(shape, seed);
        for (std::int32_t& each : hostile.list)
          each = seed % 2 == 0 ? std::numeric_limits<std::int32_t>::max() : static_cast<std::int32_t>(seed * 37) - 60;
        hostile.run(runtime);
        CHECK(!hostile.written_outside());
      }
}

TEST_CASE("e4m3 by warps: NaN of either sign reaches its row alone, subnormal numbers keep their values") {
  for (const std::string arch : kArchs)
    for (const std::uint8_t nan : {std::uint8_t{0x7f}, std::uint8_t{0xff}}) {
      GemmProblem problem(narrow_shape(70, 40, 200, nan == 0x7f ? Scales::block : Scales::tensor), 31);
      auto* a = static_cast<std::uint8_t*>(problem.args.a.data);
      const std::int64_t pitch = problem.args.a.strides[0];
      for (std::int64_t row = 0; row < 70; ++row)
        for (std::int64_t k = 0; k < 200; ++k)
          a[row * pitch + k] = static_cast<std::uint8_t>((row + k) % 8 + (row * k) % 2 * 0x80);
      Runtime& runtime = testing::model_runtime("model:" + arch);
      problem.run(runtime, {DeviceKind::cpu, 0});
      CAPTURE(arch);
      CHECK(problem.problem() == "");
      a[65 * pitch + 199] = nan;
      problem.run(runtime, {DeviceKind::cpu, 0});
      const auto* d = static_cast<const float*>(problem.args.d.data);
      int wrong = 0;
      for (int row = 0; row < 70; ++row) wrong += std::isnan(d[row * 40 + 39]) != (row == 65);
      CHECK(wrong == 0);
    }
}

TEST_CASE("e4m3 by warps: an exponent of 0 is 2^-127, one of 255 a NaN") {
  for (const std::string arch : kArchs) {
    GemmShape shape = narrow_shape(8, 16, 128, Scales::block);
    shape.packed_scales = true;
    GemmProblem problem(shape, 90);
    const Tensor& left = *problem.args.scale_a;
    const auto set = [&](std::int64_t row, std::uint32_t exponent) {
      static_cast<std::uint32_t*>(left.data)[row * left.strides[0]] = exponent;
    };
    for (std::int64_t row = 0; row < 8; ++row) set(row, 127);
    set(1, 255);
    static_cast<std::uint32_t*>(problem.args.scale_b->data)[0] = 127 + 100;
    Runtime& runtime = testing::model_runtime("model:" + arch);
    problem.run(runtime, {DeviceKind::cpu, 0});
    const auto* d = static_cast<const float*>(problem.args.d.data);
    CAPTURE(arch);
    CHECK(std::isnan(d[16]));
    const float plain = d[32];
    CHECK(plain != 0);
    set(2, 0);
    problem.run(runtime, {DeviceKind::cpu, 0});
    CHECK(d[32] == doctest::Approx(static_cast<double>(plain) * 0x1p-127).epsilon(1e-6));
  }
}

TEST_CASE("e4m3 by warps: operands, scales and d that begin and are apart anywhere") {
  std::uint64_t seed = 5;
  for (const std::string arch : kArchs)
    for (const Scales scales : {Scales::tensor, Scales::block, Scales::row}) {
      GemmShape shape = narrow_shape(90, 70, 333, scales, DType::bf16);
      shape.batch = 2;
      shape.b_shared = seed % 2 == 0;
      shape.beta = 0.25f;
      shape.padding = static_cast<int>(seed % 9);
      shape.any_stride = true;  // rows between multiples of 16 bytes are copied first
      shape.shift = static_cast<int>(seed % 16);
      shape.scale_padding = scales == Scales::tensor ? 0 : 8;
      shape.scale_a_transposed = seed % 2 == 1;
      shape.scale_b_transposed = seed % 3 == 1;
      CAPTURE(arch);
      CAPTURE(shape.text());
      CHECK(test::run_gemm_on_model(arch, shape, seed++) == "");
    }
}

TEST_CASE("e4m3 by warps: alpha 0 reads neither operand nor scale") {
  for (const std::string arch : kArchs)
    for (const Scales scales : {Scales::tensor, Scales::block}) {
      GemmShape shape = narrow_shape(70, 90, 200, scales);
      shape.alpha = 0;
      shape.beta = 1.5f;
      shape.scales = scales == Scales::tensor;
      GemmProblem problem(shape, 21);
      std::memset(problem.args.a.data, 0xff, 1);
      *static_cast<float*>(problem.args.scale_a->data) = std::numeric_limits<float>::quiet_NaN();
      const GemmArgs args = problem.args;
      problem.run(testing::model_runtime("model:" + arch), {DeviceKind::cpu, 0});
      static_cast<float*>(args.scale_a->data)[0] = 1;  // f64 reads it
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("archs without an instruction for e4m3 say so") {
  for (const std::string arch : {"sm_80", "sm_86", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950", "gfx1100"}) {
    ops::GemmKernel kernel;
    kernel.dtype = DType::e4m3;
    const std::string message = testing::error_of([&] { ops::gemm_candidate(kernel, *arch::find(arch)); }).message;
    CHECK_MESSAGE(testing::has(message, "a.dtype is e4m3; allowed on " + arch + ": f16, bf16"), message);
    const bool other = testing::has(message, "its own 8-bit type is another one, of bias 8 with numbers up to 240");
    CHECK_MESSAGE(other == (arch == "gfx942"), message);
  }
}
