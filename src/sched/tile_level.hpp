// Tiles that follow one another: when each role begins the next one, and how long a tile takes of a block's time.
//
//   load       | tile 0      | tile 1      | tile 2
//   compute0       | tile 0      | tile 1      | tile 2       each role has its own place, all have one period
//   store                    | 0 |       | 1 |
//
// A node of the loop issues every II cycles, as in the schedule, at a cycle of its own. In a role, tiles follow each
// other, and within a tile its begin, its loop and its end. On a unit, uses that the schedule keeps apart keep their
// order, and the loop of a tile comes before that of the next one. Where roles share a unit without turns, the two may
// also mesh, in the order that the schedule has if the next loop begins some cycles late. Where a block does one tile
// alone, the next one begins when all roles are done. Of all cycles that keep this, the period is the least.
// Decides no cycle of the loop's schedule. Invariant: for all n >= n0 the period is n * II + c.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// A step of the cycle of waits that sets a period: `to` begins so many cycles after `from`, which may be of an earlier
/// tile.
struct TileStep {
  std::string from, to;
  std::string why;  ///< "order", "result", "ring o0", "unit TC", ...
  std::int64_t cycles = 0;
  int tiles = 0;  ///< `to` belongs to so many tiles further on
};

/// Cycles of a role in a tile.
struct TileRole {
  std::int64_t enters = 0;      ///< it is done with the tile before, and waits for what this one needs
  std::int64_t loop_begin = 0;  ///< what runs before the loop is done, and waited for
  std::int64_t loop_end = 0;    ///< likewise the loop
  std::int64_t leaves = 0;      ///< it is done with the tile
};

/// Tiles of so many iterations.
struct TileTimes {
  int iterations = 0;
  std::int64_t period = 0;          ///< a block begins a tile every so many cycles; no fewer are possible
  std::int64_t alone = 0;           ///< one tile takes so long where none is before or after it
  std::vector<std::int64_t> cycle;  ///< per node: its issue in a tile; of the loop in iteration 0
  std::vector<TileRole> roles;      ///< in the same tile, whose first node issues at 0
  std::vector<std::int64_t>
      ahead;                       ///< per role: its first node issues so long before the tile before ends; 0: after it
  std::vector<TileStep> critical;  ///< the waits that set the period; empty where a unit does
  std::string reason;              ///< these in words
};

struct TileLevel {
  int ii = 0;
  std::int64_t c = 0;
  int n0 = 0;                         ///< from so many iterations on the period is iterations * ii + c
  bool walks = false;                 ///< a block does tile after tile
  std::int64_t alone = 0;             ///< a tile that no other comes before or after takes iterations * ii + alone,
  int alone_n0 = 0;                   ///< from so many iterations on
  bool proven = false;                ///< for all n from n0 and alone_n0 on; else for those up to a few more
  std::vector<std::int64_t> periods;  ///< for 0, 1, ... iterations, up to n0 and at least to 2
  std::string certificate;            ///< the waits that set c
  TileTimes steady;                   ///< at n0 or a few iterations more
};

/// Graphs of more nodes are not asked for their tiles: the rules of a unit grow with the square of them.
inline constexpr int kMostTileNodes = 128;

/// Tiles of so many iterations. Throws tj::Error(schedule, invalid_argument) where that number is negative, a tile has
/// more than 2^29 cycles, or its graph more than kMostTileNodes nodes. So it does where an iteration of the tile cannot
/// keep the interval: a late one may wait longer for a slot than those before it.
TileTimes tile_times(const graph::Graph& graph, const Schedule& schedule, int iterations);

/// Tiles of so many iterations, in which one cannot keep the interval, and the waits that hold it back.
struct TileLate {
  int iterations = -1;  ///< -1: there is none
  std::string reason;
};

/// The period for all n; nothing where tile_times() would throw. `late`: because of tiles of these iterations. Thread
/// safe; same input, same output.
std::optional<TileLevel> tile_level(const graph::Graph& graph, const Schedule& schedule, TileLate* late = nullptr);

/// Plays tiles of a schedule's graph by their times, from the graph alone; empty when each wait is over in time, else
/// one line a violation. Says nothing of shorter periods.
std::vector<std::string> verify_tiles(const graph::Graph& graph, const Schedule& schedule, const TileTimes& times);

}  // namespace tj::sched
