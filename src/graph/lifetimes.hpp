// Places in shared memory that values share, as their lifetimes do not meet.
//
// Decides which of two values has the place first, what that asks of the loop's order, and where places lie. Does not
// decide slots. A value that lies in another's place (Value::lies_in) is behind the other values that lie there.
// Invariant of a checked graph: of two values in one place, all reads of one come before the other is filled.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"

namespace tj::graph {

/// Two values that have a place in turns: all of `first`, then all of `second`, and so on.
struct Sharing {
  int first = 0, second = 0;
  bool every_iteration = false;  ///< in turns in each iteration, of which each has one slot; else in each tile
  int other(int value) const { return value == first ? second : first; }
};

/// One entry for each value that lies in another's place.
std::vector<Sharing> sharings(const Graph& graph);

/// Is the value one of a sharing in which both have the place in every iteration?
bool alternates(const Graph& graph, int value);

/// The order of the loop that sharings ask for: who fills a place begins when those who read what was there are done.
/// The edges carry no value.
std::vector<Edge> place_edges(const Graph& graph);

/// Byte offsets of the values' slots in shared memory, one place behind the other from 0 on.
struct Places {
  std::vector<std::int64_t> offset;  ///< -1 for a value without slots there
  std::int64_t bytes = 0;
};
/// slots: of each value; 0: it has none.
Places place_values(const Graph& graph, const std::vector<int>& slots);

/// Throws tj::Error(graph, invalid_argument) where the lifetimes of values in one place meet; it names a node of each.
void check_lifetimes(const Graph& graph);

}  // namespace tj::graph
