// Protects matrix products on a real device: edges of tiles, orders, types and epilogues against f64, with inputs
// between NaNs and poisoned outputs inside guard bands. More shapes and cuBLAS: tests/gpu/compare.py --op gemm.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "ops/gemm/problem.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

std::string run(const GemmShape& shape, std::uint64_t seed) {
  GemmProblem problem(shape, seed);
  problem.run(Runtime::instance(), test::nvidia_gpu());
  return problem.problem();
}

ops::GemmChoice choice_of(const GemmProblem& problem) {
  return ops::choose_gemm(ops::gemm_sizes(problem.args), ops::gemm_kind(problem.args), *arch::find("sm_90a"));
}

/// Several blocks have parts of K of one tile: by a second launch, in a cluster, or by the walk.
bool cuts_k(const ops::GemmChoice& choice) {
  return choice.parts > 1 || ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)].sliced() ||
         choice.walk == ops::WalkChoice::split;
}

}  // namespace

TEST_CASE("shapes at the edges of tiles and of K, in every order of the operands") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const int order : {0, 1, 2, 3})
    for (const auto& [m, n, k] :
         {std::array{1, 1, 1}, {1, 500, 64}, {64, 256, 63}, {65, 257, 129}, {128, 512, 200}, {300, 70, 1000}}) {
      GemmShape shape = test::gemm_shape(m, n, k);
      shape.a_transposed = (order & 1) != 0;
      shape.b_transposed = (order & 2) != 0;
      shape.dtype = n % 2 ? DType::bf16 : DType::f16;
      shape.out = shape.dtype;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE("epilogues, batches, in place; alpha 0") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const GemmShape& shape : test::gemm_epilogues()) {
    CAPTURE(shape.text());
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE("e4m3 with scales: edges of tiles, every type of d, a long K") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const DType out : {DType::f16, DType::bf16, DType::f32})
    for (const auto& [m, n, k] :
         {std::array{1, 1, 1}, {1, 500, 128}, {65, 257, 129}, {128, 512, 300}, {300, 70, 1000}, {40, 200, 8192}}) {
      GemmShape shape = test::gemm_shape(m, n, k, DType::e4m3, out);
      shape.scales = n % 2 == 0;
      shape.batch = k == 1000 ? 2 : 0;
      shape.padding = m % 3;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE(
    "rows off their lines, whose copies the blocks of a cluster share: odd numbers of tiles, batches, no iteration") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const auto& [m, n, k] : {std::array{700, 700, 328}, {400, 900, 1000}, {260, 2050, 520}}) {
    GemmShape shape = test::gemm_shape(m, n, k);
    shape.batch = m == 260 ? 3 : 0;
    CAPTURE(shape.text());
    CHECK(run(shape, seed++) == "");
    shape.alpha = 0;
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE(
    "in parts of K: every order, type and epilogue, batches, copied operands, ends of rows; equal calls give equal "
    "bits") {
  std::uint64_t seed = samples::fresh_seed();
  int in_parts = 0;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const auto& [m, n, k] :
       {std::array{128, 128, 8192}, {65, 131, 9001}, {1, 70, 20000}, {16, 258, 8200}, {200, 96, 16384}})
    for (const int order : {0, 1, 2, 3}) {
      GemmShape shape;
      shape.m = m;
      shape.n = n;
      shape.k = k;
      shape.dtype = order % 2 ? DType::bf16 : DType::f16;
      shape.out = order == 3 ? DType::f32 : shape.dtype;
      shape.a_transposed = (order & 1) != 0;
      shape.b_transposed = (order & 2) != 0;
      shape.any_stride = k % 8 != 0;
      shape.batch = order == 1 ? 2 : 0;
      shape.alpha = order == 2 ? 0.5f : 1.0f;
      shape.beta = order == 2 ? -1.0f : 0.0f;
      shape.in_place = order == 2;
      shape.bias = order != 0;
      shape.activation = static_cast<Activation>(order);
      CAPTURE(shape.text());
      GemmProblem problem(shape, seed), again(shape, seed);
      const ops::GemmChoice choice = choice_of(problem);
      CHECK(cuts_k(choice));
      in_parts += choice.parts > 1 ? 1 : 0;
      problem.run(Runtime::instance(), test::nvidia_gpu());
      CHECK(problem.problem() == "");
      again.run(Runtime::instance(), test::nvidia_gpu());
      CHECK(again.result() == problem.result());
      ++seed;
    }
  CHECK(in_parts > 10);
  for (const bool scales : {false, true}) {
    GemmShape shape = test::gemm_shape(40, 200, 16384, DType::e4m3, DType::bf16);
    shape.scales = scales;
    GemmProblem problem(shape, seed++);
    CHECK(choice_of(problem).parts > 1);
    problem.run(Runtime::instance(), test::nvidia_gpu());
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("more tiles than multiprocessors: blocks that walk several tiles") {
  GemmShape shape = test::gemm_shape(1100, 9000, 200);
  CHECK(run(shape, samples::fresh_seed()) == "");
}

TEST_CASE(
    "by warps' products: slots are handed back after they were read, beside blocks that store two bytes at a time") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const arch::Arch* arch : test::archs_of_gpu("sm80"))
    for (const char* more : {"", "+copies=threads"}) {
      Options options;
      options.target = arch->name + more;
      Runtime runtime(options);
      GemmShape shape;
      shape.m = 2047;
      shape.n = 3563;  // odd rows of d
      shape.k = 256;
      CAPTURE(*options.target);
      GemmProblem problem(shape, seed++);
      problem.run(runtime, test::nvidia_gpu());
      CHECK(problem.problem() == "");
    }
}
