// Protects products of groups whose d is quantised on the CPU model, against f64: each way to tell groups, each type,
// with a gate and without, scales and exponents; rows that no group has keep their bytes, and their scales.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

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

TEST_CASE("each way to tell groups, each type, with a gate and without") {
  std::uint64_t seed = 1;
  for (int g = 0; g < 3; ++g)
    for (const DType dtype : {DType::bf16, DType::e4m3})
      for (const bool gated : {false, true}) {
        ++seed;
        if (testing::sampled_out(static_cast<int>(seed))) continue;
        GroupedShape shape;
        shape.counts = {70, 0, 3, 129, 1};
        shape.grouping = kGroupings[static_cast<std::size_t>(g)];
        shape.dtype = dtype;
        shape.out = DType::e4m3;
        shape.gate = gated ? Activation::silu : Activation::none;
        shape.gate_interleaved = seed % 3 == 0;
        const int columns = seed % 2 == 0 ? 300 : 128;
        shape.n = gated ? 2 * columns : columns;
        shape.k = 208;
        shape.spare = 3;
        shape.padding = seed % 4 == 1 ? 5 : 0;
        shape.bias = seed % 3 != 1;
        shape.packed_out = seed % 5 == 0;
        CAPTURE(shape.text());
        CHECK(run(shape, seed) == "");
      }
}

TEST_CASE("what fused_moe asks for: e4m3 with scales of blocks, a gate, groups that begin at any row") {
  std::uint64_t seed = 50;
  for (const auto grouping : kGroupings)
    for (const Scales scales : {Scales::block, Scales::row}) {
      GroupedShape shape = test::scaled_shape(grouping, scales, seed % 2 == 0, static_cast<unsigned>(seed));
      shape.out = DType::e4m3;
      shape.gate = Activation::silu;
      shape.packed_scales = seed % 4 == 1;
      shape.packed_out = seed % 3 == 0;
      shape.n = 512;
      CAPTURE(shape.text());
      CHECK(run(shape, seed++) == "");
    }
}

TEST_CASE("scales of rows that no group has are left alone") {
  GroupedShape shape;
  shape.counts = {5, 0, 9};
  shape.grouping = Grouping::ends;
  shape.out = DType::e4m3;
  shape.n = 200;
  shape.spare = 4;
  GroupedProblem problem(shape, 3);
  problem.run(testing::model_runtime());
  CHECK(problem.problem() == "");
  const auto* scales = static_cast<const float*>(problem.args.scale_d->data);
  for (std::int64_t block = 0; block < 2; ++block)
    for (std::int64_t row = 14; row < 18; ++row) CHECK(std::isnan(scales[block * 18 + row]));
}
