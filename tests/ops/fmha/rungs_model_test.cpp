// Protects every rung of attention's ladder on the CPU model against f64, with copies by threads (sm_80), by the copy
// engine (sm_120a) and through registers, with waves of 32 and of 64 lanes (AMD); and that a barrier which only the
// first rungs have is missed when it is switched off.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/fmha/rungs.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;

TEST_CASE(
    "each rung against f64: edges of tiles, grouped heads, both types, head dims, masks and kinds of copies, any "
    "scale") {
  constexpr DType f16 = DType::f16, bf16 = DType::bf16;
  // Each form has two sizes: one with fewer iterations than copies are ahead.
  const FmhaShape forms[] = {{1, 2, 1, 65, 400, 128, f16, true, false, true},
                             {2, 1, 1, 64, 512, 64, bf16, false, true, true}};
  std::uint64_t seed = 8100;
  for (const char* target : {"model:sm_80", "model:sm_120a", "model:gfx1100", "model:gfx1201", "model:gfx90a"})
    for (int rung = 1; rung <= ops::kLastFmhaRung; ++rung) {
      for (FmhaShape shape : {forms[rung % 2], forms[rung % 2]}) {
        if (seed % 2 == 0) shape.seq_q = 33, shape.seq_k = 70;
        CAPTURE(target);
        CAPTURE(rung);
        CAPTURE(shape.text());
        FmhaProblem problem(shape, seed++);
        Ladder(testing::model_runtime(target)).run(problem.args, rung);
        CHECK(problem.problem() == "");
      }
      if (rung != 1) continue;
      for (const float scale : {0.0f, -0.125f, 4.0f}) {
        CAPTURE(scale);
        FmhaProblem problem({1, 1, 1, 70, 150, 64, f16, true, false, true}, seed++);
        problem.args.scale = scale;
        Ladder(testing::model_runtime(target)).run(problem.args, rung);
        CHECK(problem.problem() == "");
      }
    }
}

TEST_CASE("a rung that there is not, or not on this arch, is refused by name") {
  FmhaProblem problem({}, 1);
  CHECK_THROWS_WITH(Ladder(testing::model_runtime("model:sm_90a")).run(problem.args, 3),
                    doctest::Contains("fmha: rung 3 (transposed_k) does not run on 'sm_90a'"));
  for (const int rung : {-1, 7}) {
    const std::string said = "rung is " + std::to_string(rung) +
                             "; allowed: 0 (none), 1 (basic), 2 (exp2), 3 (transposed_k), 4 (latency), 5 (occupancy), "
                             "6 (division)";
    Ladder ladder(testing::model_runtime("model:sm_80"));
    CHECK_THROWS_WITH(ladder.run(problem.args, rung), doctest::Contains(said.c_str()));
    CHECK_THROWS_WITH(ladder.prepare(problem.args, rung), doctest::Contains(said.c_str()));
    CHECK_THROWS_WITH(ladder.prepare(FmhaConfig{}, rung, {DeviceKind::cpu, 0}), doctest::Contains(said.c_str()));
  }
}

TEST_CASE("rung 0 is the op's own kernel, and a call without a ladder takes no rung's") {
  Runtime& runtime = testing::model_runtime("model:sm_80");
  FmhaProblem problem({1, 1, 1, 65, 64, 64, DType::f16, true}, 1);  // fewer queries have a kernel of their own
  Ladder ladder(runtime);
  const std::string rung = ladder.prepare(problem.args, 2).name, own = runtime.prepare(problem.args).name;
  CHECK(rung == own + "_exp2");
  CHECK(ladder.prepare(problem.args, 0).name == own);
  CHECK(ladder.prepare(FmhaConfig{DType::f16, 64, true, false}, 2, {DeviceKind::cpu, 0}).origin ==
        KernelOrigin::memory);
}

TEST_CASE("what keeps transposed keys in order is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 40;
  for (const char* name : {"sm_80", "sm_120a"}) {
    const arch::Arch& arch = *arch::find(name);
    const ops::Request request = ops::fmha_request({{DType::f16, 64, false, false}, 1});
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
