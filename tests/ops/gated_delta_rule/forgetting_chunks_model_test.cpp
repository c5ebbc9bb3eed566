// Protects segments that may forget: which calls have them, that no map is made, that results differ from f64 by no
// more than what was allowed, that they are exact where nothing decays, and that calls which are not cut stay as they
// are.
#include <doctest/doctest.h>

#include <string>

#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/chunks.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "support/full.hpp"

using namespace tj;
using test::Ran;
using test::RuleProblem;
using test::RuleShape;

namespace {

/// Gates of 0.05 on average: a chunk leaves 4e-2 of the state before it.
RuleShape forgetting(std::int64_t tokens, double negligible) {
  RuleShape shape = test::in_chunks(tokens);
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.negligible = negligible;
  return shape;
}

Ran cut(const RuleShape& shape, int segments, unsigned seed = 6) {
  RuleProblem problem(shape, seed);
  return test::run_cut(problem, {1, segments});
}

bool is_step(const std::string& name, const char* step) { return name.find(step) != std::string::npos; }

}  // namespace

TEST_CASE(
    "segments that forget agree with f64 where what they forget is small, from the caller's states in their place") {
  RuleShape shape = forgetting(520, 1e-4);
  shape.batch = 2;
  for (const bool in_place : {false, true}) {
    shape.in_place = in_place;
    const Ran ran = cut(shape, 4);
    CHECK(ran.wrong == "");
    REQUIRE(ran.launches.size() == 3);  // the caller's states are copied by one of them
    CHECK(is_step(ran.launches[1], "map"));
    CHECK(is_step(ran.launches[2], "state"));
  }
  if (testing::left_out()) return;
  shape.initial = false;
  shape.in_place = false;
  const Ran ran = cut(shape, 3);
  CHECK(ran.wrong == "");
  CHECK(ran.launches.size() == 2);
  shape = forgetting(330, 1e-4);
  shape.width = 128;
  shape.dtype = shape.state = DType::f16;
  shape.transposed = true;
  shape.delta = false;
  shape.normalise = true;
  CHECK(cut(shape, 5).wrong == "");
}

TEST_CASE("segments that forget take as many chunks ahead as decays ask for, up to all of them" *
          doctest::skip(testing::left_out())) {
  RuleShape shape = forgetting(520, 1e-6);
  shape.gate_size = 1e-3;  // nothing is forgotten
  const Ran exact = cut(shape, 4);
  CHECK(exact.wrong == "");
  shape.negligible = 0.999;  // each segment forgets all
  const Ran rough = cut(shape, 4);
  CHECK(rough.wrong.find("error") != std::string::npos);
  shape.negligible = 0;
  RuleProblem whole(shape, 6);
  CHECK(test::run_cut(whole, {}).bits == exact.bits);
}

TEST_CASE("segments that forget: lists of one sequence that end early, checkpoints, states of e4m3" *
          doctest::skip(testing::left_out())) {
  RuleShape shape = forgetting(0, 1e-4);
  shape.batch = 0;
  shape.lead = 2;
  shape.tail = 300;
  for (const int length : {150, 0}) {
    shape.lengths = {length};
    CHECK(cut(shape, 4).wrong == "");
  }
  shape = forgetting(400, 1e-4);
  shape.kept = 6;
  shape.every = 64;
  shape.batch = 2;
  CHECK(cut(shape, 4).wrong == "");
  shape = forgetting(400, 1e-4);
  shape.state = DType::e4m3;
  shape.in_place = true;
  CHECK(cut(shape, 4).wrong == "");
}

TEST_CASE("calls that may forget have segments earlier, and more of them; others stay whole") {
  const RuleProblem allowed(forgetting(4096, 1e-4), 1), exact(forgetting(4096, 0), 1);
  CHECK(ops::chunk_cut(allowed.args, 132).segments > ops::chunk_cut(exact.args, 132).segments);
  CHECK(ops::delta_chunks_bytes(allowed.args, {1, 8}) < ops::delta_chunks_bytes(exact.args, {1, 8}));
  RuleShape lists = forgetting(0, 1e-4);
  lists.batch = 0;
  lists.lengths = {130, 70};
  RuleProblem several(lists, 2);
  CHECK(ops::chunk_cut(several.args, 132) == ops::ChunkCut{});
  CHECK(several.run() == "");
}
