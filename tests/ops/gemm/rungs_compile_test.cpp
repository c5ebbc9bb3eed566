// Protects that every rung of the ladder compiles for the real arch with NVRTC, without spills and without the compiler
// serialising the matrix instructions, and that a block which is to have its SM to itself asks for more than half of
// the shared memory.
#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "codegen/device_kernel.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("each rung in tensor memory: no spill, its SM to itself") {
  const auto compiler = test::nvrtc_or_skip();
  const arch::Arch& arch = *arch::find("sm_100a");
  int index = 0;
  for (const ops::GemmRung& rung : ops::gemm_rungs()) {
    if (std::string_view(rung.name) == "none" || testing::sampled_out(index++)) continue;
    const ops::Request request = ops::gemm_op().requests_for({{"dtype", {"f16"}}, {"rung", {rung.name}}}, arch).front();
    const test::DeviceKernel kernel = test::check_compiles(*compiler, ops::gemm_op(), request, arch);
    if (ops::gemm_rung(ops::gemm_kernel(request)).tile_a_block)
      CHECK(2 * kernel.unit.shape.smem_bytes > arch.smem_per_block_bytes);
  }
}

TEST_CASE("each rung: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  const arch::Arch& arch = *arch::find("sm_90a");
  int index = 1;  // those that the tensor memory's test leaves out
  for (const ops::GemmRung& rung : ops::gemm_rungs()) {
    if (std::string_view(rung.name) == "none" || testing::sampled_out(index++)) continue;
    const bool odd = rung.thread_copies;  // the longest text: other orders, everything added
    for (const bool plain : {true, false}) {
      if (!plain && !odd) continue;
      std::map<std::string, std::vector<std::string>> flags = {{"dtype", {"f16"}}, {"rung", {rung.name}}};
      if (!plain)
        flags.insert({{"a-major", {"m"}},
                      {"b-major", {"n"}},
                      {"bias", {"true"}},
                      {"add-c", {"true"}},
                      {"activation", {"gelu"}}});
      const ops::Request request = ops::gemm_op().requests(flags).front();
      const test::DeviceKernel kernel = test::check_compiles(*compiler, ops::gemm_op(), request);
      if (rung.tile_a_block) CHECK(2 * kernel.unit.shape.smem_bytes > arch.smem_per_block_bytes);
    }
  }
}
