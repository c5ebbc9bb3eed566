// Protects states of e4m3 on the CPU model. Each element is within half a step of the serial recurrence's in f64,
// beside its row's scale. Types, widths, orders and archs are all; states lie in pools or are kept. Rows may be zeros,
// tiny numbers or NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ops/gated_delta_rule/chunk_run.hpp"
#include "ops/gated_delta_rule/problem.hpp"
#include "ops/gemm/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::Given;
using test::RuleProblem;
using test::RuleShape;

namespace {

RuleShape scaled(std::int64_t tokens) {
  RuleShape shape;
  shape.batch = 2;
  shape.tokens = tokens;
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.state = DType::e4m3;
  return shape;
}

std::string run_scaled(const RuleShape& shape, unsigned seed, const char* target = "model:sm_90a") {
  return RuleProblem(shape, seed).run(target);
}

}  // namespace

TEST_CASE("states of e4m3: types, widths and orders, gates of heads and of key channels" *
          doctest::skip(testing::left_out())) {
  unsigned seed = 1;
  int index = 0;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int width : {128, 64})
      for (const bool transposed : {false, true})
        for (const bool channels : {false, true}) {
          if (testing::thinned_out(index++)) continue;
          RuleShape shape = scaled(1 + seed % 3);
          shape.dtype = dtype;
          shape.width = width;
          shape.transposed = transposed;
          shape.channels = channels;
          shape.padding = seed % 3 == 0 ? 8 : 0;
          CAPTURE(seed);
          CHECK(run_scaled(shape, seed++) == "");
        }
}

TEST_CASE("states of e4m3: pools in place and to others, kept states, lists, many tokens one by one") {
  RuleShape shape = scaled(2);
  shape.batch = 4;
  shape.pool = 7;
  for (const bool in_place : {true, false}) {
    shape.in_place = in_place;
    shape.reads = {5, -1, 0, 3};
    shape.writes = in_place ? shape.reads : std::vector<std::int32_t>{2, 6, -1, 0};
    CHECK(run_scaled(shape, 30) == "");
  }
  shape = scaled(5);
  shape.kept = 3;
  shape.transposed = true;
  CHECK(run_scaled(shape, 31) == "");
  shape = scaled(1);
  shape.batch = 0;
  shape.lengths = {1, 4, 0};
  shape.kept = 3;
  CHECK(run_scaled(shape, 32) == "");
  shape.initial = false;
  CHECK(run_scaled(shape, 33) == "");
  CHECK(run_scaled(scaled(90), 34, "model:sm_80") == "");
}

TEST_CASE("states of e4m3 in chunks: types, widths and orders, gates of heads and of key channels" *
          doctest::skip(testing::left_out())) {
  unsigned seed = 80;
  int index = 0;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int width : {64, 128})
      for (const bool transposed : {false, true})
        for (const bool channels : {false, true}) {
          if (testing::thinned_out(index++)) continue;
          RuleShape shape = test::in_chunks(70 + seed % 3, channels);
          shape.state = DType::e4m3;
          shape.dtype = dtype;
          shape.width = width;
          shape.transposed = transposed;
          shape.padding = seed % 3 == 0 ? 16 : 0;
          CAPTURE(seed);
          CHECK(test::run_chunks(shape, seed++) == "");
        }
}

TEST_CASE("states of e4m3 in chunks: lists without tokens among them, pools in place, checkpoints, ranges, segments") {
  RuleShape shape;
  shape.chunked = true;
  shape.state = DType::e4m3;
  shape.lengths = {130, 0, 64, 1, 63};
  shape.lead = 2;
  shape.tail = 1;
  shape.v_heads = shape.heads = 2;
  shape.width = 64;
  shape.pool = 7;
  for (const bool in_place : {true, false}) {
    shape.in_place = in_place;
    shape.reads = {5, -1, 0, 3, 2};
    shape.writes = in_place ? shape.reads : std::vector<std::int32_t>{2, 6, -1, 0, 4};
    CHECK(test::run_chunks(shape, 100) == "");
  }
  for (const bool transposed : {false, true}) {
    RuleShape kept = test::in_chunks(200);
    kept.state = DType::e4m3;
    kept.width = transposed ? 128 : 64;
    kept.transposed = transposed;
    kept.kept = 3;
    kept.every = 64;
    CHECK(test::run_chunks(kept, 101) == "");
  }
  RuleShape cut = test::in_chunks(300);
  cut.state = DType::e4m3;
  cut.width = 64;
  test::check_ranges(cut, 2, 4);
  test::check_segments(cut, 3);
}

TEST_CASE("states of e4m3: all archs" * doctest::skip(testing::left_out())) {
  for (const char* target : {"model:sm_80", "model:sm_100a", "model:sm_120a", "model:gfx1100", "model:gfx90a"})
    for (const bool transposed : {false, true}) {
      RuleShape shape = scaled(2);
      shape.transposed = transposed;
      shape.width = transposed ? 64 : 128;
      CAPTURE(std::string(target));
      CHECK(run_scaled(shape, 50, target) == "");
    }
}

// The model watches global memory where tiles come from a counter.
TEST_CASE("states of e4m3 in place on a few multiprocessors: lanes that share a row are in order, all archs") {
  int index = 0;
  for (const char* target : {"model:gfx1100", "model:gfx90a", "model:sm_80", "model:sm_120a", "model:gfx1201"})
    for (const bool transposed : {false, true}) {
      if (testing::thinned_out(index++)) continue;
      RuleShape shape = scaled(2);
      shape.in_place = true;
      shape.transposed = transposed;
      RuleProblem problem(shape, 51);
      problem.args.max_sms = 1;
      CAPTURE(std::string(target));
      CHECK(problem.run(target) == "");
    }
}

namespace {

/// The states of a sequence without a token, which are rounded again and nothing else; beside them are `others` tokens.
void check_elements(std::int32_t others) {
  RuleShape shape = scaled(1);
  shape.batch = 0;
  shape.lengths = {0, others};
  shape.heads = shape.v_heads = 1;
  shape.gate = shape.beta = Given::none;
  RuleProblem problem(shape, 60);
  CHECK(ops::prefers_chunks(problem.args) == (others > 0));
  auto* const elements = static_cast<std::uint8_t*>(problem.args.initial_state->data);
  auto* const scales = static_cast<float*>(problem.args.initial_scales->data);
  for (int v = 0; v < 64; ++v) {
    scales[v] = std::ldexp(1.0f, v - 32);
    for (int k = 0; k < 64; ++k) {
      const int bits = (4 * v + k) % 256;
      elements[64 * v + k] = static_cast<std::uint8_t>(k == 0 ? 0x7e : (bits & 0x7f) == 0x7f ? 0x80 : bits);
    }
  }
  for (int k = 0; k < 64; ++k) elements[64 * 3 + k] = 0;
  elements[64 * 5 + 9] = 0x7f;  // NaN
  scales[7] = std::numeric_limits<float>::quiet_NaN();
  scales[8] = 1e-36f;
  testing::model_runtime().run(problem.args);
  const auto* const found = static_cast<const std::uint8_t*>(problem.args.final_state->data);
  const auto* const factors = static_cast<const float*>(problem.args.final_scales->data);
  for (int v = 0; v < 64; ++v)
    for (int k = 0; k < 64; ++k) {
      const std::uint8_t before = elements[64 * v + k], after = found[64 * v + k];
      const double value = static_cast<double>(factors[v]) * test::from_e4m3(after);
      CAPTURE(v);
      CAPTURE(k);
      if (v == 5 || v == 7)
        CHECK(std::isnan(value));
      else if (v == 8)
        CHECK(std::abs(value) < 1e-30);
      else if (v == 3)
        CHECK(value == 0);
      else
        CHECK((before == after && std::abs(factors[v] / scales[v] - 1) < 1e-6f));
    }
}

}  // namespace

TEST_CASE("states of e4m3: every element comes and goes as it is, rows of zeros, of tiny numbers and of NaN") {
  check_elements(0);
  check_elements(200);
}

TEST_CASE("states of e4m3 over many calls in place: gates bound what rounding adds up to") {
  RuleShape shape = scaled(1);
  shape.in_place = true;
  RuleProblem problem(shape, 70);
  constexpr float kGate = -0.5f;
  const Tensor& gate = *problem.args.gate;
  for (int i = 0; i < 2 * 2; ++i)
    static_cast<float*>(gate.data)[i / 2 * gate.strides[0] + i % 2 * gate.strides[2]] = kGate;
  RuleShape exact = shape;
  exact.state = DType::f32;
  RuleProblem other(exact, 70);
  const std::size_t rows = 2 * 2 * 64;
  const auto* const elements = static_cast<const std::uint8_t*>(problem.args.initial_state->data);
  const auto* const scales = static_cast<const float*>(problem.args.initial_scales->data);
  auto* const numbers = static_cast<float*>(other.args.initial_state->data);
  const auto value = [&](std::size_t i) { return static_cast<double>(scales[i / 64]) * test::from_e4m3(elements[i]); };
  for (std::size_t i = 0; i < rows * 64; ++i) numbers[i] = static_cast<float>(value(i));
  other.args.q = problem.args.q, other.args.k = problem.args.k, other.args.v = problem.args.v;
  other.args.gate = problem.args.gate, other.args.beta = problem.args.beta;
  for (int call = 0; call < 24; ++call)
    for (const RuleProblem* each : {&problem, &other}) testing::model_runtime().run(each->args);
  double wrong = 0, size = 0;
  for (std::size_t i = 0; i < rows * 64; ++i) {
    const double wanted = static_cast<double>(numbers[i]);
    wrong += (value(i) - wanted) * (value(i) - wanted), size += wanted * wanted;
  }
  // Each call loses as much as one may, of a state that has faded as the rest of the error has.
  CHECK(std::sqrt(wrong / size) < 3e-2 / (1 - std::exp(static_cast<double>(kGate))));
}
