// ResMII and RecMII (see mii.hpp).
#include "sched/modulo/mii.hpp"

#include <algorithm>
#include <cstdint>

#include "graph/cycles.hpp"
#include "support/fail.hpp"

namespace tj::sched {
namespace {

using support::cat;

// Blocks side by side take an SM's units from each other. The schedule does not say which block has a unit when, but in
// an interval the unit serves all of them.
std::int64_t sharers_of(const Problem& problem, int unit) { return unit < problem.shared_units ? problem.sharers : 1; }

std::string unit_reason(const Problem& problem, int unit, std::int64_t total) {
  std::string parts;
  int shown = 0;
  for (int i = 0; i < problem.size(); ++i) {
    std::int64_t held = 0;
    for (const graph::Reservation& use : problem.uses[static_cast<std::size_t>(i)])
      if (use.unit == unit) held += std::int64_t{use.cycles} * use.count;
    if (held == 0) continue;
    if (++shown <= 12) parts += cat(parts.empty() ? "" : " + ", problem.name[static_cast<std::size_t>(i)], " ", held);
  }
  if (shown > 12) parts += cat(" + ", shown - 12, " more");
  const graph::Unit& info = problem.units[static_cast<std::size_t>(unit)];
  std::string text = cat("unit ", info.name, " holds ", parts, " = ", total, " cycles an iteration");
  if (info.capacity > 1) text += cat(" over ", info.capacity, " instances");
  if (sharers_of(problem, unit) > 1) text += cat(", for each of ", problem.sharers, " blocks of an SM");
  return text;
}

/// What a cycle of edges asks for, in names as well.
void take_cycle(const Problem& problem, const std::vector<int>& cycle, Bound& bound) {
  std::string path;
  for (const int e : cycle) {
    const graph::Edge& edge = problem.edges[static_cast<std::size_t>(e)];
    path += problem.name[static_cast<std::size_t>(edge.src)] + " -> ";
    bound.nodes.push_back(edge.src);
    bound.delay += edge.delay;
    bound.distance += edge.distance;
  }
  bound.reason = cat("recurrence ", path, problem.name[static_cast<std::size_t>(bound.nodes.front())], " takes ",
                     bound.delay, " cycles over distance ", bound.distance);
}

}  // namespace

Bound resource_bound(const Problem& problem) {
  Bound bound;
  for (int unit = 0; unit < static_cast<int>(problem.units.size()); ++unit) {
    std::int64_t total = 0;
    for (const auto& uses : problem.uses)
      for (const graph::Reservation& use : uses)
        if (use.unit == unit) total += std::int64_t{use.cycles} * use.count;
    const int capacity = problem.units[static_cast<std::size_t>(unit)].capacity;
    const int needed = static_cast<int>((total * sharers_of(problem, unit) + capacity - 1) / capacity);
    if (total > 0 && (needed > bound.ii || bound.reason.empty())) {
      bound.ii = std::max(bound.ii, needed);
      bound.reason = unit_reason(problem, unit, total);
    }
  }
  if (bound.reason.empty()) bound.reason = "no unit is used; an initiation interval is at least 1";
  return bound;
}

Bound recurrence_bound(const Problem& problem) {
  Bound bound;
  const auto cycle_at = [&](std::int64_t ii) { return graph::positive_cycle(problem.size(), problem.edges, ii); };
  std::vector<int> cycle = cycle_at(1);
  if (cycle.empty()) {
    bound.reason = "no recurrence asks for more than 1";
    return bound;
  }
  std::int64_t low = 1, high = 1;  // a positive cycle at low; none at high, once found
  for (const graph::Edge& edge : problem.edges) high += std::max(0, edge.delay);
  if (const std::vector<int> hopeless = cycle_at(high); !hopeless.empty()) {
    bound.impossible = true;
    take_cycle(problem, hopeless, bound);
    return bound;
  }
  // Each positive cycle found names an II below which it stays positive: jump there instead of halving blindly.
  while (low + 1 < high) {
    std::int64_t delay = 0, distance = 0;
    for (const int e : cycle) {
      delay += problem.edges[static_cast<std::size_t>(e)].delay;
      distance += problem.edges[static_cast<std::size_t>(e)].distance;
    }
    const std::int64_t next = (delay + distance - 1) / distance;
    std::vector<int> found = cycle_at(next);
    if (found.empty()) {
      high = next;
      low = next - 1;
    } else {
      low = next;
      cycle = std::move(found);
    }
  }
  bound.ii = static_cast<int>(high);
  take_cycle(problem, cycle, bound);
  return bound;
}

}  // namespace tj::sched
