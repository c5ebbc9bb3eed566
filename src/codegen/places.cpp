// See places.hpp.
#include "codegen/places.hpp"

#include <algorithm>
#include <cstddef>

#include "codegen/layout.hpp"
#include "codegen/readers.hpp"
#include "graph/lifetimes.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::codegen {
namespace {

using support::at;

using graph::Async;
using graph::Edge;
using graph::Scope;

/// Sharings of a value whose other one has a ring, too.
std::vector<graph::Sharing> sharings_of(const graph::Graph& graph, const sched::Schedule& schedule, int value) {
  std::vector<graph::Sharing> found;
  for (const graph::Sharing& sharing : graph::sharings(graph))
    if ((sharing.first == value || sharing.second == value) && ring_of(schedule, sharing.other(value)) >= 0)
      found.push_back(sharing);
  return found;
}

bool filled_by_copies(const graph::Graph& graph, int value, bool bulk) {
  return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const Edge& edge) {
    const Async async = graph.nodes[at(edge.src)].async;
    return edge.value == value && (async == Async::copy || (!bulk && async == Async::threads));
  });
}

bool fills(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value) {
  return std::any_of(graph.edges.begin(), graph.edges.end(),
                     [&](const Edge& edge) { return edge.value == value && schedule.role[at(edge.src)] == role; });
}

}  // namespace

std::vector<Before> before_filling(const graph::Graph& graph, const sched::Schedule& schedule, int value) {
  std::vector<Before> found;
  for (const graph::Sharing& sharing : sharings_of(graph, schedule, value)) {
    const bool behind = sharing.second == value;
    if (behind || sharing.every_iteration || graph.walks())
      found.push_back({ring_of(schedule, sharing.other(value)), sharing.every_iteration, behind});
  }
  return found;
}

Before before_of(const graph::Graph& graph, const sched::Schedule& schedule, int node, int ring) {
  for (const Edge& edge : graph.edges)
    if (edge.src == node && edge.value >= 0)
      for (const Before& before : before_filling(graph, schedule, edge.value))
        if (before.ring == ring) return before;
  support::fail(Stage::codegen, Code::internal,
                support::cat("node '", graph.nodes[at(node)].name, "' fills no place that ring ", ring, " has had"));
}

bool followed(const graph::Graph& graph, const sched::Schedule& schedule, int value) {
  const std::vector<graph::Sharing> all = sharings_of(graph, schedule, value);
  return std::any_of(all.begin(), all.end(), [&](const graph::Sharing& sharing) { return sharing.first == value; });
}

bool replaced_by_copies(const graph::Graph& graph, const sched::Schedule& schedule, int value, bool bulk) {
  bool always_by_other = false, found = false;
  for (const graph::Sharing& sharing : sharings_of(graph, schedule, value)) {
    // A smaller value leaves some of the place, and the own copies fill that next.
    always_by_other |= sharing.every_iteration &&
                       graph.values[at(sharing.other(value))].slot_bytes >= graph.values[at(value)].slot_bytes;
    if (sharing.first == value || sharing.every_iteration || graph.walks())
      found |= filled_by_copies(graph, sharing.other(value), bulk);
  }
  const bool by_own = !always_by_other && !filled_once(graph, graph.values[at(value)]);
  return found || (by_own && filled_by_copies(graph, value, bulk));
}

void refuse_lost_turns(const graph::Graph& graph, const sched::Schedule& schedule) {
  for (const sched::Ring& ring : schedule.rings)
    for (const Before& before : before_filling(graph, schedule, ring.value)) {
      const int other = schedule.rings[at(before.ring)].value;
      const graph::Value &own = graph.values[at(ring.value)], &there = graph.values[at(other)];
      if (before.every_iteration || there.scope != Scope::iteration) continue;  // waits for each filling in turn
      if (role_reads(graph, schedule, ring.producer_role, other) || fills(graph, schedule, ring.producer_role, other))
        continue;
      support::fail(
          Stage::codegen, Code::unsupported,
          support::cat("values '", own.name, "' and '", there.name, "' have one place, and role '",
                       schedule.roles[at(ring.producer_role)].name, "', which fills '", own.name,
                       "', neither reads nor fills '", there.name,
                       "', so that it could not tell its fillings apart; give '", own.name, "' a place of its own"));
    }
}

}  // namespace tj::codegen
