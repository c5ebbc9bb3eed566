// Whether a tile ends, for tests of tiles.
#pragma once

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::test {

/// Does a tile of so many iterations end? Its roles are run without times, in the order of their text, as long as one
/// of them can go on.
bool tile_ends(const graph::Graph& graph, const sched::Schedule& schedule, int iterations);

}  // namespace tj::test
