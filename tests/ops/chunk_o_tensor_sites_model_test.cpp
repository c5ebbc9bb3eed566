// Protects the promise that a missing barrier shows in chunk output on tensor memory too: every wait, arrive, announcement, fence, commit and wait
// for stores is switched off in turn, and the model must report it or compute something else. What may go unnoticed is listed with the reason.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/chunk_o.hpp"
#include "ops/chunk_o_problem.hpp"

using namespace tj;

namespace {

class Kernel {
 public:
  explicit Kernel(int heads) : heads_(heads), emitted_(graph_of(heads), sched::schedule(graph_of(heads), options()), *arch::find("sm_100a")) {}

  /// "" when the run was right; else the fault, or what is wrong with the result.
  std::string run(std::uint64_t seed, std::vector<int> disabled) {
    // One block does all items, more of them than there are slots; most chunks are whole.
    test::ChunkOShape shape;
    shape.lengths = {64 * 4, 20, 64 * 3};
    shape.v_heads = heads_;
    test::ChunkOProblem problem(shape, 900 + seed);
    ops::LaunchPlan plan;
    plan.sm_count = 1;
    ops::chunk_o_plan(problem.args, heads_, plan);
    const std::string fault = emitted_.launch(plan, plan.blocks, seed, std::move(disabled));
    return fault.empty() ? problem.problem() : fault;
  }
  const codegen::Unit& unit() const { return emitted_.unit; }

 private:
  static graph::Graph graph_of(int heads) {
    ops::ChunkOKernel kernel;
    kernel.divisor = heads;
    return ops::chunk_o_graph(kernel, heads, *arch::find("sm_100a"));
  }
  static sched::Options options() {
    sched::Options options;
    options.max_slots = 2;  // they come round within a short test
    options.copies_apart = true;
    return options;
  }
  int heads_;
  test::EmittedKernel emitted_;
};

}  // namespace

TEST_CASE("each site of the kernel is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 6;
  int sites = 0, noticed = 0;
  for (const int heads : {1, 2}) {
    Kernel kernel(heads);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(kernel.run(seed, {}) == "");
    for (const codegen::Site& site : kernel.unit().sites) {
      CAPTURE(heads);
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
