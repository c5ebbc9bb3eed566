// Protects that attention on matrix instructions of a warp compiles for every arch of the family with NVRTC, without
// spills, within the registers of the blocks that share an SM.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("no spill, registers for the blocks of an SM") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const struct {
    const char* arch;
    Flags flags;
  } sets[] = {
      {"sm_80", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}, {"general-scale", {"both"}}}},
      {"sm_80", {{"dtype", {"bf16"}}, {"head-dim", {"64"}}, {"causal", {"false"}}}},
      {"sm_86", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}}},
      {"sm_89", {{"dtype", {"bf16"}}, {"head-dim", {"64"}}, {"causal", {"true"}}, {"general-scale", {"true"}}}},
      {"sm_90", {{"dtype", {"f16"}}}},
      {"sm_90", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"general-scale", {"true"}}}},
      {"sm_90+smem-sm=100K", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"false"}}}},
      {"sm_90+copies=threads+smem=99K", {{"dtype", {"bf16"}}, {"causal", {"true"}}}},
      {"sm_120a", {{"dtype", {"f16"}}, {"general-scale", {"true"}}}},
      {"sm_121a", {{"dtype", {"bf16"}}, {"head-dim", {"128"}}, {"causal", {"false"}}}},
      {"sm_80", {{"dtype", {"f16"}}, {"head-dim", {"96", "256"}}, {"causal", {"true"}}}},
      {"sm_86", {{"dtype", {"bf16"}}, {"head-dim", {"192"}}, {"value-dim", {"128"}}, {"causal", {"false"}}}},
      {"sm_120a", {{"dtype", {"f16"}}, {"head-dim", {"192", "256"}}, {"causal", {"true"}}}},
      {"sm_80", {{"dtype", {"f16"}}, {"head-dim", {"256"}}, {"value-dim", {"64"}}, {"causal", {"false"}}}},
      {"sm_86", {{"dtype", {"bf16"}}, {"head-dim", {"144"}}, {"value-dim", {"64"}}, {"causal", {"false"}}}},
      {"sm_80", {{"dtype", {"f16"}}, {"causal", {"both"}}, {"windowed", {"true"}}}},
      {"sm_120a", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}, {"pieces", {"16", "32"}}}},
      {"sm_90+copies=threads", {{"dtype", {"bf16"}}, {"head-dim", {"192"}}, {"causal", {"true"}}, {"pieces", {"16"}}}},
      {"sm_90",
       {{"dtype", {"f16"}}, {"causal", {"true"}}, {"softcap", {"true"}}, {"alibi", {"true"}}, {"sinks", {"true"}}}},
      {"sm_86",
       {{"dtype", {"bf16"}}, {"head-dim", {"64"}}, {"causal", {"false"}}, {"softcap", {"true"}}, {"alibi", {"true"}}}},
  };
  int index = 0;
  for (const auto& [arch, flags] : sets)
    for (const ops::Request& request : ops::fmha_op().requests(flags))
      if (!testing::sampled_out(index++))
        test::check_compiles(*compiler, ops::fmha_op(), request, arch::parse_arch(arch));
}
