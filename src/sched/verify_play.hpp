// One role played over some tiles: the verifier's own look at the order of a role's text, and at what it hands back.
//
// Decides only right or wrong. Shares no code with the search for the period.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"

namespace tj::sched {

/// The cycle at which a role hands back a filling of a value; fillings count over all tiles.
using HandedBack = std::map<std::tuple<int, int, int>, std::int64_t>;

/// Plays `tiles` tiles of a role and notes what it hands back. One line a call that comes before the role can make it.
std::vector<std::string> play_role(const graph::Graph& graph, const Schedule& schedule, const TileTimes& times,
                                   int role, int tiles, HandedBack& handed_back);

}  // namespace tj::sched
