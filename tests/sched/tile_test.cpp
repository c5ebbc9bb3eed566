// Protects the period of tiles. Its times are those of a legal run, for each number of iterations. So they are for
// every shipped tile and for random graphs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/expressible.hpp"
#include "codegen/timeline.hpp"
#include "graph/examples.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
#include "support/full.hpp"
#include "tile_ends.hpp"
#include "tile_graphs.hpp"

namespace {

using namespace tj;

std::string lines(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& each : list) text += each + "\n";
  return text;
}

/// The period is n * II + c from n0 on, its times are legal, and no longer tile has a larger c.
void holds(const graph::Graph& graph, const sched::Schedule& schedule) {
  const std::optional<sched::TileLevel> told = sched::tile_level(graph, schedule);
  REQUIRE(told.has_value());
  const sched::TileLevel& level = *told;
  CAPTURE(level.certificate);
  CHECK(level.proven);
  REQUIRE(level.periods.size() >= 3);
  for (int n = 0; n <= std::max(level.n0, level.alone_n0) + 3; ++n) {
    CAPTURE(n);
    const sched::TileTimes times = sched::tile_times(graph, schedule, n);
    CHECK(lines(sched::verify_tiles(graph, schedule, times)) == "");
    if (n >= level.n0) CHECK(times.period == std::int64_t{n} * level.ii + level.c);
    if (n < level.n0) CHECK(times.period == level.periods[static_cast<std::size_t>(n)]);
    if (n >= level.alone_n0) CHECK(times.alone == std::int64_t{n} * level.ii + level.alone);
    if (n == level.alone_n0 - 1) CHECK(times.alone != std::int64_t{n} * level.ii + level.alone);
  }
}

/// Tiles of all numbers of iterations end, and each role's text has a step that repeats.
void ends(const graph::Graph& graph, const sched::Schedule& schedule) {
  for (int n = 0; n < 12; ++n) CHECK(test::tiles_end(graph, schedule, n, graph.walks() ? 4 : 1));
  for (int role = 0; role < static_cast<int>(schedule.roles.size()); ++role)
    CHECK_NOTHROW(codegen::find_pattern(graph, schedule, role));
}

}  // namespace

TEST_CASE("tiles of random graphs keep every wait") {
  int walks = 0, some = 0;
  for (std::uint64_t seed = 0; seed < testing::share(3000u); ++seed) {
    const graph::Graph graph = test::tile_graph(seed, 6);
    CAPTURE(graph::to_text(graph));
    const sched::Schedule schedule = sched::schedule(graph);
    CAPTURE(sched::to_text(graph, schedule));
    CHECK(lines(sched::verify(graph, schedule)) == "");
    holds(graph, schedule);
    ++some;
    walks += graph.walks() ? 1 : 0;
  }
  CHECK(walks * 2 > some);
}

TEST_CASE("tiles of roles with up to four nodes in the loop keep every wait") {
  std::size_t most = 0;
  sched::Options options;
  options.copies_apart = true;
  options.order_barriers = false;
  for (std::uint64_t seed = 0; seed < testing::share(3000u); ++seed) {
    const graph::Graph graph = test::chains(seed, 6);
    CAPTURE(graph::to_text(graph));
    const sched::Schedule schedule = sched::schedule(graph, options);
    CAPTURE(sched::to_text(graph, schedule));
    holds(graph, schedule);
    for (const sched::Role& role : schedule.roles) most = std::max(most, role.nodes.size());
  }
  CHECK(most == 4);
}

TEST_CASE("tiles of mixed roles, of free loads and of values that cost a spill keep every wait") {
  int inside = 0;
  for (std::uint64_t seed = 0; seed < testing::share(3000u); ++seed) {
    graph::Graph graph = test::tile_graph(seed, 6);
    sched::Options options;
    options.mixed_roles = seed % 4 < 2;
    options.max_roles = seed % 4 == 0 ? 1 : 0;
    options.streaming_latency_zero = seed % 4 == 2;
    for (graph::Node& node : graph.nodes) node.streaming = node.variable_latency;
    if (seed % 4 == 3)
      for (graph::Edge& edge : graph.edges) edge.spill_cycles = edge.value >= 0 ? 3 : 0;
    CAPTURE(graph::to_text(graph));
    const sched::Schedule schedule = sched::schedule(graph, options);
    CAPTURE(sched::to_text(graph, schedule));
    CHECK(lines(sched::verify(graph, schedule)) == "");
    holds(graph, schedule);
    for (const sched::Ring& ring : schedule.rings) inside += ring.consumer_roles.front() == ring.producer_role ? 1 : 0;
  }
  CHECK(inside > testing::share(500));
}

TEST_CASE("products that are looked at late: early and last iterations look where others do, so all tiles end") {
  int walks = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < testing::share(1000u); ++seed) {
    const graph::Graph graph = test::late_look(seed, 6);
    CAPTURE(graph::to_text(graph));
    const sched::Schedule schedule = sched::schedule(graph);
    CAPTURE(sched::to_text(graph, schedule));
    CHECK(lines(sched::verify(graph, schedule)) == "");
    holds(graph, schedule);
    ends(graph, schedule);
    walks += graph.walks() ? 1 : 0;
    sched::Schedule fewer = schedule;
    if (--fewer.rings[0].slots == 0) continue;
    CHECK(lines(sched::verify(graph, fewer)) != "");
    refused += test::tiles_end(graph, fewer, 12, 1) ? 0 : 1;
  }
  MESSAGE(walks << " walk; " << refused << " hang with a slot less");
  CHECK(walks > testing::share(500));
  CHECK(refused > testing::share(300));
}

TEST_CASE("tiles of roles with two or three products, that look at them early, late and over iterations, end") {
  int periods = 0, late = 0, shared = 0, fewer_hang = 0;
  for (std::uint64_t seed = 0; seed < testing::share(1000u); ++seed) {
    const graph::Graph graph = test::late_looks(seed, 6);
    CAPTURE(graph::to_text(graph));
    sched::Schedule schedule;
    try {
      schedule = sched::schedule(graph);
      codegen::refuse_inexpressible(graph, schedule);
    } catch (const Error& error) {  // no slots are enough, or no node of a role waits for its product
      CHECK(error.code == Code::unsupported);
      continue;
    }
    CAPTURE(sched::to_text(graph, schedule));
    CHECK(lines(sched::verify(graph, schedule)) == "");
    ends(graph, schedule);
    if (sched::TileLate without; !sched::tile_level(graph, schedule, &without)) {
      // What the last iteration leaves is waited for behind a look at all products, which comes later than the loop's.
      CHECK(std::any_of(graph.edges.begin(), graph.edges.end(),
                        [](const graph::Edge& edge) { return edge.value >= 0 && edge.distance > 0; }));
      CHECK_THROWS_WITH_AS(sched::tile_times(graph, schedule, without.iterations),
                           doctest::Contains("cannot keep the interval"), Error);
      ++late;
      continue;
    }
    holds(graph, schedule);
    ++periods;
    for (sched::Ring& ring : schedule.rings) {
      shared += ring.consumer_roles.size() > 1 ? 1 : 0;
      if (--ring.slots > 0) fewer_hang += test::tiles_end(graph, schedule, 12, 1) ? 0 : 1;
      ++ring.slots;
    }
  }
  MESSAGE(periods << " periods, " << late << " late, " << shared << " rings of two readers, " << fewer_hang
                  << " hang with a slot less");
  CHECK(periods > testing::share(750));
  CHECK(late < 20);
  CHECK(shared > testing::share(40));
  CHECK(fewer_hang > testing::share(500));
}

TEST_CASE("a product that no node of its role waits for is done after its latency") {
  graph::Graph graph = test::late_look(1, 6);
  graph.edges.pop_back();
  const sched::Schedule schedule = sched::schedule(graph);
  CAPTURE(sched::to_text(graph, schedule));
  holds(graph, schedule);  // no code is emitted for it (tests/codegen/user_graphs_test.cpp)
}

TEST_CASE("the verifier refuses a shorter period, and each event that comes too early") {
  int refused = 0, damaged = 0, moved = 0;
  for (std::uint64_t seed = 0; seed < testing::share(300u); ++seed) {
    const graph::Graph graph = test::tile_graph(seed, 6);
    const sched::Schedule schedule = sched::schedule(graph);
    for (int n = 0; n < 4; ++n) {
      const sched::TileTimes times = sched::tile_times(graph, schedule, n);
      if (!times.critical.empty()) {
        sched::TileTimes shorter = times;
        --shorter.period;
        refused += sched::verify_tiles(graph, schedule, shorter).empty() ? 0 : 1;
        ++damaged;
      }
      for (const sched::TileStep& step : times.critical)  // nothing on the way may come a cycle earlier
        if (const int node = graph.node_index(step.to); node >= 0) {
          sched::TileTimes early = times;
          --early.cycle[static_cast<std::size_t>(node)];
          moved += sched::verify_tiles(graph, schedule, early).empty() ? 1 : 0;
        }
    }
  }
  MESSAGE(damaged << " periods, " << refused << " refused when shorter; " << moved << " early events not seen");
  CHECK(refused == damaged);
  CHECK(moved == 0);
}

TEST_CASE("tiles of examples and shipped loops keep every wait") {
  for (const std::string& name : graph::example_names()) {
    CAPTURE(name);
    const graph::Graph graph = graph::example(name);
    holds(graph, sched::schedule(graph));
  }
  int count = 0, place = 0;
  for (const ops::Op* op : ops::all())
    for (const ops::Request& request : op->requests({}))
      for (const arch::Arch* arch : arch::all()) {
        if (arch->name != "sm_80" && arch->name != "sm_90a" && arch->name != "sm_100a" && arch->name != "gfx1100")
          continue;
        std::vector<ops::Candidate> candidates;
        try {
          candidates = op->candidates(request, *arch);
        } catch (const Error&) {
          continue;  // the op does not run on this arch
        }
        for (const ops::Candidate& candidate : candidates) {
          if (place++ % 4 != 0 && testing::left_out()) continue;
          std::optional<sched::Schedule> schedule;
          try {
            schedule = sched::schedule(candidate.graph, options_for(candidate));
          } catch (const Error&) {
            continue;  // the tile has none
          }
          CAPTURE(sched::to_text(candidate.graph, *schedule));
          holds(candidate.graph, *schedule);
          ++count;
        }
      }
  MESSAGE(count << " shipped tiles");
  CHECK(count > testing::share(450));
}
