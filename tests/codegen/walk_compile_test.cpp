// Protects that kernels whose blocks draw or share tiles compile for devices: no spill, no warning. One kernel for each
// way to the next tile: a thread that loads, a cluster, a role that does everything, a block without barriers.
#include <doctest/doctest.h>

#include <utility>

#include "check/short_rings.hpp"
#include "codegen/device_kernel.hpp"
#include "compile/hip_here.hpp"

using namespace tj;

namespace {

struct Drawn {
  const char* op;
  const char* arch;
  const char* flags;
};

}  // namespace

TEST_CASE("kernels that draw their tiles compile with NVRTC, without spills") {
  const auto compiler = test::nvrtc_or_skip();
  for (const Drawn& each :
       {Drawn{"fmha", "sm_90a", "--dtype f16 --head-dim 128 --causal true"},
        Drawn{"gemm", "sm_90a", "--dtype f16 --tile 128x256x64c2x1"},
        Drawn{"gemm", "sm_100a", "--dtype f16 --tile 256x256x64c2x1"},
        Drawn{"fmha", "sm_80", "--dtype f16 --head-dim 64 --causal true"}, Drawn{"sum_parts", "sm_90a", ""}}) {
    const testing::ShortRings op(*ops::find(each.op), 0, graph::Walk::dynamic, testing::Shape::any);
    const test::DeviceKernel made = test::check_compiles(
        *compiler, op, op.requests(ops::flags_of_text(each.flags)).front(), *arch::find(each.arch));
    CHECK(made.unit.shape.across_blocks == 1);
    CHECK(made.unit.text.find("dev::draw_place<") != std::string::npos);
  }
}

TEST_CASE("products whose blocks share tiles compile with NVRTC, without spills") {
  const auto compiler = test::nvrtc_or_skip();
  for (const Drawn& each : {Drawn{"gemm", "sm_90a", "--dtype f16 --walk split --tile 128x256x64c2x1"},
                            Drawn{"gemm", "sm_90a", "--dtype e4m3 --walk split --tile 128x128x128"},
                            Drawn{"gemm", "sm_120a", "--dtype f16 --walk split --tile 128x128x32"}}) {
    const ops::Op& op = *ops::find(each.op);
    const test::DeviceKernel made = test::check_compiles(
        *compiler, op, op.requests(ops::flags_of_text(each.flags)).front(), *arch::find(each.arch));
    CHECK(made.unit.shape.block_counters == made.unit.shape.threads / 32);
    CHECK(made.unit.text.find("dev::draw_rank<") != std::string::npos);
  }
}

TEST_CASE("a wave's products draw their tiles, too") {
  const auto compiler = testing::hip_compiler("gfx1100");
  if (!compiler) return;
  const arch::Arch& arch = *arch::find("gfx1100");
  for (const auto& [name, flags] : {std::pair("gemm", "--tile 64x64x128"), {"sum_parts", ""}, {"copy_rows", ""}}) {
    const testing::ShortRings op(*ops::find(name), 0, graph::Walk::dynamic, testing::Shape::any);
    test::check_compiles(*compiler, op, op.requests(ops::flags_of_text(flags)).front(), arch);
  }
}
