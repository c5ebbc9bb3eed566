// Protects that products of groups compile without spills for every family but sm90: by NVRTC with copies by threads
// and by the engine, on tensor memory, and by AMD's compilers for each kind of wave.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/amd_kernel.hpp"
#include "codegen/device_kernel.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

using GroupFlags = std::map<std::string, std::vector<std::string>>;

std::vector<ops::Request> requests_of(const GroupFlags& flags) { return ops::grouped_gemm_op().requests(flags); }

}  // namespace

TEST_CASE("warps' products of groups and those in tensor memory") {
  const auto compiler = test::nvrtc_or_skip();
  const std::vector<std::string> all = {"ends", "counts", "rows"};
  const struct {
    const char* arch;
    GroupFlags flags;
  } sets[] = {
      {"sm_80", {{"dtype", {"f16"}}, {"groups", {"depths"}}, {"tile", {"128x128x64"}}, {"add-c", {"true"}}}},
      {"sm_80", {{"dtype", {"bf16"}}, {"groups", all}, {"tile", {"128x128x64"}}, {"bias", {"true"}}}},
      {"sm_86", {{"dtype", {"bf16"}}, {"groups", {"ends"}}, {"tile", {"128x256x64", "128x128x32"}}}},
      {"sm_89", {{"dtype", {"f16"}}, {"groups", {"ends"}}, {"tile", {"16x64x128", "64x128x64"}}, {"add-c", {"true"}}}},
      {"sm_90", {{"dtype", {"bf16"}}, {"groups", all}, {"tile", {"128x256x64"}}, {"bias", {"true"}}}},
      {"sm_90", {{"dtype", {"bf16"}}, {"groups", {"ends"}}, {"tile", {"256x192x32", "128x192x64"}}}},
      {"sm_90",
       {{"dtype", {"bf16"}},
        {"groups", {"depths"}},
        {"tile", {"128x128x64", "128x256x64"}},
        {"out", {"f32"}},
        {"add-c", {"true"}}}},
      {"sm_100", {{"dtype", {"bf16"}}, {"groups", {"counts"}}, {"tile", {"64x32x128", "128x64x64"}}}},
      {"sm_120a", {{"dtype", {"f16"}}, {"groups", all}, {"tile", {"128x128x32"}}, {"activation", {"silu"}}}},
      {"sm_120a",
       {{"dtype", {"e4m3"}},
        {"groups", all},
        {"tile", {"128x128x128", "64x128x128"}},
        {"scales", {"block", "tensor"}},
        {"out", {"bf16"}},
        {"bias", {"true"}}}},
      {"sm_89",
       {{"dtype", {"e4m3"}},
        {"groups", {"ends", "depths"}},
        {"tile", {"64x128x128"}},
        {"scales", {"block", "row"}},
        {"scale-type", {"ue8m0"}},
        {"out", {"f32"}},
        {"add-c", {"true"}}}},
      {"sm_100a", {{"dtype", {"bf16"}}, {"groups", all}, {"tile", {"128x128x64"}}, {"bias", {"true"}}}},
      {"sm_100a",
       {{"dtype", {"bf16"}}, {"groups", {"depths"}}, {"tile", {"128x256x64"}}, {"out", {"f32"}}, {"add-c", {"true"}}}},
      {"sm_100a", {{"dtype", {"bf16"}}, {"groups", {"ends"}}, {"tile", {"256x128x64c2x1", "256x256x64"}}}},
  };
  int row = 0;
  for (const auto& [arch, flags] : sets) {
    int place = row++;
    for (const ops::Request& request : requests_of(flags))
      if (!testing::sampled_out(place++))
        test::check_compiles(*compiler, ops::grouped_gemm_op(), request, *arch::find(arch));
  }
}

TEST_CASE("every tile that serves groups, with one end or another") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const char* name : {"sm_80", "sm_90", "sm_120a", "sm_100a"}) {
    int place = row++;
    const arch::Arch& arch = *arch::find(name);
    int served = 0;
    for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
      const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
      if (ops::gemm_blocks_per_sm(tile, arch) == 0) continue;
      ops::GemmKernel kernel;
      kernel.dtype = kernel.out = t % 2 == 0 ? DType::bf16 : DType::f16;
      if (tile.element_bytes == 1) kernel.dtype = DType::e4m3;
      kernel.groups = static_cast<ops::Groups>(served / 2 % 4 + 1);
      kernel.left_mn = kernel.right_mn = kernel.groups == ops::Groups::depths && tile.element_bytes == 2;
      kernel.bias = kernel.add_c = served % 3 == 0;
      kernel.tile = t;
      if (!ops::gemm_tile_fits(tile, kernel, ops::gemm_family(arch))) {
        kernel.groups = ops::Groups::ends;
        kernel.left_mn = kernel.right_mn = kernel.add_c = false;
      }
      if (!ops::gemm_tile_fits(tile, kernel, ops::gemm_family(arch))) continue;
      ++served;
      if (!testing::sampled_out(place++, 3))
        test::check_compiles(*compiler, ops::grouped_gemm_op(), ops::gemm_request(kernel), arch);
    }
    CHECK(served > 4);
  }
}

TEST_CASE("waves' products of groups") {
  testing::need_hip_compiler({"gfx90a", "gfx942", "gfx1100", "gfx1201"});
  const struct {
    const char* arch;
    GroupFlags flags;
  } sets[] = {
      {"gfx90a", {{"dtype", {"bf16"}}, {"groups", {"ends", "rows"}}, {"tile", {"128x128x64"}}, {"bias", {"true"}}}},
      {"gfx942", {{"dtype", {"f16"}}, {"groups", {"depths", "counts"}}, {"tile", {"128x128x64"}}, {"add-c", {"true"}}}},
      {"gfx1100", {{"dtype", {"bf16"}}, {"groups", {"ends", "depths"}}, {"tile", {"64x128x64"}}, {"out", {"f32"}}}},
      {"gfx1201", {{"dtype", {"f16"}}, {"groups", {"ends", "counts"}}, {"tile", {"64x64x128"}}, {"bias", {"true"}}}},
      {"gfx1201",
       {{"dtype", {"e4m3"}},
        {"groups", {"counts", "depths"}},
        {"tile", {"64x128x128"}},
        {"scales", {"block"}},
        {"out", {"f32"}},
        {"add-c", {"true"}}}},
      {"gfx1201", {{"dtype", {"bf16"}}, {"groups", {"ends"}}, {"walk", {"dynamic"}}, {"tile", {"64x128x64"}}}},
  };
  for (const auto& [arch, flags] : sets) {
    const auto compiler = testing::hip_compiler(arch);
    if (!compiler) continue;
    for (const ops::Request& request : requests_of(flags))
      test::check_amd_kernel(*compiler, ops::grouped_gemm_op(), request, *arch::find(arch), test::gemm_wave_products);
  }
}
