// Graph -> Problem (see problem.hpp).
#include "sched/modulo/problem.hpp"
#include "graph/lifetimes.hpp"
#include "support/index.hpp"

#include <algorithm>
#include <cstddef>

namespace tj::sched {
namespace {

using support::at;

/// The same-role node that first waits for an asynchronous reader, as an edge from the reader; null when none does.
const graph::Edge* first_waiter(const graph::Graph& graph, const Sharing& sharing, int reader) {
  const graph::Edge* first = nullptr;
  for (const graph::Edge& edge : graph.edges) {
    if (edge.src != reader || edge.dst == reader || !edge.blocking ||
        graph.nodes[at(edge.dst)].scope != graph::Scope::iteration)
      continue;
    if (!sharing.same(edge.dst, reader)) continue;
    if (!first || edge.distance < first->distance || (edge.distance == first->distance && edge.delay < first->delay))
      first = &edge;
  }
  return first;
}

}  // namespace

std::vector<graph::Edge> reuse_edges(const graph::Graph& graph, const Sharing& sharing, const SlotCaps& caps,
                                     bool strict, const std::vector<int>& local) {
  std::vector<graph::Edge> edges;
  for (const graph::Edge& read : graph.edges) {
    if (read.value < 0 || caps[at(read.value)] == 0 || local[at(read.src)] < 0 || local[at(read.dst)] < 0) continue;
    if (graph.values[at(read.value)].scope != graph::Scope::iteration ||
        !(sharing.inside || sharing.apart(read.src, read.dst)))
      continue;
    const graph::Node& reader = graph.nodes[at(read.dst)];
    graph::Edge reuse;
    reuse.src = local[at(read.dst)];
    reuse.dst = local[at(read.src)];
    reuse.delay = sharing.inside ? std::max(1, reader.latency)
                                 : reader.latency;  // in one role, what fills it again comes after the reader
    reuse.distance = caps[at(read.value)] - read.distance;
    edges.push_back(reuse);
    // In one role, what fills the slot again waits for the reader itself.
    if (!strict || reader.async != graph::Async::matrix || !sharing.apart(read.src, read.dst)) continue;
    if (const graph::Edge* waiter = first_waiter(graph, sharing, read.dst)) {
      reuse.src = local[at(waiter->dst)];
      reuse.delay = 0;
      reuse.distance -= waiter->distance;
      edges.push_back(reuse);
    }
  }
  return edges;
}

void hold_warps(const graph::Graph& graph, const std::vector<int>& holder, const std::vector<std::string>& names,
                Problem& problem) {
  std::vector<int> unit_of(names.size(), -1);
  for (int i = 0; i < problem.size(); ++i) {
    const int node = problem.node[at(i)], by = holder[at(node)], cycles = graph.nodes[at(node)].warp_cycles;
    if (by < 0 || cycles <= 0) continue;
    int& unit = unit_of[at(by)];
    if (unit < 0) {
      unit = static_cast<int>(problem.units.size());
      problem.units.push_back({names[at(by)], 1});
    }
    problem.uses[at(i)].push_back({unit, 0, cycles, 1});
  }
}

bool counts_as_latency_zero(const graph::Graph& graph, int node, const Options& options) {
  const graph::Node& n = graph.nodes[at(node)];
  if (!options.streaming_latency_zero || !n.variable_latency || !n.streaming) return false;
  return std::none_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
    return edge.dst == node && graph.nodes[at(edge.src)].scope == graph::Scope::iteration;
  });
}

Problem make_problem(const graph::Graph& graph, const std::vector<int>& role, const SlotCaps& caps, bool strict,
                     const Options& options) {
  Problem problem;
  problem.units = graph.machine.units;
  problem.shared_units = static_cast<int>(problem.units.size());
  problem.sharers = graph.blocks_per_sm;
  problem.max_stages = options.max_stages;
  std::vector<int> local(graph.nodes.size(), -1);
  std::vector<bool> zero(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (node.scope != graph::Scope::iteration) continue;
    local[i] = problem.size();
    zero[i] = counts_as_latency_zero(graph, static_cast<int>(i), options);
    problem.node.push_back(static_cast<int>(i));
    problem.name.push_back(node.name);
    problem.length.push_back(zero[i] ? 1 : std::max(1, node.latency));
    problem.uses.emplace_back();
    for (const graph::Reservation& use : node.reservations)
      if (use.cycles > 0 && use.count > 0) problem.uses.back().push_back(use);
  }
  std::vector<graph::Edge> edges = graph.edges;
  for (const graph::Edge& order : graph::place_edges(graph)) edges.push_back(order);
  for (graph::Edge edge : edges) {
    if (local[at(edge.src)] < 0 || local[at(edge.dst)] < 0) continue;
    if (zero[at(edge.src)]) edge.delay = 0;
    if (role[at(edge.src)] != role[at(edge.dst)]) edge.delay += edge.spill_cycles;
    edge.src = local[at(edge.src)];
    edge.dst = local[at(edge.dst)];
    problem.edges.push_back(edge);
  }
  const Sharing sharing{[&](int a, int b) { return role[at(a)] == role[at(b)]; },
                        [&](int a, int b) { return role[at(a)] != role[at(b)]; }, options.mixed_roles};
  for (graph::Edge& reuse : reuse_edges(graph, sharing, caps, strict, local)) problem.edges.push_back(reuse);
  return problem;
}

}  // namespace tj::sched
