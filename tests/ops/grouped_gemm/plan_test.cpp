// Protects a launch's parameters: what maps say of groups, whatever rows are expected.
#include <doctest/doctest.h>

#include <cstdint>

#include "ops/gemm/params.cuh"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "ops/grouped_gemm/problem.hpp"

using namespace tj;

namespace {

/// Is b read once in a tile of 64 rows, or of 128? a has room for 128 rows of each of four groups.
bool reads_groups_once(Grouping grouping, std::int64_t expected, const char* tile, int room = 128) {
  test::GroupedShape shape;
  shape.counts = {room, room, room, room};
  shape.grouping = grouping;
  test::GroupedProblem problem(shape, 1);
  problem.args.expected_rows = expected;
  ops::GemmChoice choice{0, 1};
  while (ops::gemm_tile_name(ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)]) != tile) ++choice.tile;
  ops::LaunchPlan plan;
  plan.sm_count = 132;
  plan.blocks_per_sm = 1;
  ops::grouped_gemm_plan(problem.args, choice, {}, plan);
  CHECK_FALSE(plan.maps[0].desc.read_once);  // rows of a are read for each tile of columns
  return plan.maps[1].desc.read_once;
}

}  // namespace

TEST_CASE("matrices of groups are not marked as read once: large ones came more slowly so") {
  for (const Grouping grouping : {Grouping::ends, Grouping::counts, Grouping::rows}) {
    CAPTURE(static_cast<int>(grouping));
    for (const char* tile : {"64x128x64", "128x128x64"})
      for (const std::int64_t expected : {0, 1, 64}) CHECK_FALSE(reads_groups_once(grouping, expected, tile));
  }
  CHECK_FALSE(reads_groups_once(Grouping::counts, 0, "64x128x64", 40));
}

TEST_CASE("boxes of any number of expected rows fill a tile, and no more") {
  for (const std::int64_t expected : {1, 31, 33, 48, 49, 64, 65, 96, 97, 128, 1000}) {
    test::GroupedShape shape;
    shape.counts = {128, 128, 128, 128};
    test::GroupedProblem problem(shape, 1);
    problem.args.expected_rows = expected;
    ops::LaunchPlan plan;
    ops::GemmLaunch launch;
    launch.skips = true;
    for (const char* tile : {"64x128x64", "128x128x64"}) {
      ops::GemmChoice choice{0, 1};
      while (ops::gemm_tile_name(ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)]) != tile) ++choice.tile;
      ops::grouped_gemm_plan(problem.args, choice, launch, plan);
      CAPTURE(expected);
      const auto& params = *reinterpret_cast<const ops::gemm::Params*>(plan.params.data());
      CHECK(ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)].block_m % params.a_box == 0);
    }
  }
}
