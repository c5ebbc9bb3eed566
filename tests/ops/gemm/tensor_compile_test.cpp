// Protects that matrix products in tensor memory compile with NVRTC without spills: every tile, order, kind of output
// and epilogue in one kernel or another.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "codegen/device_kernel.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("no spill, registers for the block's roles") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"dtype", {"bf16"}},
       {"tile", {"128x128x64"}},
       {"a-major", {"m"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}}},
      {{"dtype", {"f16"}}, {"tile", {"256x256x64"}}, {"b-major", {"n"}}, {"out", {"f32"}}, {"d-aligned", {"false"}}},
      {{"dtype", {"bf16"}}, {"tile", {"128x192x64", "128x64x64"}}, {"a-major", {"m"}}, {"b-major", {"n"}}},
      {{"dtype", {"f16"}}, {"tile", {"256x128x64"}}, {"add-c", {"true"}}, {"bias", {"true"}}, {"activation", {"silu"}}},
      {{"dtype", {"f16"}}, {"tile", {"128x256x64"}}, {"parts", {"true"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"128x128x64"}},
       {"bias", {"true"}},
       {"end-text", {"return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;"}}},
      {{"dtype", {"f16"}}, {"rung", {"v7", "v9"}}, {"load-columns", {"16", "8"}}},
      // Pairs of blocks.
      {{"dtype", {"bf16"}},
       {"tile", {"256x128x64c2x1"}},
       {"a-major", {"m"}},
       {"b-major", {"n"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : ops::gemm_op().requests(flags))
      test::check_compiles(*compiler, ops::gemm_op(), request, *arch::find("sm_100a"));
}

TEST_CASE("every tile that is served but not made ahead: those that no large product takes") {
  const auto compiler = test::nvrtc_or_skip();
  const arch::Arch& arch = *arch::find("sm_100a");
  std::set<std::string> ahead;  // tools/warm_tensor_compile_test.cpp
  for (const ops::Request& request : ops::gemm_op().requests_for({{"dtype", {"f16"}}}, arch))
    ahead.insert(request.name);
  int tiles = 0;
  for (const ops::GemmTile& tile : ops::gemm_tiles()) {
    if (tile.element_bytes != 2 || ops::gemm_blocks_per_sm(tile, arch) == 0) continue;
    const ops::Request request =
        ops::gemm_op().requests({{"dtype", {"f16"}}, {"tile", {ops::gemm_tile_name(tile)}}}).front();
    if (ahead.count(request.name) > 0 || testing::sampled_out(tiles++)) continue;
    const test::DeviceKernel made = test::check_compiles(*compiler, ops::gemm_op(), request, arch);
    CHECK(made.unit.shape.smem_bytes <= arch.smem_per_block_bytes);
  }
  CHECK(tiles >= 10);
}
