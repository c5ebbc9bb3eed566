// Protects the promise that a missing barrier shows in attention on matrix instructions of a warp too: every wait, arrival, announcement
// and drain is switched off in turn, and the model must report it or compute something else.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/fmha.hpp"
#include "ops/fmha_problem.hpp"

using namespace tj;

namespace {

class Kernel {
 public:
  Kernel(const FmhaConfig& config, const arch::Arch& arch)
      : config_(config), candidate_(ops::fmha_candidates(config, arch).back()), emitted_(candidate_.graph, schedule(candidate_), arch) {
    for (const auto& [name, value] : ops::fmha_op().geometry(ops::fmha_request(config), candidate_)) geometry_.push_back(value);
  }
  /// "" when the run was right; else the fault, or what is wrong with the result.
  std::string run(std::uint64_t seed, std::vector<int> disabled) {
    test::FmhaShape shape{1, 1, 1, 70, 500, config_.head_dim};  // more iterations than slots
    shape.causal = config_.causal;
    test::FmhaProblem problem(shape, 900 + seed);
    ops::LaunchPlan plan;
    ops::fmha_op().plan(&problem.args, geometry_, plan);
    const std::string fault = emitted_.launch(plan, plan.blocks, seed, std::move(disabled));
    return fault.empty() ? problem.problem() : fault;
  }
  const codegen::Unit& unit() const { return emitted_.unit; }

 private:
  static sched::Schedule schedule(const ops::Candidate& candidate) {
    sched::Options options;
    options.max_slots = 1;  // it comes round at once
    options.mixed_roles = true;
    options.max_roles = 1;
    return sched::schedule(candidate.graph, options);
  }
  FmhaConfig config_;
  ops::Candidate candidate_;
  test::EmittedKernel emitted_;
  std::vector<std::int64_t> geometry_;
};

}  // namespace

TEST_CASE("each site of attention on matrix instructions of a warp is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 6;
  int sites = 0, noticed = 0;
  for (const bool threads : {true, false})
    for (const bool causal : {false, true}) {
      const std::string arch = threads ? "sm_80" : "sm_120a";
      Kernel kernel({DType::f16, causal ? 128 : 64, causal, false}, *arch::find(arch));
      for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(kernel.run(seed, {}) == "");
      for (const codegen::Site& site : kernel.unit().sites) {
        CAPTURE(arch);
        CAPTURE(causal);
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
