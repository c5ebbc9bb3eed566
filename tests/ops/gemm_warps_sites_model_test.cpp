// Protects the promise that a missing barrier shows in matrix products on products of warps too: every wait, arrive, announcement and
// drain is switched off in turn, and the model must report it or compute something else.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm.hpp"
#include "ops/gemm_checks.hpp"
#include "ops/gemm_problem.hpp"

using namespace tj;

namespace {

class Kernel {
 public:
  Kernel(const ops::GemmKernel& kernel, const arch::Arch& arch, bool one_role)
      : tile_(ops::gemm_tiles()[static_cast<std::size_t>(kernel.tile)]),
        candidate_(one_role ? ops::gemm_candidates(kernel, arch).back() : ops::gemm_candidates(kernel, arch).front()), emitted_(candidate_.graph, schedule(candidate_), arch) {
    for (const auto& [name, value] : ops::gemm_geometry(kernel, candidate_.graph)) geometry_.push_back(value);
  }
  /// "" when the run was right; else the fault, or what is wrong with the result.
  std::string run(std::uint64_t seed, std::vector<int> disabled) {
    test::GemmShape shape;  // several tiles a block, and more iterations than slots, or a single one
    shape.m = 2 * tile_.block_m;
    shape.n = 2 * tile_.block_n;
    shape.k = (seed % 3 == 0 ? 1 : 5) * tile_.block_k;
    test::GemmProblem problem(shape, 900 + seed);
    ops::LaunchPlan plan;
    plan.sm_count = 1;
    ops::gemm_plan(problem.args, geometry_, plan);
    const std::string fault = emitted_.launch(plan, plan.blocks, seed, std::move(disabled));
    return fault.empty() ? problem.problem() : fault;
  }
  const codegen::Unit& unit() const { return emitted_.unit; }

 private:
  static sched::Schedule schedule(const ops::Candidate& candidate) {
    sched::Options options;
    options.max_slots = 2;  // they come round within a short test
    options.mixed_roles = candidate.one_role;
    options.max_roles = candidate.one_role ? 1 : 0;
    return sched::schedule(candidate.graph, options);
  }
  ops::GemmTile tile_;
  ops::Candidate candidate_;
  test::EmittedKernel emitted_;
  std::vector<std::int64_t> geometry_;
};

}  // namespace

TEST_CASE("each site of a matrix product on products of warps is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 6;
  int sites = 0, noticed = 0;
  // Copies by threads, by the copy engine; by a role of their own, by the one that multiplies.
  for (const auto& who : {std::pair{"sm_80", true}, {"sm_80", false}, {"sm_90", false}, {"sm_90", true}, {"sm_120a", true}})
    for (const char* name : {"64x64x128", "64x128x64"}) {
      ops::GemmKernel made;
      made.tile = test::gemm_tile_named(name);
      const std::string arch = who.first;
      Kernel kernel(made, *arch::find(arch), who.second);
      for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(kernel.run(seed, {}) == "");
      for (const codegen::Site& site : kernel.unit().sites) {
        CAPTURE(arch);
        CAPTURE(std::string(name));
        CAPTURE(site.id);
        CAPTURE(site.what);
        bool missed = false;
        for (std::uint64_t seed = 1; seed <= kSeeds && !missed; ++seed) missed = kernel.run(seed, {site.id}) != "";
        ++sites;
        noticed += missed;
        CHECK(missed);
      }
    }
  MESSAGE(noticed, " of ", sites, " sites noticed");
}
