// Protects that attention over tensor memory compiles with NVRTC without spills, in the registers that its roles are given.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/fmha.hpp"

using namespace tj;

TEST_CASE("shipped configurations: no spill, registers for the block's roles") {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : ops::fmha_op().requests({{"general-scale", {"both"}}, {"dtype", {"f16"}}})) test::check_compiles(*compiler, ops::fmha_op(), request, *arch::find("sm_100a"));
  for (const ops::Request& request : ops::fmha_op().requests({{"dtype", {"bf16"}}})) test::check_compiles(*compiler, ops::fmha_op(), request, *arch::find("sm_103a"));
}
