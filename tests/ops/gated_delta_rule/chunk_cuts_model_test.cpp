// Protects sequences that are cut: which calls have ranges of chunks, with the bits of all chunks at once, and which
// have segments side by side, both against f64 on the CPU model.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/common/fields.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/fields.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "ops/step_launcher.hpp"

using namespace tj;
using test::RuleProblem;
using test::RuleShape;

namespace {

struct Ran {
  std::string wrong;  ///< "": the numbers agree with f64
  std::vector<std::string> launches;
  std::vector<unsigned char> bits;  ///< of results
};

/// All chunks are solved first where solved_first: launches that solve need nothing of states.
Ran run(RuleProblem& problem, const ops::ChunkCut& cut, bool solved_first = false) {
  const ops::Kernel kernel =
      ops::resolve(ops::gated_delta_rule_op(), &problem.args, std::nullopt, *arch::find("sm_90a"));
  const auto fields = ops::kernel_of_key<ops::gated_delta_rule::kFields, ops::GatedDeltaRuleKernel>(kernel.small_key);
  test::StepLauncher steps("sm_90a");
  test::StepScratch scratch(ops::delta_chunks_bytes(problem.args, cut));
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
  const Ran whole = run(problem, {}), parts = run(problem, {ranges, 1});
  CHECK(whole.wrong == "");
  CHECK(parts.wrong == "");
  CHECK(whole.launches.size() == 2);
  REQUIRE(parts.launches.size() == launches);
  CHECK(parts.launches[0] == whole.launches[0]);
  CHECK(parts.launches[2].find("solve-beside") != std::string::npos);
  CHECK(parts.bits == whole.bits);
  const Ran apart = run(problem, {ranges, 1}, true);
  CHECK(apart.wrong == "");
  CHECK(apart.bits == whole.bits);
}

void check_segments(const RuleShape& shape, int segments) {
  RuleProblem problem(shape, 5);
  const Ran ran = run(problem, {1, segments});
  CHECK(ran.wrong == "");
  REQUIRE(ran.launches.size() == 4);
  CHECK(ran.launches[1].find("map") != std::string::npos);
  CHECK(ran.launches[2].find("carry") != std::string::npos);
}

/// A call of the sizes that README.md of delta_chunks has times of.
GatedDeltaRuleArgs sized(std::int64_t q_heads, std::int64_t heads, std::int64_t batch, std::int64_t tokens) {
  const auto tensor = [&](std::int64_t of, DType dtype, int rank) {
    Tensor made;
    made.dtype = dtype;
    made.rank = rank;
    made.shape = {batch, tokens, of, 128};
    return made;
  };
  GatedDeltaRuleArgs args;
  args.q = args.k = tensor(q_heads, DType::bf16, 4);
  args.v = args.o = tensor(heads, DType::bf16, 4);
  return args;
}

}  // namespace

TEST_CASE("ranges of chunks give the bits of all at once") {
  RuleShape shape;
  shape.chunked = true;
  shape.batch = 2;
  shape.tokens = 330;
  shape.width = 64;
  shape.v_heads = shape.heads = 2;
  check_ranges(shape, 3, 6);
  shape.batch = 1;
  shape.width = 128;
  shape.state = DType::bf16;
  shape.transposed = true;
  check_ranges(shape, 2, 4);
}

TEST_CASE("a listed sequence ends before the tensor does, so the last ranges have none of it") {
  RuleShape shape;
  shape.chunked = true;
  shape.lengths = {150};
  shape.lead = 2;
  shape.tail = 200;
  shape.width = 64;
  shape.v_heads = shape.heads = 2;
  check_ranges(shape, 6, 12);
}

TEST_CASE("segments side by side agree with f64, from the caller's states to the last ones in their place") {
  RuleShape shape;
  shape.chunked = true;
  shape.batch = 2;
  shape.tokens = 400;
  shape.width = 64;
  shape.v_heads = shape.heads = 2;
  check_segments(shape, 3);
  shape.in_place = true;
  check_segments(shape, 5);
  shape.batch = 1;
  shape.tokens = 330;
  shape.width = 128;
  shape.dtype = shape.state = DType::f16;
  shape.transposed = true;
  check_segments(shape, 4);
}

TEST_CASE("checkpoints of sequences that are cut") {
  RuleShape shape;
  shape.chunked = true;
  shape.batch = 2;
  shape.tokens = 400;
  shape.width = 64;
  shape.v_heads = shape.heads = 2;
  shape.kept = 6;
  shape.every = 64;
  RuleProblem ranges(shape, 6), segments(shape, 6);
  CHECK(run(ranges, {3, 1}).wrong == "");
  const Ran ran = run(segments, {1, 4});
  CHECK(ran.wrong == "");
  REQUIRE(ran.launches.size() == 4);
  CHECK(ran.launches[1].find("keeps") == std::string::npos);
  CHECK(ran.launches[3].find("keeps") != std::string::npos);
}

TEST_CASE("segments of a call without states and without a gate") {
  RuleShape shape;
  shape.chunked = true;
  shape.tokens = 520;
  shape.batch = 1;
  shape.width = 64;
  shape.initial = shape.final = false;
  shape.gate = test::Given::none;  // nothing fades
  check_segments(shape, 4);
}

TEST_CASE("a listed sequence ends before its last segments begin; their states are the last one's") {
  RuleShape shape;
  shape.chunked = true;
  shape.lead = 2;
  shape.tail = 500;
  shape.width = 64;
  shape.v_heads = shape.heads = 2;
  for (const int length : {150, 0}) {
    shape.lengths = {length};
    check_segments(shape, 4);
  }
}

TEST_CASE("calls have ranges where states leave multiprocessors free, and segments where they leave most of them") {
  using ops::ChunkCut;
  CHECK(ops::chunk_cut(sized(16, 32, 1, 8192)) == ChunkCut{4, 1});
  CHECK(ops::chunk_cut(sized(16, 32, 1, 32768)) == ChunkCut{7, 1});
  CHECK(ops::chunk_cut(sized(2, 8, 1, 8192)) == ChunkCut{1, 5});
  CHECK(ops::chunk_cut(sized(16, 32, 8, 4096)) == ChunkCut{});  // states take all
  CHECK(ops::chunk_cut(sized(16, 48, 1, 8192)) == ChunkCut{});  // solving on what is left takes longer than states
  CHECK(ops::chunk_cut(sized(1, 1, 1, 128)) == ChunkCut{});
  GatedDeltaRuleArgs bounded = sized(16, 32, 1, 8192);
  bounded.max_sms = 100;
  CHECK(ops::chunk_cut(bounded) == ChunkCut{});
}
