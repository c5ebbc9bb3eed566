// Values that lie in one place: the verifier's own look at their lifetimes.
//
// Decides only right or wrong, from the graph's edges and the schedule's cycles alone. Shares no code with the search.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// done: the cycle at which a reader of the loop is known to be done to the node that fills its place, in iteration 0.
/// Adds a line for each node that fills a place too early. Returns the bytes that the rings take less than with a place
/// each.
std::int64_t verify_places(const graph::Graph& graph, const Schedule& schedule,
                           const std::function<std::int64_t(int, int)>& done, std::vector<std::string>& problems);

}  // namespace tj::sched
