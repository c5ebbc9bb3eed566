// Protects that matrix products on AMD's matrix instructions compile for every kind of arch, by the compilers at hand:
// every tile that is served, without spills and scratch memory, within registers and LDS, with the products that the
// graph says.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/amd_kernel.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"

using namespace tj;

namespace {

/// Compiles every `step`-th of the tiles that the arch serves, each with the next of these kinds.
void check(const char* arch, std::size_t step, const std::vector<ops::GemmKernel>& kinds) {
  const auto compiler = testing::hip_compiler(arch);
  if (!compiler) return;
  std::size_t next = 0, served = 0;
  for (int tile = 0; tile < static_cast<int>(ops::gemm_tiles().size()); ++tile) {
    if (ops::gemm_blocks_per_sm(ops::gemm_tiles()[static_cast<std::size_t>(tile)], *arch::find(arch)) == 0) continue;
    if (served++ % step != 0) continue;
    ops::GemmKernel kernel = kinds[next++ % kinds.size()];
    kernel.tile = tile;
    const ops::GemmTile& shape = ops::gemm_tiles()[static_cast<std::size_t>(tile)];
    if (shape.element_bytes == 1) {
      kernel.dtype = DType::e4m3;
      kernel.scales = Scales::block;
      kernel.left_mn = kernel.right_mn = false;
    }
    if (!ops::gemm_tile_fits(shape, kernel)) kernel.left_mn = kernel.right_mn = false;
    const ops::Request request = ops::gemm_request(kernel);
    CAPTURE(request.name);
    test::check_amd_kernel(*compiler, ops::gemm_op(), request, *arch::find(arch), test::gemm_wave_products);
  }
  CHECK(next >= 4);
}

ops::GemmKernel kind(DType dtype, DType out, bool left_mn, bool right_mn, bool epilogue,
                     Activation activation = Activation::none) {
  ops::GemmKernel kernel{dtype, out, left_mn, right_mn, epilogue, epilogue, activation};
  return kernel;
}

}  // namespace

// First, so that a failure is never hidden by it.
TEST_CASE("a machine without a compiler of HIP is skipped") {
  testing::need_hip_compiler({"gfx90a", "gfx1100", "gfx1201"});
}

TEST_CASE("every tile, with operands of every order and epilogues") {
  constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
  ops::GemmKernel own = kind(bf16, bf16, false, false, true);
  own.end_text = "return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;";
  check("gfx1100", 1,
        {kind(f16, f16, false, false, false), kind(bf16, bf16, true, true, true, Activation::gelu),
         kind(f16, f32, false, true, true), kind(f16, f16, true, false, false)});
  check("gfx1201", 2, {kind(bf16, f32, true, true, true, Activation::silu), kind(f16, f16, false, false, false), own});
  const auto compiler = testing::hip_compiler("gfx1201");
  if (!compiler) return;
  const std::map<std::string, std::vector<std::string>> narrow[] = {
      {{"dtype", {"e4m3"}}, {"tile", {"64x128x128"}}, {"out", {"f32"}}, {"add-c", {"true"}}},
      {{"dtype", {"e4m3"}},
       {"tile", {"128x128x128"}},
       {"scales", {"row"}},
       {"scale-type", {"ue8m0"}},
       {"bias", {"true"}}},
      {{"dtype", {"e4m3"}}, {"tile", {"128x128x128"}}, {"scales", {"block"}}, {"parts", {"true"}}, {"out", {"f32"}}}};
  for (const auto& flags : narrow)
    for (const ops::Request& request : ops::gemm_op().requests(flags))
      test::check_amd_kernel(*compiler, ops::gemm_op(), request, *arch::find("gfx1201"), test::gemm_wave_products);
  check("gfx90a", 2, {kind(f16, f16, false, true, true, Activation::relu), kind(bf16, bf16, false, false, false), own});
}
