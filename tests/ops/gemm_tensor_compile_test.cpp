// Protects that matrix products in tensor memory compile with NVRTC without spills: every tile, order, kind of output and epilogue in one
// kernel or another.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/gemm.hpp"

using namespace tj;

TEST_CASE("no spill, registers for the block's roles") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"dtype", {"f16"}}, {"tile", {"256x128x64"}}},
      {{"dtype", {"bf16"}}, {"tile", {"128x128x64"}}, {"a-major", {"m"}}, {"add-c", {"true"}}, {"bias", {"true"}}, {"activation", {"gelu"}}},
      {{"dtype", {"f16"}}, {"tile", {"256x256x64"}}, {"b-major", {"n"}}, {"out", {"f32"}}, {"d-aligned", {"false"}}},
      {{"dtype", {"bf16"}}, {"tile", {"128x192x64", "128x64x64"}}, {"a-major", {"m"}}, {"b-major", {"n"}}},
      {{"dtype", {"f16"}}, {"tile", {"256x128x64"}}, {"add-c", {"true"}}, {"bias", {"true"}}, {"activation", {"silu"}}},
      {{"dtype", {"f16"}}, {"tile", {"128x256x64"}}, {"parts", {"true"}}},
      // Pairs of blocks.
      {{"dtype", {"f16"}}, {"tile", {"256x256x64c2x1"}}},
      {{"dtype", {"bf16"}}, {"tile", {"256x128x64c2x1"}}, {"a-major", {"m"}}, {"b-major", {"n"}}, {"add-c", {"true"}}, {"bias", {"true"}}, {"activation", {"gelu"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : ops::gemm_op().requests(flags)) test::check_compiles(*compiler, ops::gemm_op(), request, *arch::find("sm_100a"));
}
