// Protects the period of tiles: its times are those of a legal run, for each number of iterations, of every shipped
// tile and of random graphs.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "graph/examples.hpp"
#include "ops/op.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"
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
  for (int n = 0; n <= level.n0 + 3; ++n) {
    CAPTURE(n);
    const sched::TileTimes times = sched::tile_times(graph, schedule, n);
    CHECK(lines(sched::verify_tiles(graph, schedule, times)) == "");
    if (n >= level.n0) CHECK(times.period == std::int64_t{n} * level.ii + level.c);
    if (n < level.n0) CHECK(times.period == level.periods[static_cast<std::size_t>(n)]);
  }
}

}  // namespace

TEST_CASE("tiles of random graphs keep every wait") {
  int walks = 0, some = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
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

TEST_CASE("the verifier refuses a shorter period, and each event that comes too early") {
  int refused = 0, damaged = 0, moved = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
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
  int count = 0;
  for (const ops::Op* op : ops::all())
    for (const ops::Request& request : op->requests({}))
      for (const arch::Arch* arch : arch::all()) {
        if (arch->name != "sm_80" && arch->name != "sm_90a" && arch->name != "sm_100a" && arch->name != "gfx1100")
          continue;
        try {
          for (const ops::Candidate& candidate : op->candidates(request, *arch)) {
            const sched::Schedule schedule = sched::schedule(candidate.graph);
            CAPTURE(sched::to_text(candidate.graph, schedule));
            holds(candidate.graph, schedule);
            ++count;
          }
        } catch (const Error&) {
          continue;  // the op does not run on this arch, or the tile has no schedule
        }
      }
  MESSAGE(count << " shipped tiles");
  CHECK(count > 40);
}
