// Protects the gated delta rule on the CPU model, against the serial recurrence in f64: types, widths and orders of
// states, gates and beta in each form, heads that share, lists, pools, kept states, and inputs that are hard for it.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/gated_delta_rule/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

constexpr const char* kWithoutChunks = "model:sm_90";  // tokens are taken one by one there, however many there are

std::string run(const RuleShape& shape, unsigned seed, const char* target = "model:sm_90a") {
  return RuleProblem(shape, seed).run(target);
}

RuleShape one_token() {
  RuleShape shape;
  shape.batch = 3;
  shape.v_heads = 2;
  shape.heads = 2;
  return shape;
}

}  // namespace

TEST_CASE("types, widths and orders of states" * doctest::skip(testing::left_out())) {
  unsigned seed = 1;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const DType state : {DType::f32, DType::bf16, DType::f16})
      for (const int width : {128, 64})
        for (const bool transposed : {false, true}) {
          RuleShape shape = one_token();
          shape.tokens = 1 + seed % 3;
          shape.dtype = dtype;
          shape.state = state;
          shape.width = width;
          shape.transposed = transposed;
          shape.padding = seed % 2 == 0 ? 8 : 0;
          shape.half_numbers = seed % 5 == 0;
          CAPTURE(seed);
          CHECK(run(shape, seed++) == "");
        }
}

TEST_CASE("gates and beta in each form, with and without the delta") {
  unsigned seed = 40;
  for (const Given gate : {Given::none, Given::plain, Given::raw})
    for (const Given beta : {Given::none, Given::plain, Given::raw})
      for (const bool delta : {true, false}) {
        RuleShape shape = one_token();
        shape.width = 64;
        shape.tokens = 4;
        shape.gate = gate;
        shape.beta = beta;
        shape.delta = delta;
        shape.half_numbers = seed % 2 == 0;
        shape.bias = seed % 3 != 0;
        shape.exp_gate = gate == Given::plain && seed % 2 == 1;
        CAPTURE(seed);
        CHECK(run(shape, seed++) == "");
      }
}

TEST_CASE("heads of q, k and v that several states share, and fewer of v than of q") {
  unsigned seed = 70;
  const std::int64_t heads[][4] = {{1, 1, 3, 3}, {2, 2, 4, 4}, {4, 4, 2, 4}, {6, 2, 3, 6}, {1, 1, 1, 5}};
  for (const auto& each : heads) {
    RuleShape shape;
    shape.batch = 2;
    shape.tokens = 2;
    shape.width = 64;
    shape.q_heads = each[0];
    shape.k_heads = each[1];
    shape.v_heads = each[2];
    shape.heads = each[3];
    shape.state = DType::bf16;
    shape.normalise = seed % 2 == 0;
    CAPTURE(seed);
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE("sequences of any lengths, without tokens among them, and tokens of none") {
  RuleShape shape;
  shape.lengths = {3, 0, 7, 1, 0, 2};
  shape.lead = 2;
  shape.tail = 1;
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.padding = 8;
  for (const bool final : {true, false}) {
    shape.final = final;
    shape.initial = final;
    CHECK(run(shape, 90) == "");
  }
  shape.final = true;  // states of sequences without tokens are zeros then
  shape.initial = false;
  CHECK(run(shape, 91) == "");
}

TEST_CASE("pools: slots out of order, in place and to others, slots of none") {
  RuleShape shape;
  shape.batch = 4;
  shape.width = 64;
  shape.heads = 2;
  shape.pool = 7;
  for (const DType state : {DType::f32, DType::bf16})
    for (const bool in_place : {true, false}) {
      shape.state = state;
      shape.in_place = in_place;
      shape.reads = {5, -1, 0, 3};
      shape.writes = in_place ? std::vector<std::int32_t>{5, -1, 0, 3} : std::vector<std::int32_t>{2, 6, -1, 0};
      CHECK(run(shape, 100) == "");
      shape.reads = {5, 99, -7, 5};  // slots that there are not; two sequences may read one
      shape.writes = {1, 7, -2147483647 - 1, 4};
      CHECK(run(shape, 101) == "");
    }
}

TEST_CASE("the state after each of some tokens, and nothing else left") {
  for (const bool final : {true, false})
    for (const std::int64_t kept : {2, 8}) {
      RuleShape shape;
      shape.batch = 2;
      shape.tokens = 5;
      shape.width = 64;
      shape.final = final;
      shape.kept = kept;
      shape.state = final ? DType::bf16 : DType::f32;
      shape.transposed = kept == 2;
      RuleProblem problem(shape, 110);
      CHECK(problem.run() == "");  // states of tokens that there are not are not written
    }
  RuleShape listed;
  listed.lengths = {1, 4, 0};
  listed.kept = 3;
  CHECK(run(listed, 111) == "");
  listed.lengths = {1, 9, 0, 3, 6};
  listed.every = 3;
  listed.kept = 2;
  CHECK(run(listed, 112) == "");
}

TEST_CASE("no gate, strong gates, repeated keys, beta near 1, at 1, 63, 64 and 65 tokens" *
          doctest::skip(testing::left_out())) {
  unsigned seed = 120;
  for (const std::int64_t tokens : {1, 63, 64, 65})
    for (const int kind : {0, 1, 2, 3}) {
      RuleShape shape;
      shape.tokens = tokens;
      shape.width = 64;
      shape.gate = kind == 0 ? Given::none : Given::plain;
      shape.gate_size = kind == 1 ? 20 : kind == 2 ? 1e-3 : 0.1;
      shape.repeated_keys = kind == 2;
      shape.beta_least = kind == 2 ? 0.8 : kind == 3 ? 0.99 : 0;
      CAPTURE(tokens);
      CAPTURE(kind);
      CHECK(run(shape, seed++, kWithoutChunks) == "");
    }
}

TEST_CASE("many tokens without a gate" * doctest::skip(testing::left_out())) {
  RuleShape shape;
  shape.tokens = testing::full_run() ? 32768 : 1500;
  shape.width = 64;
  shape.gate = Given::none;
  CHECK(run(shape, 140, kWithoutChunks) == "");
}

TEST_CASE("all archs, in their usual walk and on few multiprocessors" * doctest::skip(testing::left_out())) {
  for (const char* target : {"model:sm_80", "model:sm_100a", "model:sm_120a", "model:gfx1100", "model:gfx90a"})
    for (const bool transposed : {false, true}) {
      RuleShape shape = one_token();
      shape.tokens = 2;
      shape.state = transposed ? DType::bf16 : DType::f32;
      shape.transposed = transposed;
      RuleProblem problem(shape, 150);
      problem.args.max_sms = transposed ? 1 : 0;
      CAPTURE(std::string(target));
      CHECK(problem.run(target) == "");
    }
}

TEST_CASE("bad bounds of sequences never lead out of the tensors") {
  RuleShape shape;
  shape.lengths = {2, 3, 1};
  shape.width = 64;
  RuleProblem problem(shape, 160);
  problem.ends = {-5, 99, 1, -2147483647 - 1};  // all tokens, then none, none
  CHECK(problem.run() == "");
  problem.ends = {2147483647, -1, 3, 2147483647};  // none; 3 tokens from 0 on; the others
  CHECK(problem.run() == "");
}

TEST_CASE("slots far apart: offsets have 64 bits") {
  RuleShape shape;
  shape.batch = 2;
  shape.width = 64;
  shape.pool = 3;
  shape.in_place = true;
  shape.reads = shape.writes = {2, 0};
  RuleProblem near(shape, 180), far(shape, 180);
  constexpr std::int64_t kApart = std::int64_t{3} << 30;  // elements of 4 bytes
  constexpr std::size_t kEach = 64 * 64 * 4, kBytes = 2 * kApart * 4 + kEach;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const places = static_cast<unsigned char*>(memory);
  const auto* const from = static_cast<const unsigned char*>(near.args.initial_state->data);
  for (std::size_t slot = 0; slot < 3; ++slot) std::memcpy(places + slot * kApart * 4, from + slot * kEach, kEach);
  far.args.initial_state->data = memory;
  far.args.initial_state->strides[0] = kApart;
  far.args.final_state = far.args.initial_state;
  testing::model_runtime().run(far.args);
  CHECK(near.run() == "");
  for (std::size_t slot = 0; slot < 3; ++slot)
    CHECK(std::memcmp(places + slot * kApart * 4, from + slot * kEach, kEach) == 0);
  CHECK(munmap(memory, kBytes) == 0);
}

TEST_CASE("scale, and zeros that normalising leaves as they are") {
  RuleShape shape = one_token();
  shape.width = 64;
  RuleProblem problem(shape, 170);
  problem.args.scale = -2.5f;
  CHECK(problem.run() == "");
}
