// Protects that a missing barrier shows where one role copies, reads and multiplies: each wait, arrive, fence, announcement and group
// wait of the ladder's rungs of one role is switched off in turn.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm.hpp"
#include "ops/gemm_problem.hpp"

using namespace tj;

namespace {

class Kernel {
 public:
  explicit Kernel(int rung) : rung_(rung), kernel_(kernel_of(rung)), emitted_(walking(ops::gemm_graph(kernel_, *arch::find("sm_90a"))), options_of(kernel_)) {}

  /// "" when the run was right; else the fault, or what is wrong with the result.
  std::string run(std::uint64_t seed, const std::vector<int>& disabled) {
    const std::string long_one = run(seed, disabled, 5);
    return long_one.empty() ? run(seed, disabled, 1) : long_one;  // with fewer iterations than slots the text is another
  }
  std::string run(std::uint64_t seed, std::vector<int> disabled, int iterations) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(kernel_.tile)];
    test::GemmShape shape;  // several tiles, all of them one block's, and more iterations than slots
    shape.m = 2 * tile.block_m;
    shape.n = 2 * tile.block_n;
    shape.k = iterations * tile.block_k;
    test::GemmProblem problem(shape, 900 + seed);
    problem.args.rung = rung_;
    ops::LaunchPlan plan;
    plan.sm_count = 1;
    ops::gemm_plan(problem.args, ops::GemmForm{tile, ops::gemm_store(kernel_)}, plan);
    const std::string fault = emitted_.launch(plan, 1, seed, std::move(disabled));
    return fault.empty() ? problem.problem() : fault;
  }
  const codegen::Unit& unit() const { return emitted_.unit; }

 private:
  /// Blocks of these rungs have one tile, and fill each slot of d once.
  static graph::Graph walking(graph::Graph graph) {
    graph.persistent = true;
    return graph;
  }
  static ops::GemmKernel kernel_of(int rung) {
    ops::GemmKernel kernel;
    ops::set_gemm_rung(kernel, rung, nullptr);
    return kernel;
  }
  static sched::Options options_of(const ops::GemmKernel& kernel) {
    const ops::Candidate candidate = ops::gemm_candidate(kernel, *arch::find("sm_90a"));
    sched::Options options;
    options.max_slots = candidate.max_slots;
    options.max_stages = candidate.max_stages;
    options.order_barriers = candidate.turns;
    options.mixed_roles = candidate.one_role;
    options.max_roles = candidate.one_role ? 1 : 0;
    return options;
  }
  int rung_;
  ops::GemmKernel kernel_;
  test::EmittedKernel emitted_;
};

}  // namespace

TEST_CASE("each site of a rung's kernel is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 6;
  int sites = 0, noticed = 0;
  for (const int rung : {3, 4, 5}) {  // stores by all warps; copies by one thread, one slot and two
    Kernel kernel(rung);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) REQUIRE(kernel.run(seed, {}) == "");
    for (const codegen::Site& site : kernel.unit().sites) {
      CAPTURE(rung);
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
