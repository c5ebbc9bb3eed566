// Protects that products with a c of f32 beside a d of 16 bits compile without spills and without the compiler
// serialising the matrix instructions: chosen tiles of each family in every run, all tiles in a full one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "codegen/amd_kernel.hpp"
#include "codegen/device_kernel.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

constexpr const char* kEnd = "return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;";

ops::GemmKernel kind(DType dtype, bool bias, Activation activation = Activation::none) {
  ops::GemmKernel kernel;
  kernel.dtype = dtype, kernel.out = dtype == DType::e4m3 ? DType::bf16 : dtype;
  kernel.add_c = kernel.add_f32 = true;
  kernel.bias = bias, kernel.activation = activation;
  return kernel;
}

/// The ends that add: one for each way of a sum to d, and of what comes behind it.
std::vector<ops::GemmKernel> kinds() {
  std::vector<ops::GemmKernel> list = {kind(DType::bf16, true, Activation::gelu), kind(DType::f16, false),
                                       kind(DType::f16, true, Activation::silu), kind(DType::bf16, true)};
  list[2].d_aligned = false;
  list[3].end_text = kEnd;
  return list;
}

/// The kernels of these tiles, each with the next kind; in a full run those of all tiles that the arch serves, with
/// each kind.
std::vector<ops::Request> requests(const arch::Arch& arch, const std::vector<std::string>& chosen) {
  std::vector<ops::Request> list;
  std::size_t found = 0;
  const std::vector<ops::GemmKernel> all = kinds();
  for (int tile = 0; tile < static_cast<int>(ops::gemm_tiles().size()); ++tile) {
    const ops::GemmTile& shape = ops::gemm_tiles()[static_cast<std::size_t>(tile)];
    if (ops::gemm_blocks_per_sm(shape, arch) == 0) continue;
    const bool meant = std::count(chosen.begin(), chosen.end(), ops::gemm_tile_name(shape)) > 0;
    if (!meant && !testing::full_run()) continue;
    const std::size_t first = testing::full_run() ? 0 : found % all.size(),
                      count = testing::full_run() ? all.size() : 1;
    found += meant ? 1 : 0;
    for (std::size_t k = first; k < first + count; ++k) {
      ops::GemmKernel kernel = all[k];
      kernel.tile = tile;
      if (shape.element_bytes == 1) kernel.dtype = DType::e4m3, kernel.out = DType::bf16;
      if (ops::gemm_tile_fits(shape, kernel)) list.push_back(ops::gemm_request(kernel));
    }
  }
  CHECK(found == chosen.size());
  return list;
}

void check(const char* name, const std::vector<std::string>& tiles) {
  const auto compiler = test::nvrtc_or_skip();
  const arch::Arch& arch = *arch::find(name);
  for (const ops::Request& request : requests(arch, tiles))
    test::check_compiles(*compiler, ops::gemm_op(), request, arch);
}

}  // namespace

TEST_CASE("warpgroups: no spill, no serialised matrix instruction, registers as the schedule gives") {
  check("sm_90a", {"128x256x64", "192x160x64", "64x192x64", "208x128x64s", "136x256x64c2x1s", "128x256x64c2x1",
                   "128x192x128", "32x64x128sr"});
}

TEST_CASE("products of warps: no spill, registers for the blocks of an SM") {
  check("sm_80", {"128x256x64", "64x128x64"});
  check("sm_120a", {"128x128x64", "256x192x32", "64x128x128"});
}

TEST_CASE("tensor memory: no spill, registers for the block's roles") {
  check("sm_100a", {"128x128x64", "256x256x64", "256x128x64c2x1"});
}

TEST_CASE("AMD's matrix instructions: no spill, no scratch memory") {
  const struct {
    const char* arch;
    std::vector<std::string> tiles;
  } sets[] = {{"gfx90a", {"128x128x64"}}, {"gfx1100", {"64x128x64"}}, {"gfx1201", {"64x128x64", "64x128x128"}}};
  for (const auto& [arch, tiles] : sets)
    if (const auto compiler = testing::hip_compiler(arch))
      for (const ops::Request& request : requests(*arch::find(arch), tiles))
        test::check_amd_kernel(*compiler, ops::gemm_op(), request, *arch::find(arch), test::gemm_wave_products);
}
