// What the modulo search sees: the iteration nodes of a graph, renumbered, with the delays that count.
//
// Decides which delays count (streaming option, spills between roles, ring slots that are reused). Knows no search.
// Invariant: every edge joins two nodes of `node`, and any cycles that satisfy edges and units are a legal schedule.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

struct Problem {
  std::vector<int> node;                               ///< graph index of each local node
  std::vector<std::string> name;
  std::vector<int> length;                             ///< max(1, latency)
  std::vector<std::vector<graph::Reservation>> uses;   ///< per node, empty rows left out
  std::vector<graph::Unit> units;
  std::vector<graph::Edge> edges;                      ///< src and dst are local
  int max_stages = 0;                                  ///< 0: any
  int size() const { return static_cast<int>(node.size()); }
};

/// Slots that a ring may have, per graph value; 0: no limit.
using SlotCaps = std::vector<int>;

/// A streaming load whose latency counts as 0: variable latency, streaming, and nothing before it in the iteration.
bool counts_as_latency_zero(const graph::Graph& graph, int node, const Options& options);

/// `role` per graph node decides which edges pay their spill. With `strict`, a slot that an asynchronous matrix node reads
/// counts as free only when the node that waits for it issues, not yet when the reader's latency has passed.
Problem make_problem(const graph::Graph& graph, const std::vector<int>& role, const SlotCaps& caps, bool strict, const Options& options);

}  // namespace tj::sched
