// The problems of gemm_lists.hpp that are served by a tile and parts of K that are named, not by what is predicted.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "common/random.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "ops/gemm/parts.hpp"
#include "support/full.hpp"

namespace tj::test {
namespace {

constexpr DType kOut[] = {DType::f16, DType::bf16, DType::f32};

bool served(const std::string& arch, const char* tile) {
  return ops::gemm_blocks_per_sm(ops::gemm_tiles()[static_cast<std::size_t>(gemm_tile_named(tile))],
                                 arch::parse_arch(arch)) > 0;
}

/// Kernels of one arch, made once in a process, with the small tile that it serves.
struct Small {
  explicit Small(const std::string& arch)
      : kernels(arch), tile(served(arch, "64x64x128") ? "64x64x128" : "128x64x64") {}
  std::string run(const GemmShape& shape, int parts, std::uint64_t seed, unsigned blocks = 132) {
    GemmProblem problem(shape, seed);
    return run(problem, parts, seed, blocks);
  }
  std::string run(GemmProblem& problem, int parts, std::uint64_t seed, unsigned blocks = 132) {
    return kernels.run(problem, {gemm_tile_named(tile), parts}, seed, blocks);
  }
  StepKernels kernels;
  const char* tile;
};
Small& small_of(const std::string& arch) {
  static std::map<std::string, Small> made;
  return made.try_emplace(arch, arch).first->second;
}

}  // namespace

void check_gemm_orders(const std::string& arch) {
  Small& small = small_of(arch);
  CAPTURE(arch);
  std::uint64_t seed = 2000;
  int index = 0;
  for (const int order : {0, 1, 2, 3})
    for (const auto& [m, n, k] :
         {std::array{1, 1, 1}, {1, 500, 64}, {64, 256, 63}, {65, 257, 129}, {128, 512, 200}, {300, 70, 1000}}) {
      if (testing::sampled_out(order + index++ % 6)) continue;
      GemmShape shape = gemm_shape(m, n, k);
      shape.a_transposed = (order & 1) != 0;
      shape.b_transposed = (order & 2) != 0;
      shape.dtype = n % 2 ? DType::bf16 : DType::f16;
      shape.out = shape.dtype;
      CAPTURE(shape.text());
      CHECK(small.run(shape, 1, seed++, 3) == "");
    }
}

std::vector<GemmShape> gemm_epilogues() {
  std::vector<GemmShape> shapes;
  for (const DType out : kOut)
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh}) {
      GemmShape shape = gemm_shape(150, 270, 333);
      shape.batch = activation == Activation::none ? 3 : 0;
      shape.b_shared = shape.batch > 0;
      shape.out = out;
      shape.activation = activation;
      shape.alpha = activation == Activation::relu ? 0.0f : 0.5f;
      shape.beta = -1.0f;
      shape.bias = true;
      shape.in_place = activation != Activation::gelu;
      shape.padding = activation == Activation::silu ? 3 : 0;
      shapes.push_back(shape);
    }
  return shapes;
}

void check_gemm_epilogues(const std::string& arch) {
  Small& small = small_of(arch);
  CAPTURE(arch);
  std::uint64_t seed = 2100;
  int index = -1;
  for (const GemmShape& shape : gemm_epilogues()) {
    ++index;
    if (testing::sampled_out(index / 5 + index % 5)) continue;  // types of d by activations
    CAPTURE(shape.text());
    CHECK(small.run(shape, 1, seed++, 4) == "");
  }
}

void check_gemm_clusters(const std::string& arch) {
  StepKernels& kernels = small_of(arch).kernels;
  CAPTURE(arch);
  std::uint64_t seed = 2200;
  int index = 0;
  for (const char* tile : {"128x128x64c2x1", "128x64x64c1x2", "64x128x64c2x1"})
    for (const auto& [m, n, k, batch] : {std::array{260, 300, 328, 0}, {140, 450, 200, 0}, {130, 390, 72, 3}})
      for (const float alpha : {1.0f, 0.0f}) {
        // An odd number of sizes and two scalars: each tile has each size, and the next one the other scalar with it.
        if (const int place = index++; testing::sampled_out(place / 2 + place % 2)) continue;
        GemmShape shape = gemm_shape(m, n, k);
        shape.batch = batch;
        shape.alpha = alpha;
        shape.beta = alpha == 0 ? 0.5f : 0;
        CAPTURE(tile);
        CAPTURE(shape.text());
        GemmProblem problem(shape, seed);
        CHECK(kernels.run(problem, {gemm_tile_named(tile), 1}, seed, 3) == "");
        ++seed;
      }
}

void check_gemm_part_sizes(const std::string& arch) {
  Small& small = small_of(arch);
  CAPTURE(arch);
  std::uint64_t seed = 1;
  // m, n, k, parts, blocks
  for (const auto& [m, n, k, parts, blocks] : {std::array{128, 128, 256, 2, 132},
                                               {70, 90, 700, 3, 132},
                                               {70, 90, 700, 4, 1},
                                               {65, 257, 650, 5, 3},
                                               {1, 1, 1, 2, 132},
                                               {1, 129, 130, 7, 132},
                                               {33, 3, 1281, 128, 2},
                                               {130, 131, 1283, 17, 5},
                                               {64, 66, 2200, 34, 132}}) {
    const GemmShape shape = gemm_shape(m, n, k);
    const int cut = parts;
    CAPTURE(shape.text());
    CAPTURE(cut);
    CHECK(small.run(shape, cut, seed++, static_cast<unsigned>(blocks)) == "");
    CHECK(small.kernels.launches.back() == "sum_parts_f16");
  }
}

void check_gemm_part_forms(const std::string& arch) {
  Small& small = small_of(arch);
  CAPTURE(arch);
  for (int i = 0; i < testing::drawn(12); ++i) {
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
    CHECK(small.run(shape, 2 + i % 4, 100 + static_cast<std::uint64_t>(i), i % 2 == 0 ? 132 : 3) == "");
  }
}

void check_gemm_part_tiles(const std::string& arch) {
  StepKernels& kernels = small_of(arch).kernels;
  CAPTURE(arch);
  std::uint64_t seed = 200;
  int tiles = 0;
  for (const char* tile :
       {"128x256x64", "256x128x64", "16x64x128", "128x128x64c2x1", "64x128x64c2x1", "128x64x64c1x2", "128x64x64c2x2"}) {
    if (!served(arch, tile)) continue;
    ++tiles;
    const bool low = std::strncmp(tile, "16x", 3) == 0;
    GemmShape shape = gemm_shape(low ? 7 : 133, 261, 1000, DType::bf16, DType::bf16);
    shape.bias = true;
    CAPTURE(tile);
    int index = tiles;  // each tile one of the two
    for (const auto& [parts, blocks] : {std::array{3, 132}, {5, 1}}) {
      if (testing::sampled_out(index++)) continue;
      GemmProblem problem(shape, seed);
      CHECK(kernels.run(problem, {gemm_tile_named(tile), parts}, seed, static_cast<unsigned>(blocks)) == "");
      ++seed;
    }
  }
  CHECK(tiles >= 5);
}

void check_gemm_part_places(const std::string& arch) {
  Small& small = small_of(arch);
  CAPTURE(arch);
  GemmShape shape = gemm_shape(67, 45, 1001);
  shape.any_stride = true;
  shape.shift = 3;
  shape.batch = 2;
  shape.a_transposed = true;
  CHECK(small.run(shape, 3, 400) == "");
  CHECK(small.kernels.launches == std::vector<std::string>{"copy_rows", "copy_rows",
                                                           std::string("gemm_f16_f32_mk_") + small.tile + "_parts",
                                                           "sum_parts_f16"});
  shape.alpha = 0;
  shape.beta = 1.5f;
  GemmProblem problem(shape, 401);
  std::memset(problem.args.a.data, 0xff, 2);  // NaN
  CHECK(small.run(problem, 3, 401) == "");
  CHECK(small.kernels.launches == std::vector<std::string>{"sum_parts_f16"});
  CHECK(ops::gemm_op().scratch_bytes(&problem.args, {0, ops::GemmChoice{gemm_tile_named(small.tile), 3}.number()}) ==
        0);
}

void check_gemm_part_bits(const std::string& arch) {
  CAPTURE(arch);
  const GemmShape shape = gemm_shape(100, 72, 3000, DType::f16, DType::f32);
  std::vector<float> first;
  for (const unsigned blocks : {132u, 1u, 3u, 7u}) {
    GemmProblem problem(shape, 500);
    REQUIRE(small_of(arch).run(problem, 6, 500 + blocks, blocks) == "");
    const auto* d = static_cast<const float*>(problem.args.d.data);
    if (first.empty()) first.assign(d, d + 100 * 72);
    CHECK(std::memcmp(first.data(), d, first.size() * sizeof(float)) == 0);
  }
}

void check_gemm_part_nan(const std::string& arch) {
  CAPTURE(arch);
  GemmProblem problem(gemm_shape(70, 66, 1000), 600);
  static_cast<std::uint16_t*>(problem.args.a.data)[problem.args.a.strides[0] * 65 + 999] = 0x7e00;
  small_of(arch).run(problem, 4, 600);
  const auto* d = static_cast<const std::uint16_t*>(problem.args.d.data);
  for (int row = 0; row < 70; ++row) {
    CAPTURE(row);
    CHECK(((d[row * 66 + 65] & 0x7fff) > 0x7c00) == (row == 65));
  }
}

void check_random_gemm_parts(const std::string& arch) {
  CAPTURE(arch);
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t next = 0;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < testing::drawn(12); ++i) {
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
    CHECK(small_of(arch).run(shape, parts, seed + static_cast<std::uint64_t>(i),
                             static_cast<unsigned>(between(1, 9))) == "");
  }
}

}  // namespace tj::test
