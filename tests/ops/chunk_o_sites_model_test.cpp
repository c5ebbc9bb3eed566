// Protects the promise that a missing barrier shows in chunk output too: every wait, arrive, announcement, group wait and wait for stores
// is switched off in turn, and the model must report it or compute something else. What may go unnoticed is listed with the reason.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/chunk_o.hpp"
#include "ops/chunk_o_problem.hpp"

using namespace tj;

namespace {

// Between the fence before qk and this product there is nothing but matrix instructions: that one covers its registers too.
bool excused(const codegen::Site& site) { return site.what.find("steady: fence before qh.0") != std::string::npos; }

class Kernel {
 public:
  explicit Kernel(int heads) : heads_(heads), emitted_(ops::chunk_o_graph(kernel(heads), heads, *arch::find("sm_90a")), options()) {}

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
  static ops::ChunkOKernel kernel(int heads) {
    ops::ChunkOKernel kernel;
    kernel.divisor = heads;
    return kernel;
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
  for (const int heads : {1, 2, 3}) {
    Kernel kernel(heads);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(kernel.run(seed, {}) == "");
    for (const codegen::Site& site : kernel.unit().sites) {
      CAPTURE(heads);
      CAPTURE(site.id);
      CAPTURE(site.what);
      bool missed = false;
      const std::uint64_t seeds = excused(site) ? 1 : kSeeds;
      for (std::uint64_t seed = 1; seed <= seeds && !missed; ++seed) missed = kernel.run(seed, {site.id}) != "";
      ++sites;
      noticed += missed;
      CHECK((missed || excused(site)));
    }
  }
  MESSAGE(noticed, " of ", sites, " sites noticed");
}
