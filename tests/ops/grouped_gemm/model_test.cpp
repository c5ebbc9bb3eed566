// Protects products of groups on the CPU model, against f64: each way to tell groups, each family of tiles, scales in
// each order, lists that hold anything, and that nothing of a row that no group has is read into another or written.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <random>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/gemm.hpp"
#include "ops/grouped_gemm/checks.hpp"
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

TEST_CASE("every tile that serves groups, with groups of one row, of none, of whole tiles and more") {
  int served = 0, index = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); t += testing::full_run() ? 1 : 5) {
    if (testing::thinned_out(index++)) continue;
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    GroupedShape shape;
    shape.counts = {0, tile.block_m, 1, 0, 0, tile.block_m * tile.cluster_m + 5, 2 * tile.block_m - 3, 0};
    shape.grouping = kGroupings[static_cast<std::size_t>(served) % 3];
    shape.dtype = tile.element_bytes == 1 ? DType::e4m3 : t % 2 == 0 ? DType::bf16 : DType::f16;
    shape.out = t % 5 == 0 ? DType::f32 : DType::bf16;
    shape.n = tile.block_n * tile.cluster_n + 16;
    shape.k = tile.element_bytes == 1 ? 1024 : 5 * tile.block_k;
    shape.spare = t % 4;
    shape.bias = t % 2 == 0;
    shape.padding = t % 3 == 0 ? 8 : 0;
    if (tile.element_bytes == 1) {
      shape.scales = t % 2 == 0 ? Scales::row : Scales::block;
      shape.scale_a_transposed = true;
      shape.scale_b_transposed = t % 4 == 0;
    }
    if (!test::serves_groups("sm_90a", shape, t)) continue;
    ++served;
    CAPTURE(shape.text());
    CAPTURE(t);
    CHECK(test::run_grouped_tile("sm_90a", shape, t, 100 + static_cast<std::uint64_t>(t), t % 2 == 0 ? 2 : 5) == "");
  }
  CHECK(served > (testing::left_out() ? 0 : 8));
}

TEST_CASE("calls: each way to tell groups, each type, rows of d that are not aligned") {
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
        shape.n = seed % 4 == 0 ? 136 : 131;
        shape.k = 208;
        shape.spare = 3;
        shape.bias = seed % 3 == 0;
        CAPTURE(shape.text());
        CHECK(run(shape, seed) == "");
      }
}

TEST_CASE("scales of blocks in each order, with groups that begin at any row, and scales that are copied first") {
  std::uint64_t seed = 50;
  for (int g = 0; g < 3; ++g)
    for (int s = 0; s < 2; ++s)
      for (int order = 0; order < 2; ++order, ++seed) {
        if (testing::sampled_out(g + s + order)) continue;
        GroupedShape shape =
            test::scaled_shape(kGroupings[static_cast<std::size_t>(g)], s == 0 ? Scales::block : Scales::row,
                               order != 0, static_cast<unsigned>(seed));
        shape.n = seed % 4 < 2 ? 144 : 300;
        shape.spare = static_cast<int>(seed % 3);
        shape.packed_scales = seed % 4 == 2;
        CAPTURE(shape.text());
        CHECK(run(shape, seed) == "");
      }
}

TEST_CASE("many groups, more than tiles") {
  GroupedShape shape;
  std::mt19937 random(7);
  for (int group = 0; group < 77; ++group)
    shape.counts.push_back(random() % 3 == 0 ? static_cast<int>(random() % 9) : 0);
  shape.counts.back() = 0;
  shape.n = 40;
  for (const Grouping grouping : {Grouping::ends, Grouping::counts}) {
    shape.grouping = grouping;
    CHECK(run(shape, 3) == "");
  }
}

TEST_CASE(
    "long lists: groups with rows at their ends, in a run, and far apart: rows at their ends, in a run of groups, and "
    "far apart") {
  for (const Grouping grouping : {Grouping::ends, Grouping::counts})
    for (const int limit : {0, 1, 3}) {
      GroupedShape shape;
      shape.counts.assign(530, 0);
      for (const std::size_t group : {0, 3, 4, 5, 6, 7, 8, 127, 128, 129, 300, 511, 512, 529})
        shape.counts[group] = group % 4 == 0 ? 66 : 1;
      shape.grouping = grouping;
      shape.n = 200;
      shape.k = 64;
      GroupedProblem problem(shape, 9);
      problem.args.max_sms = limit;
      problem.run(testing::model_runtime());
      CAPTURE(limit);
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("no group has a row: nothing is written") {
  for (const Grouping grouping : {Grouping::ends, Grouping::counts}) {
    GroupedShape shape;
    shape.counts = {0, 0, 0};
    shape.grouping = grouping;
    shape.spare = 4;
    CHECK(run(shape, 4) == "");
  }
}

TEST_CASE("lists that hold anything: no fault, nothing beside d is written, and right lists are right afterwards") {
  std::mt19937 random(11);
  for (const Grouping grouping : kGroupings)
    for (int round = 0; round < 6; ++round) {
      GroupedShape shape;
      shape.counts = {40, 7, 90};
      shape.grouping = grouping;
      shape.n = 72;
      GroupedProblem problem(shape, 20);
      for (std::int32_t& each : problem.list)
        each = round == 0   ? std::numeric_limits<std::int32_t>::max()
               : round == 1 ? std::numeric_limits<std::int32_t>::min()
               : round == 2 ? -1
                            : static_cast<std::int32_t>(random() % 400) - 100;
      problem.run(testing::model_runtime());
      CHECK(!problem.written_outside());
      CHECK(run(shape, 20) == "");
    }
}

TEST_CASE("equal calls give equal bits, whatever the hint") {
  GroupedShape shape;
  shape.counts = {33, 0, 80};
  GroupedProblem first(shape, 5), second(shape, 5);
  first.run(testing::model_runtime());
  second.run(testing::model_runtime());
  CHECK(first.result() == second.result());
  GroupedProblem hinted(shape, 5);
  hinted.args.expected_rows = 4096;
  hinted.run(testing::model_runtime());
  CHECK(hinted.problem() == "");
}
