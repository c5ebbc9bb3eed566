// The joint constraints once more, counted cycle by cycle: tests hold the joint search's answers against them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "support/fail.hpp"

namespace tj::test {

/// Cycles and roles of a graph whose nodes are all of iteration scope.
struct Placement {
  int ii = 1;
  std::vector<int> cycle, role;
  bool copies_apart = false;
};

inline std::size_t spot(int i) { return static_cast<std::size_t>(i); }

inline bool by_itself(const graph::Node& node) { return node.variable_latency || node.async == graph::Async::copy; }

inline int length_of(const graph::Node& node) { return std::max(1, node.latency); }

/// From a node's issue to the end of its last reader; its own next instance may take its place.
inline int lifetime(const graph::Graph& graph, const Placement& p, int node) {
  int end = -1000000, own = 1 << 20;
  for (const graph::Edge& edge : graph.edges) {
    if (edge.src == node && edge.dst == node) own = std::min(own, edge.distance);
    if (edge.src == node && edge.dst != node)
      end = std::max(end, p.cycle[spot(edge.dst)] + edge.distance * p.ii + length_of(graph.nodes[spot(edge.dst)]));
  }
  if (own < 1 << 20) end = std::max(end, p.cycle[spot(node)] + own * p.ii);
  if (end == -1000000) end = p.cycle[spot(node)] + length_of(graph.nodes[spot(node)]);
  return std::max(0, end - p.cycle[spot(node)]);
}

/// The fullest slot of a period, when node i holds amount[i] for its lifetime.
inline std::int64_t fullest_slot(const graph::Graph& graph, const Placement& p,
                                 const std::vector<std::int64_t>& amount) {
  std::vector<std::int64_t> slot(spot(p.ii), 0);
  for (std::size_t i = 0; i < amount.size(); ++i)
    for (int c = 0, life = amount[i] > 0 ? lifetime(graph, p, static_cast<int>(i)) : 0; c < life; ++c)
      slot[spot((p.cycle[i] + c) % p.ii)] += amount[i];
  return *std::max_element(slot.begin(), slot.end());
}

inline bool edge_holds(const Placement& p, const graph::Edge& edge) {
  const bool cross = p.role[spot(edge.src)] != p.role[spot(edge.dst)];
  if (cross && edge.same_role) return false;
  return p.cycle[spot(edge.dst)] + edge.distance * p.ii >=
         p.cycle[spot(edge.src)] + edge.delay + (cross ? edge.spill_cycles : 0);
}

inline bool units_hold(const graph::Graph& graph, const Placement& p) {
  for (std::size_t u = 0; u < graph.machine.units.size(); ++u) {
    std::vector<int> slot(spot(p.ii), 0);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      for (const auto& use : graph.nodes[i].reservations)
        for (int c = 0; c < use.cycles && use.unit == static_cast<int>(u); ++c)
          slot[spot((p.cycle[i] + use.start + c) % p.ii)] += use.count;
    if (*std::max_element(slot.begin(), slot.end()) > graph.machine.units[u].capacity) return false;
  }
  return true;
}

inline bool registers_hold(const graph::Graph& graph, const Placement& p) {
  const graph::Machine& m = graph.machine;
  if (std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) { return node.registers == 0; }))
    return true;
  const std::int64_t most = m.max_registers_per_thread / m.register_step * m.register_step;
  std::map<int, int> warps;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    warps[p.role[i]] = std::max({1, warps[p.role[i]], graph.nodes[i].warps});
  std::int64_t groups = 0, sum = 0;
  for (const auto& [role, count] : warps) groups += (count + m.warps_per_group - 1) / m.warps_per_group;
  const std::int64_t share = std::min(
      most, m.registers / (std::int64_t{m.warps_per_group} * m.warp_size * groups) / m.register_step * m.register_step);
  for (const auto& [role, count] : warps) {
    std::vector<std::int64_t> amount;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      amount.push_back(p.role[i] == role ? graph.nodes[i].registers : 0);
    const std::int64_t need = fullest_slot(graph, p, amount);
    if (need > (m.register_roles ? most : share)) return false;
    sum += std::max<std::int64_t>(24, (need + m.register_step - 1) / m.register_step * m.register_step) *
           ((count + m.warps_per_group - 1) / m.warps_per_group);
  }
  return !m.register_roles || (share >= 24 && sum <= share * groups);
}

inline bool memory_holds(const graph::Graph& graph, const Placement& p) {
  for (const auto& [space, capacity] : graph.machine.memory_bytes) {
    std::vector<std::int64_t> amount;
    for (const auto& node : graph.nodes)
      amount.push_back(node.memory_bytes.count(space) != 0 ? node.memory_bytes.at(space) : 0);
    if (fullest_slot(graph, p, amount) > capacity) return false;
  }
  return true;
}

inline bool waits_hold(const graph::Graph& graph, const Placement& p) {
  for (const graph::Edge& edge : graph.edges) {
    if (!edge.blocking) continue;
    const int v = edge.dst;
    for (std::size_t o = 0; o < graph.nodes.size(); ++o)
      for (int back = 0; back < graph.nodes[o].cycles && o != spot(v) && p.role[o] == p.role[spot(v)]; ++back)
        if ((p.cycle[spot(v)] - back - p.cycle[o]) % p.ii == 0) return false;
  }
  return true;
}

inline bool kinds_hold(const graph::Graph& graph, const Placement& p) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (p.role[i] == p.role[k] && by_itself(graph.nodes[i]) != by_itself(graph.nodes[k])) return false;
  return true;
}

inline bool copies_hold(const graph::Graph& graph, const Placement& p) {
  for (std::size_t i = 0; i < graph.nodes.size() && p.copies_apart; ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (p.role[i] == p.role[k] && graph.nodes[i].copy != graph.nodes[k].copy && !by_itself(graph.nodes[i]) &&
          !by_itself(graph.nodes[k]))
        return false;
  return true;
}

/// The first constraint that does not hold; empty when all do.
inline std::string joint_violation(const graph::Graph& graph, const Placement& p) {
  for (const graph::Edge& edge : graph.edges)
    if (!edge_holds(p, edge)) return support::cat("edge ", edge.src, " -> ", edge.dst);
  if (!units_hold(graph, p)) return "unit";
  if (!kinds_hold(graph, p)) return "kinds of roles";
  if (!copies_hold(graph, p)) return "copies";
  if (!waits_hold(graph, p)) return "concurrency";
  if (!memory_holds(graph, p)) return "memory";
  if (!registers_hold(graph, p)) return "registers";
  return "";
}

/// Bytes that go from role to role: once for each node and role that reads it. For graphs without values.
inline std::int64_t sent_bytes(const graph::Graph& graph, const Placement& p) {
  std::map<std::pair<int, int>, std::int64_t> sent;
  for (const graph::Edge& edge : graph.edges) {
    if (p.role[spot(edge.src)] == p.role[spot(edge.dst)]) continue;
    const graph::Node& node = graph.nodes[spot(edge.src)];
    std::int64_t bytes = 0;
    for (const auto& [space, each] : node.memory_bytes) bytes += each;
    if (node.memory_bytes.empty()) bytes = std::int64_t{4} * node.registers * node.warps * graph.machine.warp_size;
    sent[{edge.src, p.role[spot(edge.dst)]}] = bytes;
  }
  std::int64_t sum = 0;
  for (const auto& [key, bytes] : sent) sum += bytes;
  return sum;
}

}  // namespace tj::test
