// Order barriers: where the schedule itself makes roles alternate on one unit, the code may hold them to it.
//
// Decides whether a turn can be told by counting alone. Each role's nodes must form one run a step, and all runs must
// execute equally often. The k-th runs of all roles must fit in one period. The first such unit gets a barrier, no
// other. Changes no cycle.
#include <algorithm>
#include <cstddef>
#include <map>

#include "sched/roles.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using graph::Async;
using graph::Graph;

struct Run {
  int role = 0;
  std::vector<int> nodes;   ///< in issue order
  std::vector<int> stages;  ///< relative to the smallest, in that order
  int begin = 0, end = 0;   ///< issue of the first and last node in the earliest step, in cycles
};

// The nodes follow each other within one period that begins at the first; a node's stage counts such periods.
Run make_run(const Schedule& schedule, int role, std::vector<int> nodes) {
  Run run;
  run.role = role;
  const int origin = schedule.cycle[at(nodes.front())] % schedule.ii;
  const auto stage_of = [&](int node) {
    const int since = schedule.cycle[at(node)] - origin;
    return since >= 0 ? since / schedule.ii : (since - schedule.ii + 1) / schedule.ii;
  };
  int least = stage_of(nodes.front());
  for (const int node : nodes) least = std::min(least, stage_of(node));
  for (const int node : nodes) run.stages.push_back(stage_of(node) - least);
  run.begin = least * schedule.ii + origin;
  run.end = schedule.cycle[at(nodes.back())] - run.stages.back() * schedule.ii;
  run.nodes = std::move(nodes);
  return run;
}

/// The asynchronous matrix nodes of a unit, in the order in which a period issues them. Empty when another kind of node
/// uses the unit too: its turn would not be seen.
std::vector<int> users(const Graph& graph, const Schedule& schedule, int unit) {
  std::vector<int> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    const bool uses = std::any_of(node.reservations.begin(), node.reservations.end(),
                                  [&](const graph::Reservation& use) { return use.unit == unit && use.cycles > 0; });
    if (!uses || node.scope != graph::Scope::iteration) continue;
    if (node.async != Async::matrix) return {};
    nodes.push_back(static_cast<int>(i));
  }
  std::sort(nodes.begin(), nodes.end(), [&](int a, int b) {
    const int first = schedule.cycle[at(a)] % schedule.ii, second = schedule.cycle[at(b)] % schedule.ii;
    return first != second ? first < second : a < b;
  });
  return nodes;
}

/// One run for each role, or empty when a role's nodes are apart.
std::vector<Run> runs_of(const Schedule& schedule, std::vector<int> nodes) {
  const auto role_of = [&](int node) { return schedule.role[at(node)]; };
  for (std::size_t turned = 0; turned < nodes.size() && role_of(nodes.front()) == role_of(nodes.back()); ++turned)
    std::rotate(nodes.begin(), nodes.begin() + 1, nodes.end());
  std::map<int, std::vector<int>> by_role;
  int previous = -1;
  for (const int node : nodes) {
    auto& list = by_role[role_of(node)];
    if (!list.empty() && role_of(node) != previous) return {};
    list.push_back(node);
    previous = role_of(node);
  }
  std::vector<Run> runs;
  for (auto& [role, list] : by_role) runs.push_back(make_run(schedule, role, std::move(list)));
  return runs;
}

}  // namespace

void find_order_barriers(const Graph& graph, Schedule& schedule) {
  schedule.order_barriers.clear();
  for (int unit = 0; unit < static_cast<int>(graph.machine.units.size()); ++unit) {
    if (graph.machine.units[at(unit)].capacity != 1) continue;
    std::vector<Run> runs = runs_of(schedule, users(graph, schedule, unit));
    if (runs.size() < 2) continue;
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
    const bool alike =
        std::all_of(runs.begin(), runs.end(), [&](const Run& run) { return run.stages == runs.front().stages; });
    if (!alike || runs.back().end >= runs.front().begin + schedule.ii) continue;
    OrderBarrier barrier;
    barrier.unit = unit;
    for (Run& run : runs) {
      barrier.roles.push_back(run.role);
      barrier.nodes.push_back(std::move(run.nodes));
    }
    schedule.order_barriers.push_back(std::move(barrier));
    return;  // a role's steps are cut where its turn begins, which only one unit can ask for
  }
}

}  // namespace tj::sched
