// Predicted and measured, in numbers: a role's interval, its nodes' places and lengths, its waits.
//
// Decides what is compared with what. Does not decide how records are read (timeline_records), nor how it is drawn.
// Invariant: a measured number is the median over all that was recorded of it, iterations at a tile's ends left out
// where there are others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/timeline_records.hpp"

namespace tj::tools {

struct NodeRow {
  int node = -1;
  std::int64_t predicted_offset = 0;  ///< of its begin from the anchor's in the same iteration
  std::optional<std::int64_t> measured_offset;
  std::int64_t predicted_issue = 0, predicted_latency = 0;
  std::optional<std::int64_t> measured_issue;  ///< from begin to end of the call
  std::optional<std::int64_t> measured_done;   ///< from its begin until the role sees that it is complete
};

struct WaitRow {
  std::string wait;  ///< "k full"
  int before = -1;   ///< node that waits; -1: several
  std::int64_t median = 0, longest = 0;
  std::size_t count = 0;
  double share = 0;  ///< of the role's time in whole tiles
};

struct RoleRow {
  int role = -1;
  std::optional<std::int64_t> interval;  ///< from an iteration's begin to the next one's
  double waiting = 0, issuing = 0;       ///< shares of its time in whole tiles; the rest is between calls
  std::vector<NodeRow> nodes;            ///< of the loop, in the order of the role
  std::vector<NodeRow> once;             ///< of the tile's begin and end: no offsets
  std::vector<WaitRow> waits;            ///< most time first
};

/// Medians over whole tiles of the anchor's role.
struct TileRow {
  std::size_t tiles = 0;
  std::int64_t iterations = 0;
  std::int64_t head = 0, loop = 0,
               tail = 0;  ///< to the first iteration's begin; to the last one's begin; from there to the end
  double predicted = 0;   ///< all of it: overhead, an II for each iteration but one, a length
  /// The same parts where tiles follow one another (sched/tile_level.hpp); none where tile_level() has none.
  struct Parts {
    std::int64_t head = 0, loop = 0, tail = 0;
    std::int64_t all() const { return head + loop + tail; }
  };
  std::optional<Parts> tile_level;
  Parts measured() const { return {head, loop, tail}; }
};

struct Comparison {
  int anchor = -1;  ///< node of the loop whose begin is each iteration's 0: the earliest of a role that computes
  std::vector<RoleRow> roles;
  std::vector<TileRow> tiles;  ///< one for each number of iterations, most of them first
};

/// The node of the loop that the schedule issues first, of a role that computes; else of one that asks for products;
/// else of any. Throws tj::Error(argument, unsupported) where nothing iterates.
int anchor_of(const graph::Graph& graph, const sched::Schedule& schedule);
Comparison compare(const graph::Graph& graph, const sched::Schedule& schedule, const std::vector<BlockSpans>& blocks);

}  // namespace tj::tools
