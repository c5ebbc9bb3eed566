// Protects ends of products by a user's text on the CPU model, against f64: every family and way of storing, swapped
// tiles, parts of K, tiles that blocks share or slice, rungs, batches, addends, gates, 8-bit operands and a quantised
// d. Each element is asked for once, of the whole sum, by its place in d.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;
using test::GemmShape;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

GemmShape shape_of(int m, int n, int k, int number, DType dtype = DType::f16) {
  constexpr DType kOut[] = {DType::f32, DType::f16, DType::bf16};
  GemmShape shape = gemm_shape(m, n, k, dtype, kOut[number % 3]);
  shape.alpha = 0.125f;
  shape.bias = number % 2 == 0;
  shape.beta = number % 4 < 2 ? 0.5f : 0.0f;
  shape.batch = number % 3 == 1 ? 2 : 0;
  shape.padding = number % 5 == 0 ? 3 : 0;
  shape.in_place = number % 8 == 1;
  return shape;
}

/// By a choice, on so many blocks.
std::string run(test::StepKernels& kernels, const GemmShape& shape, const ops::GemmChoice& choice, int number,
                unsigned blocks) {
  GemmProblem problem(shape, static_cast<std::uint64_t>(9000 + number));
  test::set_end(problem.args, problem.end, number);
  return kernels.run(problem, choice, static_cast<std::uint64_t>(number), blocks);
}

}  // namespace

TEST_CASE("every family, as a call takes it") {
  int number = 0;
  for (const char* target : {"sm_90a", "sm_80", "sm_120a", "sm_100a", "gfx90a", "gfx1100", "gfx1201"}) {
    CAPTURE(std::string(target));
    for (int i = 0; i < test::kEndExamples; ++i) {
      if (testing::sampled_out(number++)) continue;
      const GemmShape shape = shape_of(70 + 7 * i, 150 - i, 200, number);
      CAPTURE(shape.text());
      GemmProblem problem(shape, static_cast<std::uint64_t>(number));
      test::set_end(problem.args, problem.end, i);
      problem.run(testing::model_runtime(std::string("model:") + target), kCpu);
      CHECK(problem.problem() == "");
    }
  }
}

TEST_CASE("tiles of every kind: through shared memory and not, swapped, sliced, read by threads, clusters") {
  test::StepKernels kernels;
  int number = 0;
  for (const char* tile : {"128x128x64", "64x64x128", "16x64x128", "128x256x64c2x1", "72x64x128s", "136x256x64s",
                           "48x64x128c2x2s", "64x64x128c1x1x2", "24x64x128c1x1x2s", "32x64x128sr", "64x64x128c1x2sr"})
    for (int i = 0; i < 2; ++i, ++number) {
      if (testing::sampled_out(number)) continue;
      const bool reads = std::string(tile).back() == 'r';
      GemmShape shape = shape_of(150, 131, reads ? 397 : 400, number);
      if (reads) shape.any_stride = true, shape.padding = 0;
      CAPTURE(std::string(tile));
      CAPTURE(shape.text());
      CHECK(run(kernels, shape, {.tile = gemm_tile_named(tile)}, number, 3) == "");
    }
}

TEST_CASE("parts of K: the launch that adds them has the text, the product's kernel has none") {
  int number = 0;
  for (const char* arch : {"sm_90a", "sm_80", "gfx1100"}) {
    test::StepKernels kernels(arch);
    for (int i = 0; i < test::kEndExamples; ++i, ++number) {
      if (testing::sampled_out(number)) continue;
      const GemmShape shape = shape_of(67, 130, 1000, number);
      CAPTURE(std::string(arch));
      CAPTURE(shape.text());
      CHECK(run(kernels, shape, {gemm_tile_named("64x64x128"), 3}, i, 5) == "");
      REQUIRE(kernels.launches.size() == 2);
      CHECK(kernels.launches[0].find("_own") == std::string::npos);
      CHECK(kernels.launches[1].find("_own") != std::string::npos);
    }
  }
}

TEST_CASE("tiles that blocks share, and tiles that are drawn") {
  int number = 0;
  for (const char* arch : {"sm_90a", "sm_80", "gfx90a"}) {
    test::StepKernels kernels(arch);
    for (const ops::WalkChoice walk : {ops::WalkChoice::split, ops::WalkChoice::dynamic})
      for (const char* tile : {"64x64x128", "72x64x128s"}) {
        if ((tile[0] == '7' && std::string(arch) != "sm_90a") || testing::thinned_out(number++)) continue;
        const GemmShape shape = shape_of(150, 131, 1300, number);
        CAPTURE(std::string(arch));
        CAPTURE(shape.text());
        CHECK(run(kernels, shape, {.tile = gemm_tile_named(tile), .walk = walk}, number, 7) == "");
      }
  }
}

TEST_CASE("alpha 0 leaves bias to the text; a rung has the text, too") {
  GemmShape shape = shape_of(70, 66, 100, 0);
  shape.alpha = 0;
  GemmProblem none(shape, 1);
  test::set_end(none.args, none.end, 1);
  none.run(testing::model_runtime(), kCpu);
  CHECK(none.problem() == "");
  for (const int rung : {3, 9}) {
    GemmProblem problem(shape_of(130, 140, 200, 1), 2);
    problem.rung = rung;
    test::set_end(problem.args, problem.end, 2);
    problem.run(testing::model_runtime(), kCpu);
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("a gate: the text comes behind it, by d's columns") {
  for (int i = 1; i < test::kEndExamples; ++i)
    for (const bool interleaved : {false, true}) {
      if (testing::sampled_out(2 * i + (interleaved ? 1 : 0))) continue;
      GemmShape shape = gemm_shape(140, 2 * 147, 200, DType::bf16, i % 2 == 0 ? DType::f32 : DType::bf16);
      shape.gate = Activation::silu;
      shape.gate_interleaved = interleaved;
      shape.bias = true;
      shape.alpha = 0.25f;
      CAPTURE(shape.text());
      GemmProblem problem(shape, static_cast<std::uint64_t>(40 + i));
      test::set_end(problem.args, problem.end, i);
      problem.run(testing::model_runtime(), kCpu);
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("e4m3: scales of tensors and blocks, and a quantised d of what the text says") {
  for (int i = 0; i < 6; ++i) {
    if (testing::sampled_out(i)) continue;
    GemmShape shape = gemm_shape(133, 260, 640, DType::e4m3, i % 3 == 0 ? DType::f32 : DType::bf16);
    if (i >= 3) shape.out = DType::e4m3, shape.packed_out = i == 4;
    shape.scales = i % 3 == 0;
    shape.blocks = i % 3 == 0 ? Scales::tensor : i % 3 == 1 ? Scales::block : Scales::row;
    shape.alpha = 0.25f;
    shape.bias = i % 2 == 0;
    CAPTURE(shape.text());
    GemmProblem problem(shape, static_cast<std::uint64_t>(60 + i));
    test::set_end(problem.args, problem.end, i % 2 + 1);
    problem.run(testing::model_runtime(), kCpu);
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("a text that calls an activation gives the bits of the kernel with that activation") {
  for (const char* target : {"model:sm_90a", "model:sm_80", "model:gfx1100"}) {
    GemmShape shape = gemm_shape(70, 90, 200);
    shape.bias = true;
    shape.activation = Activation::silu;
    GemmProblem wanted(shape, 5);
    wanted.run(testing::model_runtime(target), kCpu);
    shape.activation = Activation::none;
    GemmProblem problem(shape, 5);
    problem.args.end_text = "return tj::ops::activate<tj::ops::kSilu>(value);";
    problem.run(testing::model_runtime(target), kCpu);
    CHECK(problem.result() == wanted.result());
  }
}
