// Random dependence graphs for tests: the same seed gives the same graph on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph/graph.hpp"

namespace tj::test {

/// A small generator of our own: the standard distributions differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  /// In [low, high].
  int between(int low, int high) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return low + static_cast<int>((state_ >> 11) % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  std::uint64_t state_;
};

struct RandomShape {
  int nodes = 4;
  int units = 2;
  int max_capacity = 1;
  int max_cycles = 3;  ///< of a reservation
  int max_delay = 4;
  int extra_reservations = 0;  ///< percent of nodes that hold a second unit
  int recurrences = 1;
};

/// Graphs on which the search is timed: 40 nodes on 5 units, recurrences, delays to 600 cycles.
inline RandomShape forty_nodes() {
  RandomShape shape;
  shape.nodes = 40;
  shape.units = 5;
  shape.max_cycles = 200;
  shape.max_delay = 600;
  shape.extra_reservations = 10;
  shape.recurrences = 3;
  return shape;
}

inline graph::Graph random_graph(const RandomShape& shape, std::uint64_t seed) {
  Random random(seed);
  graph::Graph graph;
  graph.name = "random" + std::to_string(seed);
  graph.machine.name = "random";
  for (int u = 0; u < shape.units; ++u)
    graph.machine.units.push_back({"U" + std::to_string(u), random.between(1, shape.max_capacity)});
  const auto reserve = [&](graph::Node& node, int start) {
    const int unit = random.between(0, shape.units - 1);
    const int capacity = graph.machine.units[static_cast<std::size_t>(unit)].capacity;
    node.reservations.push_back({unit, start, random.between(0, shape.max_cycles), random.between(1, capacity)});
  };
  for (int i = 0; i < shape.nodes; ++i) {
    graph::Node node;
    node.name = "n" + std::to_string(i);
    node.latency = random.between(0, shape.max_delay);
    reserve(node, 0);
    if (random.chance(shape.extra_reservations))
      reserve(node, node.reservations[0].cycles + random.between(0, 1));  // never over its own
    graph.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < shape.nodes; ++i)
    for (int j = i + 1; j < shape.nodes; ++j)
      if (random.chance(shape.nodes <= 6 ? 40 : 250 / shape.nodes))
        graph.edges.push_back({i, j, random.between(0, shape.max_delay), 0, false, -1, 0, false});
  for (int r = 0; r < shape.recurrences; ++r) {
    const int a = random.between(0, shape.nodes - 1), b = random.between(0, shape.nodes - 1);
    graph.edges.push_back({std::max(a, b), std::min(a, b), random.between(-1, shape.max_delay), random.between(1, 2),
                           false, -1, 0, false});
  }
  return graph;
}

}  // namespace tj::test
