// Protects that the listing of chunks compiles for real archs, by NVRTC and by a compiler of HIP where one is at hand,
// without spills and without a word of the compiler.
#include <doctest/doctest.h>

#include "codegen/amd_kernel.hpp"
#include "codegen/device_kernel.hpp"
#include "ops/chunk_indices/chunk_indices.hpp"

using namespace tj;

TEST_CASE(
    "AMD's archs, with waves of 32 and of 64: no spill, no scratch memory, as many threads, no matrix instruction") {
  for (const char* arch : {"gfx1100", "gfx90a"})
    if (const auto compiler = testing::hip_compiler(arch))
      test::check_amd_kernel(*compiler, ops::chunk_indices_op(), ops::chunk_indices_request(), *arch::find(arch),
                             [](const graph::Graph&, const codegen::Unit& unit) {
                               CHECK(unit.shape.threads == 256);
                               return 0;
                             });
}

TEST_CASE("no spill, no warning, no shared memory") {
  const auto compiler = test::nvrtc_or_skip();
  const test::DeviceKernel kernel =
      test::check_compiles(*compiler, ops::chunk_indices_op(), ops::chunk_indices_request());
  CHECK(kernel.unit.shape.threads == 256);
  CHECK(kernel.unit.shape.smem_bytes == 0);
}
