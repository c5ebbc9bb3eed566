// Protects products of groups along K on the CPU model, against f64: groups that begin and end anywhere, empty ones,
// NaN behind the last, gradients that add up in place, every tile, lists that hold anything, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/own_ends.hpp"
#include "ops/grouped_gemm/checks.hpp"
#include "ops/grouped_gemm/depths.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::DepthsProblem;
using test::DepthsShape;

namespace {

std::string refusal(const std::function<void(GroupedGemmArgs&)>& change) {
  DepthsProblem problem({{20, 30}}, 1);
  change(problem.args);
  return testing::said_by([&] { ops::validate(problem.args, true); });
}

}  // namespace

TEST_CASE("ends of one's own, by the rows of a group's matrix; a group without K has its bias for a value") {
  for (int example = 0; example < test::kEndExamples; ++example) {
    if (testing::sampled_out(example)) continue;
    DepthsShape shape{{70, 0, 3, 129}, 70, 40, 5};
    shape.bias = example != 2;
    shape.beta = example == 1 ? -0.5f : 0;
    CAPTURE(example);
    DepthsProblem problem(shape, 900u + static_cast<unsigned>(example));
    test::set_end(problem.args, problem.end, example, "group");
    CHECK(problem.run(testing::model_runtime()) == "");
  }
}

TEST_CASE("groups that begin and end anywhere, empty ones, none; in place, with a bias, each type") {
  unsigned seed = 1;
  for (const std::vector<int>& depths :
       {std::vector{70, 0, 3, 129, 1}, {0, 0}, {1}, {64, 64, 128}, {0, 5, 0, 300, 63, 65}})
    for (const DType out : {DType::f32, DType::bf16}) {
      DepthsShape shape;
      shape.depths = depths;
      shape.m = seed % 2 == 0 ? 72 : 131;
      shape.n = seed % 3 == 0 ? 40 : 200;
      shape.dtype = seed % 2 == 0 ? DType::f16 : DType::bf16;
      shape.out = out;
      shape.spare = static_cast<int>(seed % 4);
      shape.bias = seed % 3 == 1;
      shape.beta = seed % 4 < 2 ? 1.0f : 0.0f;
      CAPTURE(seed);
      CHECK(DepthsProblem(shape, seed++).run(testing::model_runtime()) == "");
    }
}

TEST_CASE("one token, and one row or column: the order of one element is that of the rest") {
  for (const int m : {1, 9})
    for (const int n : {1, 9}) {
      DepthsShape shape;
      shape.depths = {1};
      shape.m = m;
      shape.n = n;
      shape.dtype = DType::bf16;
      shape.out = DType::f32;
      CAPTURE(m);
      CAPTURE(n);
      CHECK(DepthsProblem(shape, 9).run(testing::model_runtime()) == "");
    }
}

TEST_CASE("every tile that has groups along K, on few blocks") { CHECK(test::check_depths_tiles("sm_90a") > 5); }

TEST_CASE("lists that hold anything: no fault, and right lists are right afterwards") {
  std::mt19937 random(3);
  for (int round = 0; round < 5; ++round) {
    DepthsShape shape;
    shape.depths = {40, 7, 90};
    DepthsProblem problem(shape, 20);
    for (std::int32_t& each : problem.list)
      each = round == 0   ? std::numeric_limits<std::int32_t>::max()
             : round == 1 ? std::numeric_limits<std::int32_t>::min()
                          : static_cast<std::int32_t>(random() % 400) - 100;
    testing::model_runtime().run(problem.args);
    CHECK(DepthsProblem(shape, 20).run(testing::model_runtime()) == "");
  }
}

TEST_CASE("what does not go with groups along K is named") {
  const auto says = [](const std::string& text, std::string_view part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text);
    return found;
  };
  CHECK(refusal([](GroupedGemmArgs&) {}) == "");
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.a.dtype = g.b.dtype = DType::e4m3; }), "a.strides[0] (M) is 1"));
  CHECK(says(refusal([](GroupedGemmArgs& g) {
               g.d.dtype = DType::e4m3;
               g.scale_d = g.d;
             }),
             "d.dtype is e4m3; allowed with depths"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.gate = Activation::silu; }), "gate is 3; allowed with depths"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.d.rank = 2; }), "d.rank is 2"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.b.shape[1] = 49; }), "b.shape[1] (K) is 49"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.d.shape[1] = 63; }), "d.shape[1] (M) is 63"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.groups.shape[0] = 3; }), "groups.shape[0]"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.a.strides = {50, 1}; }), "a.strides[0] (M) is 50"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.a.strides[1] = 68; }), "a.strides[1] (K) is 68"));
}
