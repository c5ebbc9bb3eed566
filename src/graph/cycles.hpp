// Positive cycles of difference constraints: they make an initiation interval, or a graph, impossible.
//
// Decides nothing about units. Invariant: a returned cycle is simple and its edges are in walking order.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"

namespace tj::graph {

/// Indexes into `edges` of one cycle with sum(delay) - ii * sum(distance) > 0; empty when there is none.
/// Deterministic; O(nodes * edges).
std::vector<int> positive_cycle(int nodes, const std::vector<Edge>& edges, std::int64_t ii);

}  // namespace tj::graph
