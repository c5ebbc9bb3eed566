// Protects that the listing of chunks compiles for the real arch with NVRTC, without spills and without a word of the compiler.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/chunk_indices.hpp"

using namespace tj;

TEST_CASE("no spill, no warning, no shared memory") {
  const auto compiler = test::nvrtc_or_skip();
  const test::DeviceKernel kernel = test::check_compiles(*compiler, ops::chunk_indices_op(), ops::chunk_indices_request());
  CHECK(kernel.unit.threads == 256);
  CHECK(kernel.unit.smem_bytes == 0);
}
