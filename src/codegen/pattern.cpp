// The repeating step of a role (see timeline.hpp).
//
// Decides how many steps are peeled before and after it: the fewest with which the repeating step gives the simulated
// events of every trip count.
#include <algorithm>
#include <tuple>
#include <utility>

#include "codegen/timeline.hpp"
#include "support/fail.hpp"

namespace tj::codegen {

using graph::Async;
using graph::Edge;
using graph::Graph;
using graph::Scope;
using sched::Schedule;

namespace {

bool matches(const Pattern& pattern, const Timeline& timeline, int n) {
  const auto un = static_cast<std::size_t>(n), peel = static_cast<std::size_t>(pattern.peel);
  for (std::size_t s = 0; s < peel; ++s)
    if (timeline.steps[s] != pattern.prologue[s]) return false;
  for (std::size_t s = peel; s < un; ++s)
    if (relative(timeline.steps[s], static_cast<int>(s)) != pattern.steady) return false;
  if (timeline.steps.size() - un != pattern.drain.size()) return false;
  for (std::size_t s = 0; s < pattern.drain.size(); ++s)
    if (relative(timeline.steps[un + s], n) != pattern.drain[s]) return false;
  const auto [before, after] = split_end(timeline.tile_end, n);
  return before == pattern.drain_end && after == pattern.tile_end && timeline.tile_begin == pattern.tile_begin;
}

}  // namespace

int role_stage(const Graph& graph, const Schedule& schedule, int node) {
  const int role = schedule.role[static_cast<std::size_t>(node)];
  int first = schedule.step_stage(node);
  for (int other : schedule.roles[static_cast<std::size_t>(role)].nodes)
    if (graph.nodes[static_cast<std::size_t>(other)].scope == Scope::iteration)
      first = std::min(first, schedule.step_stage(other));
  return schedule.step_stage(node) - first;
}

std::vector<Event> relative(std::vector<Event> events, int origin) {
  for (Event& event : events)
    if (event.iteration >= 0) event.iteration -= origin;
  return events;
}

// Tile-scope instances carry -1, which a relative iteration may equal. So the end is split before the first tile-scope
// call or release; the first part is relative to n.
std::pair<std::vector<Event>, std::vector<Event>> split_end(const std::vector<Event>& end, int trip_count) {
  std::vector<Event> before, after;
  for (const Event& event : end) {
    const bool loop_part = after.empty() && (event.iteration >= 0 || event.kind == EventKind::matrix_wait);
    (loop_part ? before : after).push_back(event);
  }
  return {relative(before, trip_count), after};
}

Pattern find_pattern(const Graph& graph, const Schedule& schedule, int role) {
  int last_stage = 0;
  for (int node : schedule.roles[static_cast<std::size_t>(role)].nodes)
    if (graph.nodes[static_cast<std::size_t>(node)].scope == Scope::iteration)
      last_stage = std::max(last_stage, role_stage(graph, schedule, node));
  int last_distance = 0;  // waits reach back so far; the first steps cannot
  for (const Edge& edge : graph.edges)
    if ((edge.blocking || edge.value >= 0) && schedule.role[static_cast<std::size_t>(edge.dst)] == role)
      last_distance = std::max(last_distance, edge.distance);
  for (int node :
       schedule.roles[static_cast<std::size_t>(role)].nodes)  // a group of stores is waited for behind the next
    if (graph.nodes[static_cast<std::size_t>(node)].async == Async::store) last_distance = std::max(last_distance, 1);
  for (const sched::Ring& ring : schedule.rings)  // and so do those for the role's own reads
    if (ring.producer_role == role) last_distance = std::max(last_distance, ring.slots);
  for (int peel = last_stage; peel <= 2 * last_stage + 2 + last_distance; ++peel) {
    const int n = peel + 3;
    const Timeline sample = simulate(graph, schedule, role, n);
    Pattern pattern;
    pattern.peel = peel;
    pattern.tile_begin = sample.tile_begin;
    pattern.prologue.assign(sample.steps.begin(), sample.steps.begin() + peel);
    if (!sample.steps.empty()) pattern.steady = relative(sample.steps[static_cast<std::size_t>(n) - 1], n - 1);
    for (std::size_t s = static_cast<std::size_t>(n); s < sample.steps.size(); ++s)
      pattern.drain.push_back(relative(sample.steps[s], n));
    std::tie(pattern.drain_end, pattern.tile_end) = split_end(sample.tile_end, n);
    bool right = true;
    for (int trial = peel; right && trial <= n + 2; ++trial)
      right =
          trial == 0 ? peel > 0 || last_stage == 0 : matches(pattern, simulate(graph, schedule, role, trial), trial);
    if (!right) continue;
    for (int shorter = 0; shorter < peel; ++shorter)
      pattern.shorter.push_back(simulate(graph, schedule, role, shorter));
    const std::vector<Event> none = simulate(graph, schedule, role, 0).tile_end;
    if (none.size() >= pattern.tile_end.size())
      pattern.without.assign(none.begin(), none.end() - static_cast<std::ptrdiff_t>(pattern.tile_end.size()));
    return pattern;
  }
  support::fail(Stage::codegen, Code::internal,
                support::cat("role '", schedule.roles[static_cast<std::size_t>(role)].name, "' of '", graph.name,
                             "' has no repeating step; verify the schedule"));
}

}  // namespace tj::codegen
