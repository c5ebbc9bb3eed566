// Protects sequences that are cut: which calls have ranges of chunks, with the bits of all chunks at once, and which
// have segments side by side, both against f64 on the CPU model.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"

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
  CHECK(test::run_cut(ranges, {3, 1}).wrong == "");
  const Ran ran = test::run_cut(segments, {1, 4});
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
  GatedDeltaRuleArgs channels = sized(16, 32, 1, 8192);
  channels.gate = channels.o;  // solving takes longer than states then
  CHECK(ops::chunk_cut(channels) == ChunkCut{});
  channels = sized(2, 8, 1, 8192);
  channels.gate = channels.o;
  CHECK(ops::chunk_cut(channels) == ChunkCut{1, 8});
  GatedDeltaRuleArgs bounded = sized(16, 32, 1, 8192);
  bounded.max_sms = 100;
  CHECK(ops::chunk_cut(bounded) == ChunkCut{});
}
