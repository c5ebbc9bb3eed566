// See chunk_run.hpp.
#include "ops/gated_delta_rule/chunk_run.hpp"

#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/common/fields.hpp"
#include "ops/gated_delta_rule/fields.hpp"
#include "ops/step_launcher.hpp"
#include "support/full.hpp"

namespace tj::test {

RuleShape in_chunks(std::int64_t tokens, bool channels) {
  RuleShape shape;
  shape.batch = 1;
  shape.tokens = tokens;
  shape.chunked = true;
  shape.channels = channels;
  return shape;
}

std::string run_chunks(const RuleShape& shape, unsigned seed) {
  RuleProblem problem(shape, seed);
  if (!ops::prefers_chunks(problem.args)) return "not in chunks";
  return problem.run();
}

void check_chunk_states(bool channels) {
  unsigned seed = 10;
  int index = 0;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const DType state : {DType::f32, DType::bf16, DType::f16})
      for (const int width : {128, 64}) {
        if (const int at = index++; testing::sampled_out(at / 6 + at / 2 % 3 + at % 2)) continue;
        RuleShape shape = in_chunks(70, channels);
        shape.dtype = dtype;
        shape.state = state;
        shape.width = width;
        shape.transposed = seed % 3 == 0;
        shape.padding = seed % 2 == 0 ? 8 : 0;
        shape.half_numbers = seed % 5 == 0;
        CAPTURE(seed);
        CHECK(run_chunks(shape, seed++) == "");
      }
  RuleShape many = in_chunks(64, channels);  // of more blocks than there are multiprocessors
  many.batch = 5;
  many.v_heads = many.heads = 14;
  for (const DType state : {DType::f32, DType::e4m3}) {
    many.state = state;
    many.transposed = state == DType::e4m3;
    RuleProblem problem(many, seed++);
    CHECK(ops::prefers_chunks(problem.args));
    const Ran ran = run_cut(problem, {});
    CHECK(ran.wrong == "");
    REQUIRE(ran.launches.size() == 2);
    CHECK((ran.launches[1].find("wide-state") != std::string::npos) == (!channels || state == DType::f32));
  }
}

Ran run_cut(RuleProblem& problem, const ops::ChunkCut& cut, bool solved_first) {
  const ops::Kernel kernel =
      ops::resolve(ops::gated_delta_rule_op(), &problem.args, std::nullopt, *arch::find("sm_90a"));
  const auto fields = ops::kernel_of_key<ops::gated_delta_rule::kFields, ops::GatedDeltaRuleKernel>(kernel.small_key);
  StepLauncher steps("sm_90a");
  StepScratch scratch(ops::delta_chunks_bytes(problem.args, cut));
  Ran ran;
  const auto launch = [&](auto wanted) {
    ops::chunk_steps(problem.args, fields, ops::multiprocessors_of(kernel.choice), cut, scratch.data(),
                     [&](const ops::Step& step) {
                       const std::string name = step.op->request_of(step.kernel).name;
                       if (wanted(name.find("_solve") != std::string::npos) && ran.wrong.empty())
                         ran.wrong = steps.launch(step, 7, 3);
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
