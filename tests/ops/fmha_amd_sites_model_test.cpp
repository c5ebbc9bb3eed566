// Protects the promise that a missing barrier shows in attention on the matrix instructions of AMD's waves too: every sync that the schedule has
// placed is switched off in turn, and the model must compute something else.
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
  Kernel(const FmhaConfig& config, const arch::Arch& arch) : config_(config), candidate_(first_that_fits(config, arch)), emitted_(candidate_.graph, sched::schedule(candidate_.graph), arch) {
    for (const auto& [name, value] : ops::fmha_op().geometry(ops::fmha_request(config), candidate_)) geometry_.push_back(value);
  }
  /// "" when the run was right; else the fault, or what is wrong with the result.
  std::string run(std::uint64_t seed, std::vector<int> disabled, int keys) {
    test::FmhaShape shape{1, 1, 1, 70, keys, config_.head_dim};
    shape.causal = config_.causal;
    test::FmhaProblem problem(shape, 900 + seed);
    ops::LaunchPlan plan;
    ops::fmha_op().plan(&problem.args, geometry_, plan);
    const std::string fault = emitted_.launch(plan, plan.blocks, seed, std::move(disabled));
    return fault.empty() ? problem.problem() : fault;
  }
  const codegen::Unit& unit() const { return emitted_.unit; }

 private:
  static ops::Candidate first_that_fits(const FmhaConfig& config, const arch::Arch& arch) {
    for (ops::Candidate& candidate : ops::fmha_candidates(config, arch)) try {
        sched::schedule(candidate.graph);
        return std::move(candidate);
      } catch (const Error&) {
      }
    FAIL("no tile fits");
    return {};
  }
  FmhaConfig config_;
  ops::Candidate candidate_;
  test::EmittedKernel emitted_;
  std::vector<std::int64_t> geometry_;
};

}  // namespace

TEST_CASE("each barrier of attention on AMD is missed when it is switched off") {
  int sites = 0;
  for (const char* arch : {"gfx1100", "gfx90a"})
    for (const bool causal : {false, true}) {
      Kernel kernel({DType::f16, causal ? 128 : 64, causal, false}, *arch::find(arch));
      for (std::uint64_t seed = 1; seed <= 3; ++seed) REQUIRE(kernel.run(seed, {}, 300) == "");
      REQUIRE(!kernel.unit().sites.empty());
      for (const codegen::Site& site : kernel.unit().sites) {
        CAPTURE(arch);
        CAPTURE(causal);
        CAPTURE(site.what);
        bool missed = false;
        for (std::uint64_t seed = 1; seed <= 30 && !missed; ++seed) missed = kernel.run(seed, {site.id}, seed % 2 == 0 ? 60 : 300) != "";
        CHECK(missed);
        ++sites;
      }
    }
  MESSAGE(sites, " sites");
}
