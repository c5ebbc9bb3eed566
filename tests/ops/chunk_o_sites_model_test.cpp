// Protects the promise that a missing barrier shows in chunk output too: every wait, arrive, announcement, fence, commit, group wait and wait for
// stores is switched off in turn, and the model must report it or compute something else. What may go unnoticed is listed with the reason.
#include <doctest/doctest.h>

#include <cstdint>
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
  Kernel(const arch::Arch& arch, int heads) : Kernel(graph_of(arch, heads), arch, heads) {}

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
  Kernel(const graph::Graph& graph, const arch::Arch& arch, int heads) : heads_(heads), emitted_(graph, sched::schedule(graph, options()), arch) {}
  static graph::Graph graph_of(const arch::Arch& arch, int heads) {
    ops::ChunkOKernel kernel;
    kernel.divisor = heads;
    return ops::chunk_o_graph(kernel, heads, arch);
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

void check_sites(const char* name, const std::vector<int>& items, const char* unnoticed = nullptr) {
  constexpr std::uint64_t kSeeds = 6;
  int sites = 0, noticed = 0;
  for (const int heads : items) {
    Kernel kernel(*arch::find(name), heads);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(kernel.run(seed, {}) == "");
    for (const codegen::Site& site : kernel.unit().sites) {
      CAPTURE(heads);
      CAPTURE(site.id);
      CAPTURE(site.what);
      const bool excused = unnoticed != nullptr && site.what.find(unnoticed) != std::string::npos;
      bool missed = false;
      const std::uint64_t seeds = excused ? 1 : kSeeds;
      for (std::uint64_t seed = 1; seed <= seeds && !missed; ++seed) missed = kernel.run(seed, {site.id}) != "";
      ++sites;
      noticed += missed;
      CHECK((missed || excused));
    }
  }
  MESSAGE(name, ": ", noticed, " of ", sites, " sites noticed");
}

}  // namespace

TEST_CASE("each site of the kernel is missed when it is switched off, on a warpgroup's products") {
  // Between the fence before qk and this product there is nothing but matrix instructions: that one covers its registers too.
  check_sites("sm_90a", {1, 2, 3}, "steady: fence before qh.0");
}

TEST_CASE("each site of the kernel is missed when it is switched off, on products in tensor memory") { check_sites("sm_100a", {1, 2}); }
