// Protects that attention on the matrix instructions of AMD's waves compiles for every arch, by the compilers at hand:
// without spills and scratch memory, within the registers and the LDS of the blocks that share a compute unit, with the
// products that its graph says.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/amd_kernel.hpp"
#include "ops/fmha/fmha.hpp"

using namespace tj;

namespace {

/// Both products of an iteration have as many.
int matrix_instructions(const graph::Graph& graph, const codegen::Unit& unit) {
  const int of_product = test::constant_of(graph, "kRowBlocks") * test::constant_of(graph, "kBlockN") / 16 *
                         test::constant_of(graph, "kHeadDim") / 16;
  return of_product * (test::calls_of(unit.text, "qk") + test::calls_of(unit.text, "qk_columns") +
                       test::calls_of(unit.text, "pv") + test::calls_of(unit.text, "pv_natural"));
}

void check(const char* arch, std::map<std::string, std::vector<std::string>> flags, const std::string& which = "auto") {
  const auto compiler = testing::hip_compiler(arch, which);
  if (!compiler) return;
  for (const ops::Request& request : ops::fmha_op().requests(flags)) {
    CAPTURE(request.name);
    test::check_amd_kernel(*compiler, ops::fmha_op(), request, *arch::find(arch), matrix_instructions);
  }
}

}  // namespace

// First, so that a failure is never hidden by it.
TEST_CASE("a machine without a compiler of HIP is skipped") {
  testing::need_hip_compiler({"gfx90a", "gfx1100", "gfx1201"});
}

TEST_CASE("gfx1100: each type, head dim and mask, and any scale") {
  check("gfx1100", {{"dtype", {"f16"}}});
  check("gfx1100", {{"dtype", {"bf16"}}, {"causal", {"true"}}, {"general-scale", {"true"}}});
}

TEST_CASE("its sisters with fewer registers, gfx12 and CDNA") {
  check("gfx1102", {{"dtype", {"bf16"}}, {"causal", {"false"}}});
  check("gfx1151", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}});
  check("gfx1201", {{"dtype", {"f16"}}, {"causal", {"false"}}});
  check("gfx90a", {{"dtype", {"bf16"}}, {"causal", {"false"}}});
  check("gfx942", {{"dtype", {"bf16"}}, {"causal", {"true"}}, {"general-scale", {"true"}}});
}

TEST_CASE("windows, softcap, ALiBi and sinks") {
  check("gfx1100", {{"dtype", {"f16"}}, {"causal", {"true"}}, {"windowed", {"true"}}});
  check("gfx942",
        {{"dtype", {"f16"}}, {"causal", {"true"}}, {"softcap", {"true"}}, {"alibi", {"true"}}, {"sinks", {"true"}}});
}

TEST_CASE("o in f32") {
  for (const char* arch : {"gfx1100", "gfx90a"})
    check(arch, {{"dtype", {"f16"}}, {"out", {"f32"}}, {"head-dim", {"128"}}, {"causal", {"true"}}});
}

TEST_CASE("rungs of the ladder") {
  for (const char* rung : {"basic", "transposed_k", "latency", "division"})
    check("gfx1100", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}, {"rung", {rung}}});
  check("gfx90a", {{"dtype", {"bf16"}}, {"head-dim", {"64"}}, {"causal", {"false"}}, {"rung", {"basic", "division"}}});
}

TEST_CASE("hiprtc, where it is there") { check("gfx90a", {{"dtype", {"f16"}}, {"causal", {"true"}}}, "hiprtc"); }
