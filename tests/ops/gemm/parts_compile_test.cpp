// Protects that what serves a matrix product in parts of K compiles for the real arch with NVRTC, without spills and
// without the compiler serialising the matrix instructions: sums of parts of every kind of tile, and the sum of all
// parts for every type of d.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/sum_parts/sum_parts.hpp"

using namespace tj;

TEST_CASE("no spill, no serialised matrix instruction, registers as the schedule gives") {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : ops::sum_parts_op().requests({}))
    test::check_compiles(*compiler, ops::sum_parts_op(), request);
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"dtype", {"f16"}},
       {"tile", {"128x256x64", "128x64x64", "64x64x128", "16x32x128", "16x64x128", "128x192x64c2x1"}},
       {"parts", {"true"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"128x128x64", "64x256x64"}},
       {"a-major", {"m"}},
       {"b-major", {"n"}},
       {"parts", {"true"}}},
      {{"dtype", {"e4m3"}}, {"tile", {"128x192x128", "64x64x256", "16x64x256"}}, {"parts", {"true"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : ops::gemm_op().requests(flags))
      test::check_compiles(*compiler, ops::gemm_op(), request);
}
