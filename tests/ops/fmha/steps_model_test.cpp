// Protects every step of attention's ladder on the CPU model against f64, with copies by threads (sm_80) and by the
// copy engine (sm_120a); and that a barrier which only the first steps have is missed when it is switched off.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/fmha/steps.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;

TEST_CASE(
    "each step against f64: edges of tiles, grouped heads, both types, head dims, masks and kinds of copies, any "
    "scale") {
  constexpr DType f16 = DType::f16, bf16 = DType::bf16;
  // Of each form two sizes: one with fewer iterations than copies are ahead.
  const FmhaShape forms[] = {{1, 2, 1, 65, 400, 128, f16, true, false, true},
                             {2, 1, 1, 64, 512, 64, bf16, false, true, true}};
  std::uint64_t seed = 8100;
  for (const char* target : {"model:sm_80", "model:sm_120a"})
    for (int step = 1; step <= ops::kLastFmhaStep; ++step) {
      for (FmhaShape shape : {forms[step % 2], forms[step % 2]}) {
        if (seed % 2 == 0) shape.seq_q = 33, shape.seq_k = 70;
        CAPTURE(target);
        CAPTURE(step);
        CAPTURE(shape.text());
        FmhaProblem problem(shape, seed++);
        problem.args.step = step;
        testing::model_runtime(target).fmha(problem.args);
        CHECK(problem.problem() == "");
      }
      if (step != 1) continue;
      for (const float scale : {0.0f, -0.125f, 4.0f}) {
        CAPTURE(scale);
        FmhaProblem problem({1, 1, 1, 70, 150, 64, f16, true, false, true}, seed++);
        problem.args.step = step;
        problem.args.scale = scale;
        testing::model_runtime(target).fmha(problem.args);
        CHECK(problem.problem() == "");
      }
    }
}

TEST_CASE("a step on an arch of another family is refused by name") {
  FmhaProblem problem({}, 1);
  problem.args.step = 3;
  CHECK_THROWS_WITH(testing::model_runtime("model:sm_90a").fmha(problem.args),
                    doctest::Contains("fmha: step 3 (transposed_k) does not run on 'sm_90a'"));
}

TEST_CASE("what keeps transposed keys in order is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 40;
  for (const char* name : {"sm_80", "sm_120a"}) {
    const arch::Arch& arch = *arch::find(name);
    const ops::Request request = ops::fmha_request({DType::f16, 64, false, false, 1});
    const Choice choice = choose(ops::fmha_op(), request, arch);
    test::EmittedKernel kernel(choice.candidate.graph, choice.schedule, arch);
    const ops::Geometry geometry = ops::fmha_op().geometry(request, choice.candidate);
    const auto run = [&](std::uint64_t seed, std::vector<int> disabled) {
      FmhaProblem problem({1, 1, 1, 64, 512, 64}, 8500 + seed);
      ops::LaunchPlan plan;
      ops::fmha_op().plan(&problem.args, {}, geometry, plan);
      const std::string fault = kernel.launch(plan, plan.blocks, seed, std::move(disabled));
      return fault.empty() ? problem.problem() : fault;
    };
    int sites = 0;
    for (const codegen::Site& site : kernel.unit.sites) {
      // The loop with masks is the same text.
      if (site.what.find("k_columns") == std::string::npos || site.what.find("fast variants") == std::string::npos)
        continue;
      CAPTURE(name);
      CAPTURE(site.what);
      // By threads, keys have come when all lanes of all warps have issued their copies, which they do behind the
      // product with those before.
      const auto is = [&](const char* what) { return site.what.find(what) != std::string::npos; };
      const bool excused = !arch.has_unit("TMA") &&
                           (is("wait ring k_columns empty") || is("warp sync before release of ring k_columns"));
      bool missed = excused;
      for (std::uint64_t seed = 1; seed <= kSeeds && !missed; ++seed) missed = run(seed, {site.id}) != "";
      ++sites;
      CHECK(missed);
    }
    CHECK(sites >= 3);
    CHECK(run(1, {}) == "");
  }
}
