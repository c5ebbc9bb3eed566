// Lifetimes, memory and depth (see rings.hpp).
#include "sched/rings.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

#include "graph/lifetimes.hpp"
#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/reservations.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Scope;

constexpr std::int64_t kBarrierBytes = 16;  ///< a full and an empty barrier for each slot

bool crosses(const Schedule& schedule, const Edge& edge) {
  return edge.value >= 0 && schedule.role[at(edge.src)] != schedule.role[at(edge.dst)];
}

/// Per value: does it cross roles, or is it in shared memory all the same?
std::vector<bool> ring_values(const Graph& graph, const Schedule& schedule) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Edge& edge : graph.edges)
    if (crosses(schedule, edge) || (schedule.mixed_roles && edge.value >= 0)) result[at(edge.value)] = true;
  return result;
}

/// When the role of asynchronous node `reader` (iteration 0) has seen its completion. A role looks only where one of
/// its nodes waits. A wait for a younger group of the role has waited for this one too.
std::int64_t observed(const Graph& graph, const Schedule& schedule, int reader) {
  const std::int64_t ii = schedule.ii;
  const std::int64_t done = std::int64_t{schedule.cycle[at(reader)]} + graph.nodes[at(reader)].latency;
  const auto& order = schedule.roles[at(schedule.role[at(reader)])].nodes;
  std::int64_t first_look = -1;
  for (const Edge& edge : graph.edges) {
    const bool waits = edge.blocking && graph.nodes[at(edge.src)].async == Async::matrix &&
                       graph.nodes[at(edge.dst)].scope == Scope::iteration &&
                       graph.nodes[at(edge.src)].scope == Scope::iteration &&
                       schedule.role[at(edge.src)] == schedule.role[at(reader)] &&
                       schedule.role[at(edge.dst)] == schedule.role[at(reader)];
    if (!waits) continue;
    // The first instance of the group's node that is not older than the reader.
    const std::int64_t ahead = std::int64_t{schedule.cycle[at(reader)]} - schedule.cycle[at(edge.src)];
    const std::int64_t instance = edge.src == reader ? 0 : (ahead > 0 ? (ahead + ii - 1) / ii : -(-ahead / ii));
    // The wait begins when the role has finished the node before the waiting one.
    const auto place = std::find(order.begin(), order.end(), edge.dst);
    std::int64_t look = schedule.cycle[at(edge.dst)] + (instance + edge.distance) * ii;
    if (place != order.end()) {
      const std::ptrdiff_t index = place - order.begin();
      std::ptrdiff_t previous = index - 1;
      std::ptrdiff_t count = 0;
      while (count < static_cast<std::ptrdiff_t>(order.size()) &&
             graph.nodes[at(order[static_cast<std::size_t>(count)])].scope == Scope::iteration)
        ++count;
      if (previous < 0) previous = count - 1;
      const int before = order[static_cast<std::size_t>(previous)];
      const std::int64_t gap = modulo(schedule.cycle[at(edge.dst)] - schedule.cycle[at(before)], schedule.ii);
      const std::int64_t issue = look - (before == edge.dst ? ii : gap);
      look = std::min(look, issue + graph.nodes[at(before)].cycles);
    }
    if (first_look < 0 || look < first_look) first_look = look;
  }
  return std::max(done, first_look);
}

/// When the role of a bulk store has seen that it has read its slot, in a ring of several slots. The role is one group
/// behind, so this is after its next store. A ring of one slot is waited for at once, which takes the node's latency.
std::int64_t stored(const Graph& graph, const Schedule& schedule, int reader) {
  const std::int64_t ii = schedule.ii, issue = schedule.cycle[at(reader)];
  std::int64_t next = issue + ii;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& other = graph.nodes[i];
    if (static_cast<int>(i) == reader || other.async != Async::store || other.scope != Scope::iteration ||
        schedule.role[i] != schedule.role[at(reader)])
      continue;
    const std::int64_t since = modulo(schedule.cycle[i] - issue, schedule.ii);
    next = std::min(next, issue + (since == 0 ? ii : since));  // the order of two at one cycle is not decided yet
  }
  return std::max(issue + graph.nodes[at(reader)].latency, next + graph.nodes[at(reader)].cycles);
}

std::set<int> readers(const Graph& graph, std::size_t value) {
  std::set<int> nodes;
  for (const Edge& edge : graph.edges)
    if (edge.value == static_cast<int>(value)) nodes.insert(edge.dst);
  return nodes;
}
template <class Test>
bool any_value(const Graph& graph, const Test& test) {
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (test(v)) return true;
  return false;
}

}  // namespace

SlotCaps slot_caps(const Graph& graph, const Options& options) {
  SlotCaps caps;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    if (value.scope != Scope::iteration) {
      caps.push_back(0);
      continue;
    }
    if (options.max_slots > 0 && options.max_slots < value.min_slots)
      support::fail(Stage::schedule, Code::invalid_argument,
                    support::cat("max_slots is ", options.max_slots, ", but value '", value.name, "' of graph '",
                                 graph.name, "' needs at least ", value.min_slots, "; use 0 or at least that"));
    const int most = graph::alternates(graph, static_cast<int>(v)) ? 1 : value.max_slots;
    caps.push_back(options.max_slots > 0 ? std::min(options.max_slots, most) : most);
  }
  return caps;
}

std::vector<int> slots_needed(const Graph& graph, const Schedule& schedule) {
  std::vector<int> slots;
  for (const graph::Value& value : graph.values) slots.push_back(value.min_slots);
  for (const Edge& edge : graph.edges) {
    if (edge.value < 0 || graph.values[at(edge.value)].scope != Scope::iteration) continue;
    if (graph.nodes[at(edge.src)].scope != Scope::iteration || graph.nodes[at(edge.dst)].scope != Scope::iteration)
      continue;
    const graph::Node& reader = graph.nodes[at(edge.dst)];
    // In the role that writes the value, what fills the slot again waits for the reader itself.
    const bool inside = schedule.role[at(edge.src)] == schedule.role[at(edge.dst)];
    std::int64_t end =
        std::int64_t{schedule.cycle[at(edge.dst)]} + (inside ? std::max(1, reader.latency) : reader.latency);
    if (reader.async == Async::matrix && !inside) end = observed(graph, schedule, edge.dst);
    const bool one_slot = slots[at(edge.value)] == 1 &&
                          end + std::int64_t{edge.distance} * schedule.ii - schedule.cycle[at(edge.src)] <= schedule.ii;
    if (reader.async == Async::store && !inside && !one_slot) end = stored(graph, schedule, edge.dst);
    end += std::int64_t{edge.distance} * schedule.ii;
    const std::int64_t lifetime = end - schedule.cycle[at(edge.src)];
    const auto need = static_cast<int>((lifetime + schedule.ii - 1) / schedule.ii);
    slots[at(edge.value)] = std::max(slots[at(edge.value)], need);
  }
  // Who fills a place after others begins when they are known to be done; else each value needs a place of its own.
  for (const Edge& order : graph::place_edges(graph)) {
    if (graph.nodes[at(order.src)].async != Async::matrix ||
        schedule.role[at(order.src)] == schedule.role[at(order.dst)])
      continue;
    if (observed(graph, schedule, order.src) <=
        schedule.cycle[at(order.dst)] + std::int64_t{order.distance} * schedule.ii)
      continue;
    for (const Edge& read : graph.edges)
      if (read.dst == order.src && read.value >= 0 && graph::alternates(graph, read.value))
        slots[at(read.value)] = std::max(slots[at(read.value)], 2);
  }
  return slots;
}

std::int64_t ring_bytes(const Graph& graph, const Schedule& schedule, const std::vector<int>& slots) {
  const std::vector<bool> is_ring = ring_values(graph, schedule);
  std::vector<int> of_rings = slots;
  for (std::size_t v = 0; v < of_rings.size(); ++v)
    if (!is_ring[v]) of_rings[v] = 0;
  std::int64_t bytes = graph::place_values(graph, of_rings).bytes;
  if (!graph.machine.shared_barriers) return bytes;
  bytes = (bytes + kBarrierBytes - 1) / kBarrierBytes * kBarrierBytes;
  for (const int each : of_rings) bytes += kBarrierBytes * each;
  return bytes;
}

std::int64_t ring_capacity(const Graph& graph) {
  const auto found = graph.machine.memory_bytes.find("SMEM");
  return found == graph.machine.memory_bytes.end()
             ? -1
             : std::max<std::int64_t>(0, found->second - graph::walk_bytes(graph));
}

std::vector<int> shrink_to_fit(const Graph& graph, const Schedule& schedule, std::vector<int> slots) {
  const std::int64_t capacity = ring_capacity(graph);
  const std::vector<bool> is_ring = ring_values(graph, schedule);
  while (capacity >= 0 && ring_bytes(graph, schedule, slots) > capacity) {
    int deepest = -1;
    for (std::size_t v = 0; v < slots.size(); ++v) {
      if (!is_ring[v] || graph.values[v].scope != Scope::iteration || slots[v] <= graph.values[v].min_slots) continue;
      if (deepest < 0 || slots[v] > slots[at(deepest)]) deepest = static_cast<int>(v);
    }
    if (deepest < 0)
      support::fail(Stage::schedule, Code::unsupported,
                    support::cat("graph '", graph.name, "': the rings need at least ",
                                 ring_bytes(graph, schedule, slots), " bytes of SMEM, machine '", graph.machine.name,
                                 "' has ", capacity, "; use a smaller tile or fewer slots"));
    --slots[at(deepest)];
  }
  return slots;
}

void make_rings(const Graph& graph, const std::vector<int>& slots, const SlotCaps& caps, Schedule& schedule) {
  schedule.rings.clear();
  const std::int64_t capacity = ring_capacity(graph);
  std::vector<int> depth = slots;
  std::vector<bool> streams(graph.values.size(), false);
  const std::vector<bool> is_ring = ring_values(graph, schedule);
  for (const Edge& edge : graph.edges)
    if (edge.value >= 0 && graph.nodes[at(edge.src)].streaming && caps[at(edge.value)] > 0 && is_ring[at(edge.value)])
      streams[at(edge.value)] = true;
  // Rings of one level and one reader together: a ring deeper than its sisters hides nothing more. The shallowest
  // first.
  const auto deepens = [&](std::size_t v) { return streams[v] && depth[v] < caps[v]; };
  while (capacity >= 0) {
    std::vector<int> more = depth;
    for (std::size_t v = 0; v < depth.size() && more == depth; ++v) {
      const auto shallower = [&](std::size_t other) { return deepens(other) && depth[other] < depth[v]; };
      if (!deepens(v) || any_value(graph, shallower)) continue;
      for (std::size_t other = 0; other < depth.size(); ++other)
        if (deepens(other) && depth[other] == depth[v] && readers(graph, other) == readers(graph, v)) ++more[other];
      if (ring_bytes(graph, schedule, more) > capacity) more = depth;
    }
    if (more == depth) break;
    depth = std::move(more);
  }
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!is_ring[v]) continue;
    Ring ring;
    ring.value = static_cast<int>(v);
    ring.slots = depth[v];
    for (const Edge& edge : graph.edges) {
      if (edge.value != ring.value) continue;
      ring.producer_role = schedule.role[at(edge.src)];
      const int reader = schedule.role[at(edge.dst)];
      if ((reader != ring.producer_role || schedule.mixed_roles) &&
          std::find(ring.consumer_roles.begin(), ring.consumer_roles.end(), reader) == ring.consumer_roles.end())
        ring.consumer_roles.push_back(reader);
    }
    std::sort(ring.consumer_roles.begin(), ring.consumer_roles.end());
    schedule.rings.push_back(std::move(ring));
  }
}

void delay_copies(const Problem& problem, const Graph& graph, int ii, std::vector<int>& cycle) {
  ReservationTable table(problem, ii);
  int end = 0;
  for (int i = 0; i < problem.size(); ++i) {
    table.add(i, cycle[at(i)]);
    end = std::max(end, cycle[at(i)] + problem.length[at(i)]);
  }
  std::vector<int> copies;
  for (int i = 0; i < problem.size(); ++i)
    if (const Async async = graph.nodes[at(problem.node[at(i)])].async; async == Async::copy || async == Async::threads)
      copies.push_back(i);
  std::sort(copies.begin(), copies.end(),
            [&](int a, int b) { return cycle[at(a)] != cycle[at(b)] ? cycle[at(a)] > cycle[at(b)] : a > b; });
  for (const int copy : copies) {
    std::int64_t latest = end - problem.length[at(copy)];
    if (problem.max_stages > 0) latest = std::min(latest, std::int64_t{problem.max_stages} * ii - 1);
    for (const Edge& edge : problem.edges)
      if (edge.src == copy && edge.dst != copy)
        latest = std::min(latest, cycle[at(edge.dst)] + std::int64_t{edge.distance} * ii - edge.delay);
    table.remove(copy, cycle[at(copy)]);
    std::int64_t chosen = latest;
    while (chosen > cycle[at(copy)]) {
      const int passed = table.blocked_before(copy, static_cast<int>(chosen));
      if (passed == 0) break;
      chosen -= passed;
    }
    cycle[at(copy)] = static_cast<int>(std::max<std::int64_t>(chosen, cycle[at(copy)]));
    table.add(copy, cycle[at(copy)]);
  }
}

}  // namespace tj::sched
