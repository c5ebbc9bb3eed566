// Protects that a configuration makes the kernels of every launch of its calls, with checkpoints and without, and
// with the delta and without.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"

using namespace tj;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape prompt(bool checkpoints, int width, std::int64_t heads) {
  RuleShape shape;
  shape.batch = 1;
  shape.tokens = 128;
  shape.q_heads = shape.k_heads = shape.v_heads = shape.heads = heads;
  shape.width = width;
  if (checkpoints) shape.kept = 2, shape.every = 64;
  return shape;
}

std::string name_of(const ops::Op& op, const ops::Kernel& kernel) { return op.request_of(kernel).name; }

/// The kernels of a call's launches that a configuration does not make.
std::string missing(const GatedDeltaRuleConfig& config, const GatedDeltaRuleArgs& args) {
  const arch::Arch& arch = *arch::find("sm_90a");
  const ops::Op& op = ops::gated_delta_rule_op();
  const ops::ChooseKernel choose{[&](const ops::ProblemKey& problem) { return op.choose(problem, arch); },
                                 [&]() -> const arch::Arch& { return arch; }};
  const std::vector<ops::NeededKernel> made = op.needed_kernels(&config, choose);
  const ops::Kernel kernel = op.choose(op.problem_key(&args), arch);
  if (!op.in_steps(&args, kernel)) return "not in chunks";
  std::vector<unsigned char> scratch(op.scratch_bytes(&args, kernel));
  std::string names;
  op.steps(&args, kernel, scratch.data(), [&](const ops::Step& step) {
    const std::string name = name_of(*step.op, step.kernel);
    if (std::none_of(made.begin(), made.end(),
                     [&](const auto& each) { return name_of(*each.op, each.kernel) == name; }))
      names += name + " ";
  });
  return names;
}

}  // namespace

TEST_CASE("the kernels of chunks that a configuration of the gated delta rule makes") {
  for (const int width : {64, 128})
    for (const std::int64_t heads : {2, 70})
      for (const bool checkpoints : {false, true})
        for (const bool delta : {true, false}) {
          RuleProblem problem(prompt(checkpoints, width, heads), 3);
          problem.args.delta = delta;
          GatedDeltaRuleConfig config;
          config.head_dim = width;
          config.checkpoints = checkpoints;
          config.delta = delta;
          CAPTURE(width);
          CAPTURE(heads);
          CAPTURE(checkpoints);
          CAPTURE(delta);
          CHECK(missing(config, problem.args) == "");
          config.delta = !delta;
          CHECK(missing(config, problem.args) != "");
        }
}
