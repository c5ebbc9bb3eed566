// Protects that attention over tensor memory compiles with NVRTC without spills for any scale as well, in the registers
// that its roles are given. The kernels of usual scales are made by tools/warm_tensor_compile_test.cpp. Every second
// place of each table is compiled, like a chessboard; with TJ_TEST_FULL all of them.
#include <doctest/doctest.h>

#include <tuple>

#include "codegen/device_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("any scale: no spill, registers for the block's roles") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const auto& [dtype, causal, arch] : {std::tuple{"f16", "true", "sm_100a"}, {"bf16", "false", "sm_103a"}}) {
    int place = row++;
    for (const ops::Request& request :
         ops::fmha_op().requests({{"general-scale", {"true"}}, {"dtype", {dtype}}, {"causal", {causal}}}))
      if (!testing::sampled_out(place++)) test::check_compiles(*compiler, ops::fmha_op(), request, *arch::find(arch));
  }
}

TEST_CASE("windows, softcap, ALiBi and sinks: no spill, registers for the block's roles") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const auto& [head_dim, arch] : {std::tuple{64, "sm_100a"}, {128, "sm_103a"}}) {
    int place = row++;
    for (const bool scores : {false, true}) {
      if (testing::sampled_out(place++)) continue;
      ops::FmhaKernel kernel;
      kernel.head_dim = head_dim, kernel.causal = true;
      kernel.windowed = true;
      kernel.softcap = kernel.alibi = kernel.sinks = scores;
      test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(kernel), *arch::find(arch));
    }
  }
}

TEST_CASE("o in f32: no spill, registers for the block's roles") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const auto& [head_dim, arch] : {std::tuple{"64", "sm_100a"}, {"128", "sm_103a"}}) {
    int place = row++;
    for (const ops::Request& request : ops::fmha_op().requests(
             {{"out", {"f32"}}, {"dtype", {"bf16"}}, {"head-dim", {head_dim}}, {"causal", {"both"}}}))
      if (!testing::sampled_out(place++)) test::check_compiles(*compiler, ops::fmha_op(), request, *arch::find(arch));
  }
}
