// See gemm_checks.hpp.
#include "ops/gemm/checks.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/amd_kernel.hpp"
#include "ops/gemm/parts.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {

int gemm_tile_named(const std::string& name) {
  for (std::size_t t = 0; t < ops::gemm_tiles().size(); ++t)
    if (ops::gemm_tile_name(ops::gemm_tiles()[t]) == name) return static_cast<int>(t);
  FAIL("no tile is called " << name);
  return -1;
}

std::string run_gemm_on_model(const std::string& arch, const GemmShape& shape, std::uint64_t seed) {
  GemmProblem problem(shape, seed);
  problem.run(testing::model_runtime("model:" + arch), {DeviceKind::cpu, 0});
  return problem.problem();
}

int gemm_wave_products(const graph::Graph& graph, const codegen::Unit& unit) {
  const auto of = [&](const char* name) { return constant_of(graph, name); };
  return of("kBlockM") / of("kWarpsM") / 16 * of("kBlockN") / of("kWarpsN") / 16 * of("kBlockK") / 16 *
         (2 * calls_of(unit.text, "mma") + calls_of(unit.text, "mma_low") + calls_of(unit.text, "mma_high")) / 2;
}

void check_gemm_edges(const std::string& arch) {
  CAPTURE(arch);
  std::uint64_t seed = 1;
  int index = 0;
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {65, 257, 65},
                                {128, 256, 128},
                                {127, 300, 200},
                                {1, 300, 500},
                                {300, 1, 70},
                                {7, 513, 127},
                                {16, 96, 1000}}) {
    if (testing::thinned_out(index++)) continue;
    const GemmShape shape = gemm_shape(m, n, k);
    CAPTURE(shape.text());
    CHECK(run_gemm_on_model(arch, shape, seed++) == "");
  }
}

GemmShape gemm_shape_of_kind(int kind, const ops::GemmTile& tile) {
  constexpr DType kIn[] = {DType::f16, DType::bf16}, kOut[] = {DType::f16, DType::bf16, DType::f32};
  GemmShape shape;
  shape.dtype = kIn[kind % 2];
  shape.out = kOut[kind % 3];
  shape.a_transposed = kind % 4 < 2 && tile.block_m >= 64;
  shape.b_transposed = kind % 2 == 0 && tile.block_n % 64 == 0;
  shape.beta = kind % 2 == 0 ? 0.0f : -0.5f;
  shape.alpha = 0.75f;
  shape.bias = kind % 3 != 1;
  shape.activation = static_cast<Activation>(kind % 4);
  return shape;
}

int check_gemm_tiles(
    const std::string& arch, const std::vector<GemmTileRun>& runs,
    const std::function<std::optional<GemmShape>(int served, int t, const ops::GemmTile& tile)>& shape_of) {
  CAPTURE(arch);
  int served = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    if (tile.element_bytes != 2 || ops::gemm_blocks_per_sm(tile, *arch::find(arch)) == 0) continue;
    std::optional<GemmShape> shape = shape_of(served++, t, tile);
    if (!shape) continue;
    StepKernels kernels(arch);
    std::uint64_t seed = 100 * static_cast<std::uint64_t>(t + 1);
    int index = t;  // each tile another of the runs, where they are thinned out
    for (const GemmTileRun& run : runs) {
      if (testing::sampled_out(index++)) continue;
      const bool ragged = run.missing_rows > 0;
      shape->m = run.rows * tile.block_m - run.missing_rows;
      shape->n = run.columns * tile.block_n - (ragged ? 19 : 0);
      shape->k = run.k * tile.block_k - (ragged ? 5 : 0);
      shape->padding = ragged ? 3 : 0;
      CAPTURE(shape->text());
      CAPTURE(t);
      GemmProblem problem(*shape, seed);
      CHECK(kernels.run(problem, {t, 1}, seed, run.blocks) == "");
      ++seed;
    }
  }
  return served;
}

void check_gemm_choices(const std::string& name) {
  CAPTURE(name);
  const arch::Arch& arch = *arch::find(name);
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, {64, 64, 65536}, {4096, 4096, 4096}, {1, 16384, 16384}, {100000, 70, 70}}) {
    ops::GemmKernel kernel;
    kernel.tile = ops::choose_gemm({m, n, k, 1}, kernel, arch).tile;
    CHECK(ops::gemm_blocks_per_sm(ops::gemm_tiles()[static_cast<std::size_t>(kernel.tile)], arch) > 0);
  }
}

void check_gemm_parts_and_places(const std::string& arch) {
  CAPTURE(arch);
  StepKernels kernels(arch);
  GemmShape shape = gemm_shape(70, 90, 700);
  shape.beta = 0.5f;
  shape.bias = true;
  shape.activation = Activation::gelu;
  GemmProblem cut(shape, 31);
  ops::GemmChoice choice{gemm_tile_named("64x64x128"), 3};
  if (ops::gemm_blocks_per_sm(ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)], arch::parse_arch(arch)) == 0)
    choice.tile = gemm_tile_named("128x64x64");
  CHECK(kernels.run(cut, choice, 31, 2) == "");
  for (int order = 0; order < 4; ++order) {
    shape = gemm_shape(131, 70, 65);
    shape.a_transposed = order / 2 == 1;
    shape.b_transposed = order % 2 == 1;
    shape.any_stride = true;
    shape.shift = order;
    shape.batch = order == 3 ? 2 : 0;
    CAPTURE(shape.text());
    CHECK(run_gemm_on_model(arch, shape, 40 + static_cast<std::uint64_t>(order)) == "");
  }
}

void check_gemm_batches(const std::string& arch) {
  CAPTURE(arch);
  GemmShape shape = gemm_shape(70, 40, 100);
  shape.batch = 3;
  shape.padding = 1;
  shape.b_shared = true;
  shape.beta = 2;
  shape.in_place = true;
  CHECK(run_gemm_on_model(arch, shape, 51) == "");
  shape = gemm_shape(70, 90, 200);
  shape.alpha = 0;
  GemmProblem zeros(shape, 52);
  std::memset(zeros.args.a.data, 0xff, 2);  // NaN
  zeros.run(testing::model_runtime("model:" + arch), {DeviceKind::cpu, 0});
  CHECK(zeros.problem() == "");
}

}  // namespace tj::test
