// Protects that chunk output on warps and on waves compiles for every arch at hand: by NVRTC with copies by threads and
// by the engine, by AMD's compilers for each kind of wave. No spill, no scratch memory, registers and LDS that blocks
// have, products that the unit's calls have.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/amd_kernel.hpp"
#include "codegen/device_kernel.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/params.cuh"
#include "support/full.hpp"

using namespace tj;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

const Flags kForms = {{"head-ratio", {"1"}}, {"gated", {"both"}}, {"variable", {"both"}}, {"h-transposed", {"both"}}};

/// A wave has sixteen queries of the chunk, and its share of the columns.
int wave_products(const graph::Graph& graph, const codegen::Unit& unit) {
  constexpr int kMatrix = 16, kDepth = ops::chunk_o::kWidth / kMatrix, kKeys = ops::chunk_o::kChunk / kMatrix;
  const int columns = kDepth / test::constant_of(graph, "kParts") / (test::constant_of(graph, "kWarps") / kKeys);
  return kKeys * kDepth * test::calls_of(unit.text, "qk") + columns * kDepth * test::calls_of(unit.text, "qh") +
         columns * kKeys * test::calls_of(unit.text, "pv");
}

}  // namespace

TEST_CASE("warps: each form, copies by threads and by the engine") {
  const auto compiler = test::nvrtc_or_skip();
  const std::vector<std::string> archs = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120a", "sm_121a"};
  int place = 0;
  for (const std::string& arch : archs) {
    int form = place++;
    for (const ops::Request& request : ops::chunk_o_op().requests(kForms))
      if (!testing::sampled_out(form++, 4))
        test::check_compiles(*compiler, ops::chunk_o_op(), request, *arch::find(arch));
  }
  const Flags stages = {{"head-ratio", {"2"}}, {"num-stages", {"1", "2"}}, {"evict-first", {"true"}}};
  for (const ops::Request& request : ops::chunk_o_op().requests(stages))
    test::check_compiles(*compiler, ops::chunk_o_op(), request, *arch::find("sm_90"));
}

TEST_CASE("waves: each form on each kind of wave") {
  const std::vector<std::string> archs = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1102", "gfx1201"};
  testing::need_hip_compiler({"gfx90a", "gfx942", "gfx1100", "gfx1201"});
  int place = 0;
  for (const std::string& arch : archs) {
    const auto compiler = testing::hip_compiler(arch);
    int form = place++;
    if (!compiler) continue;
    for (const ops::Request& request : ops::chunk_o_op().requests(kForms))
      if (!testing::sampled_out(form++))
        test::check_amd_kernel(*compiler, ops::chunk_o_op(), request, *arch::find(arch), wave_products);
  }
}
