// Protects that every rung of attention's ladder compiles with NVRTC for each kind of arch that it is for, without
// spills, and that blocks which are to run side by side have registers for it.
#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "codegen/device_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/rungs.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("each rung: no spill, registers for all blocks of an SM") {
  const auto compiler = test::nvrtc_or_skip();
  int place = -1;
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_120a", "sm_121a"}) {
    ++place;
    for (int rung = 1; rung <= ops::kLastFmhaRung; ++rung)
      for (const int head_dim : {64, 128}) {
        // Archs with the same primitives differ in numbers: one of each gets all, the others what differs most.
        const bool all = std::string_view(name) == "sm_80" || std::string_view(name) == "sm_120a";
        if (head_dim == 64 ? !all || (rung != 1 && rung != 4) : !all && rung != 4) continue;
        if (testing::sampled_out(place + rung + head_dim / 64)) continue;
        const arch::Arch& arch = *arch::find(name);
        CAPTURE(name);
        const test::DeviceKernel kernel = test::check_compiles(
            *compiler, ops::fmha_op(), ops::fmha_request({{DType::bf16, head_dim, true, head_dim == 64}, rung}), arch);
        CHECK(kernel.unit.shape.blocks_per_sm == ops::fmha_rungs()[static_cast<std::size_t>(rung)].blocks_per_sm);
        CHECK(kernel.binary.registers * kernel.unit.shape.threads * kernel.unit.shape.blocks_per_sm <=
              arch.registers_per_sm);
        CHECK((kernel.unit.shape.smem_bytes + arch.smem_reserved_bytes) * kernel.unit.shape.blocks_per_sm <=
              arch.smem_per_sm_bytes);
        CHECK((kernel.unit.shape.smem_bytes + arch.smem_reserved_bytes) * (kernel.unit.shape.blocks_per_sm + 1) >
              arch.smem_per_sm_bytes);
      }
  }
}
