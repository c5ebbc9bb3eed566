// Protects chunks without the delta, whose graphs lack what solves: gated linear attention, simple or with gates of key
// channels, and the state form of Mamba-2. On the CPU model against the serial recurrence in f64, whole and cut.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/problem.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape added(std::int64_t tokens, bool channels) {
  RuleShape shape = test::in_chunks(tokens, channels);
  shape.delta = false;
  shape.normalise = channels;
  return shape;
}

}  // namespace

TEST_CASE("without the delta: lengths around a chunk, types and widths") {
  unsigned seed = 1;
  for (const bool channels : {false, true})
    for (const std::int64_t tokens : {63, 64, 65, 200}) {
      RuleShape shape = added(tokens, channels);
      if (tokens == 65) shape.width = 64, shape.dtype = DType::f16, shape.state = DType::bf16, shape.transposed = true;
      if (tokens == 63) shape.beta = Given::none, shape.gate = channels ? Given::plain : Given::none;
      CAPTURE(seed);
      CHECK(test::run_chunks(shape, seed++) == "");
    }
}

TEST_CASE("without the delta: every launch has a kernel of its own but the one that carries states") {
  for (const bool channels : {false, true}) {
    RuleProblem problem(added(300, channels), 20);
    const test::Ran ran = test::run_cut(problem, {1, 3});
    CHECK(ran.wrong == "");
    REQUIRE(ran.launches.size() == 4);
    for (const std::string& name : ran.launches) {
      CAPTURE(name);
      CHECK((name.find("_no_delta") != std::string::npos) == (name.find("carry") == std::string::npos));
    }
  }
}

TEST_CASE("without the delta: ranges have the bits of all chunks at once, and segments agree with f64") {
  RuleShape shape = added(330, false);
  shape.batch = 2;
  shape.v_heads = shape.heads = 2;
  test::check_ranges(shape, 3, 6);
  shape.width = 64;
  shape.in_place = true;
  test::check_segments(shape, 4);
  shape = added(330, true);
  shape.width = 64;
  test::check_ranges(shape, 2, 4);
  test::check_segments(shape, 3);
}

TEST_CASE("without the delta: lists, slots out of order, checkpoints, and blocks of 128 rows") {
  for (const bool channels : {false, true}) {
    RuleShape shape = added(0, channels);
    shape.batch = 0;
    shape.lengths = {130, 0, 64, 1, 0, 63, 65};
    shape.lead = 2;
    shape.tail = 1;
    shape.v_heads = shape.heads = 2;
    shape.padding = 8;
    shape.pool = 9;
    shape.reads = {5, -1, 0, 3, 8, 2, 7};
    shape.writes = shape.reads;
    shape.in_place = true;
    CHECK(test::run_chunks(shape, 90) == "");
    RuleShape kept = added(200, channels);
    kept.batch = 2;
    kept.kept = 4;
    kept.every = 64;
    CHECK(test::run_chunks(kept, 92) == "");
    RuleShape many = added(64, channels);
    many.batch = 5;
    many.v_heads = many.heads = 14;
    RuleProblem problem(many, 93);
    const test::Ran ran = test::run_cut(problem, {});
    CHECK(ran.wrong == "");
    REQUIRE(ran.launches.size() == 2);
    CHECK(ran.launches[1].find("wide-state") != std::string::npos);
  }
}

TEST_CASE("without the delta: no decay over many chunks, repeated keys, strong gates") {
  for (const bool channels : {false, true}) {
    RuleShape shape = added(2000, channels);
    shape.width = 64;
    shape.gate = channels ? Given::plain : Given::none;
    shape.gate_size = 1e-3;
    CHECK(test::run_chunks(shape, 120) == "");
    shape = added(200, channels);
    shape.repeated_keys = true;
    shape.batch = 0;
    shape.gate_size = 1e-3;
    CHECK(test::run_chunks(shape, 121) == "");
    shape.gate_size = 20;
    CHECK(test::run_chunks(shape, 122) == "");
  }
}
