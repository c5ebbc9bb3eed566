// See family.hpp.
#include "codegen/family.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "codegen/layout.hpp"
#include "codegen/timeline.hpp"

namespace tj::codegen {

using graph::Scope;

namespace {

/// The rings that a node fills, or reads, in the order of the schedule.
std::vector<int> rings_of(const graph::Graph& graph, const sched::Schedule& schedule, int node, bool fills) {
  std::vector<int> rings;
  for (int r = 0; r < static_cast<int>(schedule.rings.size()); ++r)
    if (std::any_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
          return (fills ? edge.src : edge.dst) == node &&
                 edge.value == schedule.rings[static_cast<std::size_t>(r)].value;
        }))
      rings.push_back(r);
  return rings;
}

/// May one text fill or read both, each role its own ring? The second lies right behind the first.
bool rings_alike(const graph::Graph& graph, const sched::Schedule& schedule, int first, int second) {
  const auto &a = schedule.rings[static_cast<std::size_t>(first)],
             &b = schedule.rings[static_cast<std::size_t>(second)];
  const auto &v = graph.values[static_cast<std::size_t>(a.value)], &w = graph.values[static_cast<std::size_t>(b.value)];
  const auto has_guests = [&](int value) {
    return std::any_of(graph.values.begin(), graph.values.end(),
                       [&](const graph::Value& other) { return other.lies_in == value; });
  };
  return second == first + 1 && a.slots == b.slots && v.slot_bytes == w.slot_bytes && v.alignment == w.alignment &&
         v.scope == w.scope && v.space == w.space && v.lies_in == w.lies_in && !has_guests(a.value) &&
         !has_guests(b.value);
}

/// Do two nodes of roles `first` and `second` read the same rings, or each its role's own ring in the same place?
bool reads_alike(const graph::Graph& graph, const sched::Schedule& schedule, int node, int other, int first,
                 int second) {
  const std::vector<int> reads = rings_of(graph, schedule, node, false),
                         also_reads = rings_of(graph, schedule, other, false);
  if (reads.size() != also_reads.size()) return false;
  for (std::size_t r = 0; r < reads.size(); ++r) {
    if (reads[r] == also_reads[r]) continue;
    const int value = schedule.rings[static_cast<std::size_t>(reads[r])].value,
              also = schedule.rings[static_cast<std::size_t>(also_reads[r])].value;
    const bool own = !role_reads(graph, schedule, second, value) && !role_reads(graph, schedule, first, also);
    const graph::Value &v = graph.values[static_cast<std::size_t>(value)],
                       &w = graph.values[static_cast<std::size_t>(also)];
    if (!own || !rings_alike(graph, schedule, reads[r], also_reads[r]) || v.shared_by != w.shared_by ||
        v.shared_stride != w.shared_stride)
      return false;
  }
  return true;
}

/// An in-edge of a node, as its role sees it. It has the place in the role (-1: from another role), how many iterations
/// back, whether the role waits for it, and whether a value flows along.
using Ordering = std::tuple<std::ptrdiff_t, int, bool, bool>;

std::vector<Ordering> orderings_of(const graph::Graph& graph, const sched::Role& role, int node) {
  std::vector<Ordering> found;
  for (const graph::Edge& edge : graph.edges) {
    if (edge.dst != node) continue;
    const auto source = std::find(role.nodes.begin(), role.nodes.end(), edge.src);
    found.emplace_back(source == role.nodes.end() ? -1 : source - role.nodes.begin(), edge.distance, edge.blocking,
                       edge.value >= 0);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool congruent(const graph::Graph& graph, const sched::Schedule& schedule, int first, int second) {
  const auto &a = schedule.roles[static_cast<std::size_t>(first)],
             &b = schedule.roles[static_cast<std::size_t>(second)];
  if (a.warps != b.warps || a.registers != b.registers || a.nodes.size() != b.nodes.size()) return false;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const auto &m = graph.nodes[static_cast<std::size_t>(a.nodes[i])],
               &n = graph.nodes[static_cast<std::size_t>(b.nodes[i])];
    if (m.body != n.body || m.context != n.context || m.scope != n.scope || m.async != n.async || n.copy != m.copy + 1)
      return false;
    if (m.range != n.range) return false;
    if (m.scope == Scope::iteration &&
        role_stage(graph, schedule, a.nodes[i]) != role_stage(graph, schedule, b.nodes[i]))
      return false;
    if (orderings_of(graph, a, a.nodes[i]) != orderings_of(graph, b, b.nodes[i]) ||
        !reads_alike(graph, schedule, a.nodes[i], b.nodes[i], first, second))
      return false;
    if (graph::issued_by_one(m.async)) return false;  // by a thread of the first role alone
    const std::vector<int> fills = rings_of(graph, schedule, a.nodes[i], true),
                           also_fills = rings_of(graph, schedule, b.nodes[i], true);
    if (fills.size() != also_fills.size()) return false;
    for (std::size_t r = 0; r < fills.size(); ++r)
      if (!rings_alike(graph, schedule, fills[r], also_fills[r])) return false;
  }
  for (const auto& barrier : schedule.order_barriers) {
    const auto p = std::find(barrier.roles.begin(), barrier.roles.end(), first),
               q = std::find(barrier.roles.begin(), barrier.roles.end(), second);
    if ((p == barrier.roles.end()) != (q == barrier.roles.end()) || (p != barrier.roles.end() && q != p + 1))
      return false;
    // The threads of a turn are its owner's and its predecessor's: one number for the family only when all are alike.
    if (p != barrier.roles.end() && std::any_of(barrier.roles.begin(), barrier.roles.end(), [&](int r) {
          return schedule.roles[static_cast<std::size_t>(r)].warps != a.warps;
        }))
      return false;
  }
  return true;
}

}  // namespace tj::codegen
