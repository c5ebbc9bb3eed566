// Random graphs for the oracles: small, and varied in everything that the definition of a schedule mentions.
//
// Decides no expectation. Invariant: the same seed gives the same graph on every machine, and it passes graph::check.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "random_graphs.hpp"

namespace tj::test {

inline constexpr int kNoPath = -1'000'000;

/// Between any two nodes, the most that edges ask for at this II.
inline std::vector<std::vector<int>> longest_paths(const graph::Graph& graph, int ii) {
  const std::size_t n = graph.nodes.size();
  std::vector<std::vector<int>> longest(n, std::vector<int>(n, kNoPath));
  for (const graph::Edge& edge : graph.edges) {
    int& path = longest[static_cast<std::size_t>(edge.src)][static_cast<std::size_t>(edge.dst)];
    path = std::max(path, edge.delay - edge.distance * ii);
  }
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (longest[i][k] > kNoPath && longest[k][j] > kNoPath)
          longest[i][j] = std::max(longest[i][j], longest[i][k] + longest[k][j]);
  return longest;
}

/// Per node, the first of those that must share its role with it, directly or through others.
inline std::vector<int> tied_nodes(const graph::Graph& graph) {
  std::vector<int> leader(graph.nodes.size());
  for (std::size_t i = 0; i < leader.size(); ++i) leader[i] = static_cast<int>(i);
  for (const graph::Edge& edge : graph.edges) {
    if (!edge.same_role) continue;
    const int a = leader[static_cast<std::size_t>(edge.src)], b = leader[static_cast<std::size_t>(edge.dst)];
    for (int& each : leader)
      if (each == a || each == b) each = std::min(a, b);
  }
  return leader;
}

/// 2 to 10 nodes on 1 to 3 units of 1 to 3 instances. Reservations take 0 to 3 cycles, some of them late or doubled.
/// Edges have delays below 0, go over distances 0 to 3, alone and in recurrences.
inline graph::Graph oracle_graph(std::uint64_t seed) {
  Random random(seed);
  graph::Graph graph;
  graph.name = "oracle" + std::to_string(seed);
  graph.machine.name = "oracle";
  const int nodes = random.between(2, 10), units = random.between(1, 3);
  for (int u = 0; u < units; ++u) graph.machine.units.push_back({"U" + std::to_string(u), random.between(1, 3)});
  for (int i = 0; i < nodes; ++i) {
    graph::Node node;
    node.name = "n" + std::to_string(i);
    node.latency = random.between(0, 5);
    int start = random.chance(15) ? random.between(1, 3) : 0;
    for (int count = random.chance(25) ? 2 : random.chance(90) ? 1 : 0; count > 0; --count) {
      const int unit = random.between(0, units - 1), cycles = random.between(0, 3);
      node.reservations.push_back(
          {unit, start, cycles, random.between(1, graph.machine.units[static_cast<std::size_t>(unit)].capacity)});
      start += cycles + random.between(0, 1);  // never over its own
    }
    graph.nodes.push_back(std::move(node));
  }
  const auto edge = [&](int src, int dst, int delay, int distance) {
    graph.edges.push_back({src, dst, delay, distance, false, -1, 0, false});
  };
  const int density = random.between(10, 40);
  for (int i = 0; i < nodes; ++i)
    for (int j = i + 1; j < nodes; ++j) {
      if (!random.chance(density)) continue;
      const int distance = random.chance(15) ? random.between(1, 3) : 0;  // arguments have no order among compilers
      edge(i, j, random.between(-2, 5), distance);
    }
  for (int late = random.chance(40) ? random.between(1, 2) : 0; late > 0;
       --late) {  // one node no later than so much after another
    const int i = random.between(0, nodes - 1), j = random.between(0, nodes - 1);
    const int path = longest_paths(graph, 1 << 10)[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    if (i != j && path > -100) edge(j, i, -path - random.between(0, 2), 0);
  }
  for (int r = random.between(0, 3); r > 0; --r) {
    const int a = random.between(0, nodes - 1), b = random.between(0, nodes - 1);
    const int distance = random.between(1, 3);
    edge(std::max(a, b), std::min(a, b), random.between(-1, 6), distance);
  }
  return graph;
}

/// Can the two never be in one role? Nodes that must share a role are of one kind: complete by themselves or not, and
/// bodies with a context for the same warps. With copies apart, nodes that compute are also of one copy.
inline bool never_together(const graph::Graph& graph, const std::vector<int>& tied, int i, int j,
                           bool copies_apart = false) {
  const auto at = [&](int node) -> const graph::Node& { return graph.nodes[static_cast<std::size_t>(node)]; };
  const auto warps = [&](int node) {
    for (std::size_t k = 0; k < tied.size(); ++k)
      if (tied[k] == tied[static_cast<std::size_t>(node)] && !graph.nodes[k].context.empty())
        return graph.nodes[k].warps;
    return 0;
  };
  const auto producer = [&](int node) { return at(node).variable_latency || at(node).async == graph::Async::copy; };
  if (tied[static_cast<std::size_t>(i)] == tied[static_cast<std::size_t>(j)]) return false;
  if (copies_apart && !producer(i) && !producer(j) && at(i).copy != at(j).copy) return true;
  return producer(i) != producer(j) || (warps(i) != 0 && warps(j) != 0 && warps(i) != warps(j));
}

/// From reader to writer, where they are in different roles: a value of so many slots is filled again when its readers
/// are done.
inline std::vector<graph::Edge> refill_edges(const graph::Graph& graph, const std::vector<int>& slots) {
  std::vector<graph::Edge> result;
  for (const graph::Edge& read : graph.edges)
    if (read.value >= 0)
      result.push_back({read.dst, read.src, graph.nodes[static_cast<std::size_t>(read.dst)].latency,
                        slots[static_cast<std::size_t>(read.value)] - read.distance, false, -1, 0, false});
  return result;
}

/// 4 to 7 nodes with everything that the joint search knows. That is bytes, registers, warps, waits, spills, nodes that
/// complete by themselves, nodes that must share a role, bodies for a number of warps, values in shared memory, warps
/// that are held.
inline graph::Graph oracle_joint_graph(std::uint64_t seed) {
  Random random(seed);
  graph::Graph graph;
  graph.name = "joint" + std::to_string(seed);
  graph.machine.name = "oracle";
  const int nodes = random.between(4, 7), units = random.between(1, 2);
  for (int u = 0; u < units; ++u) graph.machine.units.push_back({"U" + std::to_string(u), random.between(1, 2)});
  if (random.chance(60)) graph.machine.memory_bytes["M"] = random.between(5, 10);
  if (random.chance(25)) graph.machine.memory_bytes["N"] = random.between(4, 8);
  const bool registers = random.chance(50);
  graph.machine.register_roles = registers && random.chance(50);
  graph.machine.register_step = random.chance(70) ? 8 : 5;
  graph.machine.registers = 128 * random.between(70, 160);
  graph.machine.max_registers_per_thread = random.between(40, 80);
  for (int i = 0; i < nodes; ++i) {
    graph::Node node;
    node.name = "n" + std::to_string(i);
    node.cycles = random.between(0, 2);
    node.latency = random.between(0, 3);
    node.variable_latency = random.chance(15);
    node.async = random.chance(10) ? graph::Async::copy : graph::Async::none;
    node.warps = random.chance(15) ? 8 : random.chance(20) ? 1 : 4;
    if (registers) node.registers = random.between(0, 20);
    for (const char* space : {"M", "N", "unlimited"})
      if (random.chance(40)) node.memory_bytes[space] = random.between(0, 3);
    const int unit = random.between(0, units - 1);
    const int capacity = graph.machine.units[static_cast<std::size_t>(unit)].capacity;
    if (random.chance(85)) node.reservations.push_back({unit, 0, random.between(0, 2), random.between(1, capacity)});
    graph.nodes.push_back(std::move(node));
  }
  const auto kind = [&](int i) {
    const graph::Node& node = graph.nodes[static_cast<std::size_t>(i)];
    return node.variable_latency || node.async == graph::Async::copy;
  };
  const auto edge = [&](int src, int dst, int delay, int distance) {
    graph.edges.push_back({src, dst, delay, distance, random.chance(25), -1,
                           random.chance(50) ? random.between(1, 3) : 0, kind(src) == kind(dst) && random.chance(10)});
  };
  for (int i = 0; i < nodes; ++i)
    for (int j = i + 1; j < nodes; ++j)
      if (random.chance(35)) {
        const int distance = random.chance(15) ? random.between(1, 2) : 0;
        edge(i, j, random.between(-1, 3), distance);
      }
  for (int r = random.between(0, 2); r > 0; --r) {
    const int a = random.between(0, nodes - 1), b = random.between(0, nodes - 1);
    const int distance = random.between(1, 2);
    edge(std::max(a, b), std::min(a, b), random.between(-1, 3), distance);
  }
  const bool contexts = random.chance(25), warps = random.chance(40);
  for (graph::Node& node : graph.nodes) {
    if (contexts && random.chance(50)) node.context = "Context";
    if (warps && random.chance(60)) node.warp_cycles = random.between(0, 3);
  }
  for (int i = 0; i < nodes; ++i) {
    if (!random.chance(10)) continue;
    bool read = false;
    for (graph::Edge& each : graph.edges)
      if (each.src == i && !each.same_role && each.dst != i) {
        each.value = static_cast<int>(graph.values.size());
        read = true;
      }
    if (read)
      graph.values.push_back({"v" + std::to_string(i), random.between(0, 6), 1, graph::Scope::iteration, 1, 64});
  }
  return graph;
}

/// The graph with one to three nodes that run once a tile, some tied to others, and two copies.
inline graph::Graph with_tile_nodes(graph::Graph graph, std::uint64_t seed) {
  Random random(seed);
  const int loop = static_cast<int>(graph.nodes.size());
  for (graph::Node& node : graph.nodes) node.copy = random.between(0, 1);
  graph.machine.registers = 128 * random.between(100, 400);
  graph.machine.max_registers_per_thread = 120;
  const auto at = [&](int i) -> graph::Node& { return graph.nodes[static_cast<std::size_t>(i)]; };
  const auto tie = [&](int from, int to, int percent) {
    const auto producer = [&](int i) { return at(i).variable_latency || at(i).async == graph::Async::copy; };
    if (at(from).scope > at(to).scope) std::swap(from, to);
    graph.edges.push_back({from, to, 0, 0, false, -1, 0, producer(from) == producer(to) && random.chance(percent)});
  };
  for (int k = random.between(1, 3); k > 0; --k) {
    graph::Node node;
    const int index = static_cast<int>(graph.nodes.size());
    node.name = "t" + std::to_string(k);
    node.scope = random.chance(50) ? graph::Scope::tile_begin : graph::Scope::tile_end;
    node.copy = random.between(0, 2);
    node.variable_latency = random.chance(30);
    node.warps = random.chance(20) ? 8 : 4;
    node.registers = random.chance(40) ? random.between(0, 60) : 0;
    if (random.chance(30)) node.context = "Context";
    graph.nodes.push_back(std::move(node));
    tie(index, random.between(0, loop - 1), 30);
    if (index > loop && random.chance(50)) tie(index - 1, index, 100);
  }
  return graph;
}

}  // namespace tj::test
