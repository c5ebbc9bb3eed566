// See chunk_run.hpp.
#include "ops/gated_delta_rule/chunk_run.hpp"

#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/common/fields.hpp"
#include "ops/gated_delta_rule/fields.hpp"
#include "ops/step_launcher.hpp"

namespace tj::test {

Ran run_cut(RuleProblem& problem, const ops::ChunkCut& cut, bool solved_first) {
  const ops::Kernel kernel =
      ops::resolve(ops::gated_delta_rule_op(), &problem.args, std::nullopt, *arch::find("sm_90a"));
  const auto fields = ops::kernel_of_key<ops::gated_delta_rule::kFields, ops::GatedDeltaRuleKernel>(kernel.small_key);
  StepLauncher steps("sm_90a");
  StepScratch scratch(ops::delta_chunks_bytes(problem.args, cut));
  Ran ran;
  const auto launch = [&](auto wanted) {
    ops::chunk_steps(problem.args, fields, cut, scratch.data(), [&](const ops::Step& step) {
      const std::string name = step.op->request_of(step.kernel).name;
      if (wanted(name.find("_solve") != std::string::npos) && ran.wrong.empty()) ran.wrong = steps.launch(step, 7, 3);
    });
  };
  if (solved_first) launch([](bool solves) { return solves; });
  launch([&](bool solves) { return !solves || !solved_first; });
  if (ran.wrong.empty())
    ran.wrong = scratch.kept_around() ? problem.problem() : "memory beside the scratch was written";
  ran.launches = steps.launches;
  std::int64_t bytes = 2;
  for (int d = 0; d < problem.args.o.rank; ++d) bytes *= problem.args.o.shape[static_cast<std::size_t>(d)];
  const auto* const o = static_cast<const unsigned char*>(problem.args.o.data);
  ran.bits.assign(o, o + bytes);
  return ran;
}

void check_ranges(const RuleShape& shape, int ranges, std::size_t launches) {
  RuleProblem problem(shape, 5);
  const Ran whole = run_cut(problem, {}), parts = run_cut(problem, {ranges, 1});
  CHECK(whole.wrong == "");
  CHECK(parts.wrong == "");
  CHECK(whole.launches.size() == 2);
  REQUIRE(parts.launches.size() == launches);
  CHECK(parts.launches[0] == whole.launches[0]);
  CHECK(parts.launches[2].find("solve-beside") != std::string::npos);
  CHECK(parts.bits == whole.bits);
  const Ran apart = run_cut(problem, {ranges, 1}, true);
  CHECK(apart.wrong == "");
  CHECK(apart.bits == whole.bits);
}

void check_segments(const RuleShape& shape, int segments) {
  RuleProblem problem(shape, 5);
  const Ran ran = run_cut(problem, {1, segments});
  CHECK(ran.wrong == "");
  REQUIRE(ran.launches.size() == 4);
  CHECK(ran.launches[1].find("map") != std::string::npos);
  CHECK(ran.launches[2].find("carry") != std::string::npos);
}

}  // namespace tj::test
