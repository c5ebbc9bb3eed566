// Protects sequences that are cut: which calls have ranges of chunks, with the bits of all chunks at once, and which
// have segments side by side, both against f64 on the CPU model.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "support/full.hpp"

using namespace tj;
using test::check_ranges;
using test::check_segments;
using test::Ran;
using test::RuleProblem;
using test::RuleShape;

namespace {

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

ops::ChunkCut cut_of(const GatedDeltaRuleArgs& args, int multiprocessors = 132) {
  return ops::chunk_cut(args, multiprocessors);
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
  if (testing::left_out()) return;
  shape.batch = 1;
  shape.width = 128;
  shape.state = DType::bf16;
  shape.transposed = true;
  check_ranges(shape, 2, 4);
}

TEST_CASE("a listed sequence ends before the tensor does, so the last ranges have none of it" *
          doctest::skip(testing::left_out())) {
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
  if (testing::left_out()) return;
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
  CHECK(test::run_cut(ranges, {3, 1}).wrong == "");
  const Ran ran = test::run_cut(segments, {1, 4});
  CHECK(ran.wrong == "");
  REQUIRE(ran.launches.size() == 4);
  CHECK(ran.launches[1].find("keeps") == std::string::npos);
  CHECK(ran.launches[3].find("keeps") != std::string::npos);
}

TEST_CASE("segments of a call without states and without a gate" * doctest::skip(testing::left_out())) {
  RuleShape shape;
  shape.chunked = true;
  shape.tokens = 520;
  shape.batch = 1;
  shape.width = 64;
  shape.initial = shape.final = false;
  shape.gate = test::Given::none;  // nothing fades
  check_segments(shape, 4);
}

TEST_CASE("a listed sequence ends before its last segments begin; their states are the last one's" *
          doctest::skip(testing::left_out())) {
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
  CHECK(cut_of(sized(16, 32, 1, 8192)) == ChunkCut{4, 1});
  CHECK(cut_of(sized(16, 32, 1, 32768)) == ChunkCut{7, 1});
  CHECK(cut_of(sized(2, 8, 1, 8192)) == ChunkCut{1, 5});
  CHECK(cut_of(sized(16, 32, 8, 4096)) == ChunkCut{});  // states take all
  CHECK(cut_of(sized(16, 48, 1, 8192)) == ChunkCut{});  // solving on what is left takes longer than states
  CHECK(cut_of(sized(1, 1, 1, 128)) == ChunkCut{});
  GatedDeltaRuleArgs channels = sized(16, 32, 1, 8192);
  channels.gate = channels.o;  // solving takes longer than states then
  CHECK(cut_of(channels) == ChunkCut{});
  channels = sized(2, 8, 1, 8192);
  channels.gate = channels.o;
  CHECK(cut_of(channels) == ChunkCut{1, 8});
  GatedDeltaRuleArgs added = sized(16, 48, 1, 8192);
  added.delta = false;  // as little is solved, so there is time for it on what is left
  CHECK(cut_of(added).ranges > 1);
  GatedDeltaRuleArgs bounded = sized(16, 32, 1, 8192);
  bounded.max_sms = 100;
  CHECK(cut_of(bounded) == ChunkCut{});
}

TEST_CASE("a card of other multiprocessors cuts calls in other ways") {
  using ops::ChunkCut;
  CHECK(cut_of(sized(16, 32, 1, 8192), 64) == ChunkCut{});  // states take all of them
  CHECK(cut_of(sized(16, 48, 1, 8192), 264).ranges > 1);
  CHECK(cut_of(sized(2, 8, 1, 8192), 264).segments > cut_of(sized(2, 8, 1, 8192)).segments);
  arch::Arch card = *arch::find("sm_90a");
  card.sm_count = 64;
  const GatedDeltaRuleArgs call = sized(16, 32, 1, 8192);
  const ops::Op& op = ops::gated_delta_rule_op();
  const ops::Kernel kernel = op.choose(op.problem_key(&call), card);
  CHECK(op.in_steps(&call, kernel));
  CHECK(op.scratch_bytes(&call, kernel) == ops::delta_chunks_bytes(call, {}));
}
