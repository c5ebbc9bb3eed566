// Protects ends of products of groups on the CPU model, against f64: a gate whose halves of b follow each other or
// take turns, each way to tell groups, each type, scales of blocks; and an addend, also in place.
#include <doctest/doctest.h>

#include <array>

#include <tilejit/tilejit.hpp>

#include "ops/grouped_gemm/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GroupedProblem;
using test::GroupedShape;
using test::kGroupings;

namespace {

std::string run(const GroupedShape& shape, std::uint64_t seed) {
  GroupedProblem problem(shape, seed);
  problem.run(testing::model_runtime());
  return problem.problem();
}

}  // namespace

TEST_CASE("a gate: each way to tell groups, each type, rows of d that are not aligned") {
  constexpr std::array kTypes = {DType::f16, DType::bf16, DType::e4m3};
  std::uint64_t seed = 1;
  for (int g = 0; g < 3; ++g)
    for (int t = 0; t < 3; ++t)
      for (int o = 0; o < 2; ++o, ++seed) {
        if (testing::sampled_out(g + t + o)) continue;
        GroupedShape shape;
        shape.counts = {70, 0, 3, 129, 1};
        shape.grouping = kGroupings[static_cast<std::size_t>(g)];
        shape.dtype = kTypes[static_cast<std::size_t>(t)];
        shape.out = o == 0 ? DType::f32 : DType::bf16;
        shape.gate = seed % 2 == 0 ? Activation::silu : Activation::gelu_tanh;
        shape.gate_interleaved = seed % 3 == 0;
        shape.n = 2 * (seed % 4 == 0 ? 136 : 67);
        shape.k = 208;
        shape.spare = 3;
        shape.bias = seed % 3 != 1;
        CAPTURE(shape.text());
        CHECK(run(shape, seed) == "");
      }
}

TEST_CASE("a gate with scales of blocks in each order, with groups that begin at any row") {
  std::uint64_t seed = 50;
  for (int g = 0; g < 3; ++g)
    for (int s = 0; s < 2; ++s)
      for (int order = 0; order < 2; ++order, ++seed) {
        if (testing::sampled_out(g + s + order)) continue;
        GroupedShape shape =
            test::scaled_shape(kGroupings[static_cast<std::size_t>(g)], s == 0 ? Scales::block : Scales::row,
                               order != 0, static_cast<unsigned>(seed));
        shape.packed_scales = seed % 4 == 1;
        shape.gate = Activation::silu;
        shape.n = s == 0 ? 512 : 2 * 72;
        CAPTURE(shape.text());
        CHECK(run(shape, seed) == "");
      }
}

TEST_CASE("an addend: each way to tell groups, in place and beside, with a bias") {
  std::uint64_t seed = 80;
  for (const Grouping grouping : kGroupings)
    for (const bool in_place : {false, true}) {
      // With Grouping::rows rows of -1 in a group's last 128 are written, too: they would be NaN of c's.
      GroupedShape shape;
      shape.counts = {70, 0, 3, 129, 1};
      shape.grouping = grouping;
      shape.dtype = seed % 2 == 0 ? DType::bf16 : DType::f16;
      shape.out = in_place ? DType::f32 : shape.dtype;
      shape.n = 131;
      shape.k = 96;
      shape.spare = 2;
      shape.padding = 5;
      shape.bias = in_place;
      shape.beta = -0.5f;
      shape.in_place = in_place;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE("an end of one's own: places of d's rows, numbers of groups, a gate, an addend, a quantised d") {
  int number = 0;
  for (const Grouping grouping : kGroupings)
    for (int example = 0; example < test::kEndExamples; ++example, ++number) {
      if (testing::sampled_out(number)) continue;
      GroupedShape shape;
      shape.counts = {70, 0, 3, 129, 1};
      shape.grouping = grouping;
      shape.dtype = number % 3 == 2 ? DType::e4m3 : DType::bf16;
      shape.out = example == 0 || number % 2 == 0 ? DType::f32 : DType::bf16;
      shape.n = 2 * 68;
      shape.k = 96;
      shape.spare = 2;
      shape.padding = number % 2 == 0 ? 5 : 0;
      shape.bias = number % 3 == 0;
      if (example == 3) shape.gate = Activation::silu;
      if (example == 1) shape.beta = -0.5f;
      if (example == 2) shape.out = DType::e4m3;
      CAPTURE(shape.text());
      GroupedProblem problem(shape, static_cast<std::uint64_t>(120 + number));
      test::set_end(problem.args, problem.end, example, "group");
      if (example == 0) problem.args.alpha = 0.125f;
      problem.run(testing::model_runtime());
      CHECK(problem.problem() == "");
    }
}
