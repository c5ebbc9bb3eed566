// Whether tiles end, for tests of tiles.
#pragma once

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::test {

/// Do so many tiles of so many iterations end, one after another? The events of the emitted code are played without
/// times, in the order of each role's text, as long as one role can go on.
bool tiles_end(const graph::Graph& graph, const sched::Schedule& schedule, int iterations, int tiles);

}  // namespace tj::test
