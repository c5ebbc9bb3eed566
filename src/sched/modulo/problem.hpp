// The problem of the modulo search: the iteration nodes of a graph, renumbered, with the delays that count.
//
// Decides which delays count (streaming option, spills between roles, ring slots that are reused). Knows no search.
// Invariant: every edge joins two nodes of `node`, and any cycles that satisfy edges and units are a legal schedule.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

struct Problem {
  std::vector<int> node;  ///< graph index of each local node
  std::vector<std::string> name;
  std::vector<int> length;                            ///< max(1, latency)
  std::vector<std::vector<graph::Reservation>> uses;  ///< per node, empty rows left out
  std::vector<graph::Unit> units;
  int shared_units = 0, sharers = 1;  ///< the first units are an SM's, and so many blocks run on it side by side
  std::vector<graph::Edge> edges;     ///< src and dst are local
  int max_stages = 0;                 ///< 0: any
  int size() const { return static_cast<int>(node.size()); }
};

/// Slots that a ring may have, per graph value; 0: no limit.
using SlotCaps = std::vector<int>;

/// A streaming load whose latency counts as 0: variable latency, streaming, and nothing before it in the iteration.
bool counts_as_latency_zero(const graph::Graph& graph, int node, const Options& options);

/// Adds one unit for each holder whose nodes hold their warps (Node::warp_cycles); `holder` per graph node is an index
/// into `names`, or -1.
void hold_warps(const graph::Graph& graph, const std::vector<int>& holder, const std::vector<std::string>& names,
                Problem& problem);

/// Facts that are certain about two graph nodes while roles are not all decided.
struct Sharing {
  std::function<bool(int, int)> same;   ///< they share a role
  std::function<bool(int, int)> apart;  ///< they do not
  bool inside = false;                  ///< a value has slots that are filled again also where they share one
};

/// Edges for slots that are filled again when their readers are done: from reader back to producer, `caps` iterations
/// on. Only values that are certain to have slots get them. `local` gives the nodes' numbers, -1 for those without.
std::vector<graph::Edge> reuse_edges(const graph::Graph& graph, const Sharing& sharing, const SlotCaps& caps,
                                     bool strict, const std::vector<int>& local);

/// `role` per graph node decides which edges pay their spill. With `strict`, a slot that an asynchronous matrix node
/// reads is free only when the node that waits for it issues. Without, it is free when the reader's latency has passed.
Problem make_problem(const graph::Graph& graph, const std::vector<int>& role, const SlotCaps& caps, bool strict,
                     const Options& options);

}  // namespace tj::sched
