// Longest-path relaxation that stops at the first positive cycle (see cycles.hpp).
#include "graph/cycles.hpp"

#include <algorithm>
#include <cstddef>

namespace tj::graph {

std::vector<int> positive_cycle(int nodes, const std::vector<Edge>& edges, std::int64_t ii) {
  const auto count = static_cast<std::size_t>(nodes);
  std::vector<std::int64_t> time(count, 0);
  std::vector<int> via(count, -1);
  int touched = -1;
  for (int round = 0; round <= nodes; ++round) {
    touched = -1;
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const Edge& edge = edges[e];
      const std::int64_t least = time[static_cast<std::size_t>(edge.src)] + edge.delay - ii * edge.distance;
      auto& current = time[static_cast<std::size_t>(edge.dst)];
      if (least <= current) continue;
      current = least;
      via[static_cast<std::size_t>(edge.dst)] = static_cast<int>(e);
      touched = edge.dst;
    }
    if (touched < 0) return {};
  }
  // A node still moving after `nodes` rounds is fed by a cycle: walking back that many steps surely lands on it.
  int node = touched;
  const auto source = [&](int of) { return edges[static_cast<std::size_t>(via[static_cast<std::size_t>(of)])].src; };
  for (int step = 0; step < nodes; ++step) node = source(node);
  std::vector<int> cycle;
  int walker = node;
  do {
    cycle.push_back(via[static_cast<std::size_t>(walker)]);
    walker = source(walker);
  } while (walker != node);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

}  // namespace tj::graph
