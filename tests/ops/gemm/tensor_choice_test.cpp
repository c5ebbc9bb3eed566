// Protects which tile a product in tensor memory takes: the end of a tile costs nothing where the next one's sums have
// columns of their own and its loop is long enough, all of it where they have none, and the rest where the loop is
// short.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"

using namespace tj;

namespace {

const arch::Arch& kArch = *arch::find("sm_100a");

double predicted(const ops::GemmSizes& sizes, const std::string& tile) {
  for (const ops::RankedGemm& each : ops::rank_gemm(sizes, {}, kArch))
    if (ops::gemm_choice_name(each.choice) == tile) return each.cycles;
  FAIL("not ranked: " << tile);
  return 0;
}

/// So many tiles of the shape for each SM, K long.
ops::GemmSizes waves(int rows, int columns, int count, int k) {
  return {static_cast<std::int64_t>(rows) * kArch.sm_count, static_cast<std::int64_t>(columns) * count, k, 1};
}

/// The cost of one tile more for each SM.
double step(int rows, int columns, int k, const std::string& tile) {
  return (predicted(waves(rows, columns, 9, k), tile) - predicted(waves(rows, columns, 8, k), tile));
}

}  // namespace

TEST_CASE(
    "a tile more costs its loop where its sums are stored under the next one's, and its end as well where they are "
    "not") {
  constexpr int kLong = 8192;
  const double loop = kLong / 64 * 512.0;
  CHECK(step(256, 128, kLong, "256x128x64") == doctest::Approx(loop).epsilon(0.001));
  CHECK(step(128, 256, kLong, "128x256x64") == doctest::Approx(loop).epsilon(0.001));
  const ops::GemmTileCycles ends = ops::gemm_tile_cycles({256, 256, 64}, 2, kArch);
  CHECK(ends.end > 0);
  CHECK(step(256, 256, kLong, "256x256x64") ==
        doctest::Approx(2 * loop + static_cast<double>(ends.end)).epsilon(0.001));
}

TEST_CASE("a loop shorter than a tile's end waits for it") {
  const ops::GemmTileCycles ends = ops::gemm_tile_cycles({128, 256, 64}, 2, kArch);
  CHECK(static_cast<double>(ends.end) > 512.0);
  CHECK(step(128, 256, 64, "128x256x64") == doctest::Approx(static_cast<double>(ends.end)).epsilon(0.001));
}

TEST_CASE("a thread stores as many sums as its product has rows for it") {
  const auto end = [](const ops::GemmTile& tile) {
    return static_cast<double>(ops::gemm_tile_cycles(tile, 2, kArch).end) - kArch.fact("tile_turn_cycles");
  };
  CHECK(end({128, 256, 64}) == doctest::Approx(256 * kArch.fact("fragment_store_cycles")).epsilon(0.001));
  CHECK(end({256, 256, 64}) ==
        doctest::Approx(256 * kArch.fact("fragment_store_cycles")).epsilon(0.001));  // products side by side
  CHECK(end({64, 256, 64}) == doctest::Approx(128 * kArch.fact("fragment_store_cycles")).epsilon(0.001));
}

TEST_CASE("so do predictions of a schedule") {
  const auto overhead = [](const ops::GemmTile& tile, int rung) {
    ops::GemmKernel kernel;
    kernel.tile = test::gemm_tile_named(ops::gemm_tile_name(tile));
    kernel.rung = rung;
    return ops::gemm_candidate(kernel, kArch).graph.overhead_cycles;
  };
  const auto end = [](const ops::GemmTile& tile) {
    return static_cast<double>(ops::gemm_tile_cycles(tile, 2, kArch).end);
  };
  CHECK(overhead({256, 128, 64}, 0) == 0);
  CHECK(overhead({256, 256, 64}, 0) == end({256, 256, 64}));
  CHECK(overhead({64, 256, 64}, 6) == end({64, 256, 64}));  // one role: it stores before it goes on
}

TEST_CASE("large products take pairs of blocks, two sets of sums and the copy engine for d, and the unit never waits") {
  for (const std::int64_t size : {4096, 8192, 16384}) {
    CAPTURE(size);
    ops::GemmKernel kernel;
    kernel.tile = ops::choose_gemm({size, size, size, 1}, kernel, kArch).tile;
    const Choice choice = choose(ops::gemm_op(), ops::gemm_request(kernel), kArch);
    const graph::Graph& graph = choice.candidate.graph;
    const auto count = [&](const char* body) {
      return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                           [&](const graph::Node& node) { return node.body == body; });
    };
    CHECK(graph.pairs);
    CHECK(count("mma") == (size > 4096 ? 2 : 1));  // whose rows have a role each
    CHECK(count("put_box") == count("mma"));
    for (const sched::Ring& ring : choice.schedule.rings)
      if (graph.values[static_cast<std::size_t>(ring.value)].space == graph::Space::tensor) CHECK(ring.slots == 2);
    CHECK(choice.schedule.certificate.find("unit TC") != std::string::npos);
  }
}
