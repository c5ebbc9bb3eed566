// The simple split (see roles.hpp).
#include "sched/roles.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using graph::Async;
using graph::Graph;
using graph::Node;
using graph::Scope;

/// Registers move between groups of warps inside what the block was launched with.
void share_registers(const Graph& graph, Schedule& schedule, const std::vector<bool>& producer) {
  const graph::Machine& machine = graph.machine;
  int producers = 0, computes = 0;
  const std::vector<int> groups = groups_of(machine, schedule);
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) (producer[r] ? producers : computes) += groups[r];
  const int step = machine.register_step;
  const auto down = [&](std::int64_t count) { return static_cast<int>(count / step * step); };
  const std::int64_t threads = std::int64_t{machine.warps_per_group} * machine.warp_size;
  const int limit = down(machine.max_registers_per_thread);
  const int at_launch = std::min(limit, down(machine.registers / (threads * (producers + computes))));
  if (at_launch < kMinRegisters)
    support::fail(
        Stage::schedule, Code::unsupported,
        support::cat("graph '", graph.name, "': ", producers + computes, " groups of ", threads, " threads leave ",
                     at_launch, " registers a thread, at least ", kMinRegisters, " are needed; use fewer copies"));
  const std::int64_t pool = std::int64_t{at_launch} * (producers + computes);
  int compute = at_launch, load = at_launch;
  if (producers > 0 && computes > 0) {
    compute = std::min(limit, down((pool - std::int64_t{kMinRegisters} * producers) / computes));
    load = std::min(kMaxProducerRegisters, down((pool - std::int64_t{compute} * computes) / producers));
  }
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) schedule.roles[r].registers = producer[r] ? load : compute;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Role& role = schedule.roles[at(schedule.role[i])];
    if (graph.nodes[i].registers > role.registers)
      support::fail(Stage::schedule, Code::unsupported,
                    support::cat("graph '", graph.name, "': node '", graph.nodes[i].name, "' needs ",
                                 graph.nodes[i].registers, " registers a thread, role '", role.name, "' gets ",
                                 role.registers, "; use a smaller tile or fewer copies"));
  }
}

/// Repeatedly the smallest key whose predecessors are out; a cycle of ties is broken by the key alone.
std::vector<int> ordered(std::vector<int> nodes, const std::vector<std::pair<int, int>>& before,
                         const std::vector<long long>& key) {
  std::sort(nodes.begin(), nodes.end(),
            [&](int a, int b) { return key[at(a)] != key[at(b)] ? key[at(a)] < key[at(b)] : a < b; });
  std::vector<int> result;
  while (!nodes.empty()) {
    auto next = std::find_if(nodes.begin(), nodes.end(), [&](int node) {
      return std::none_of(before.begin(), before.end(), [&](const std::pair<int, int>& pair) {
        return pair.second == node && pair.first != node &&
               std::find(nodes.begin(), nodes.end(), pair.first) != nodes.end();
      });
    });
    if (next == nodes.end()) next = nodes.begin();
    result.push_back(*next);
    nodes.erase(next);
  }
  return result;
}

}  // namespace

RoleKind kind_of(const Node& node) {
  if (node.async == Async::store || node.drains) return RoleKind::store;
  if (node.async == Async::unit) return RoleKind::matrix;
  return node.async == Async::copy || node.async == Async::threads || node.variable_latency ? RoleKind::load
                                                                                            : RoleKind::compute;
}

bool shares_group(const graph::Machine& machine, const Role& role) {
  return role.name.rfind("compute", 0) != 0 && role.warps < machine.warps_per_group;
}

std::vector<int> groups_of(const graph::Machine& machine, const Schedule& schedule) {
  std::vector<int> groups, used;  // used: warps of each group that is shared
  for (const Role& role : schedule.roles) {
    if (!shares_group(machine, role)) {
      groups.push_back((role.warps + machine.warps_per_group - 1) / machine.warps_per_group);
      continue;
    }
    const auto place = std::find_if(used.begin(), used.end(),
                                    [&](int warps) { return warps + role.warps <= machine.warps_per_group; });
    groups.push_back(place == used.end() ? 1 : 0);
    if (place == used.end())
      used.push_back(role.warps);
    else
      *place += role.warps;
  }
  return groups;
}

void assign_roles(const Graph& graph, Schedule& schedule) {
  schedule.roles.clear();
  schedule.role.assign(graph.nodes.size(), -1);
  std::vector<bool> producer;
  std::map<int, std::vector<int>> by_copy;
  std::vector<int> loads, stores, products;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const RoleKind kind = kind_of(graph.nodes[i]);
    (kind == RoleKind::load     ? loads
     : kind == RoleKind::store  ? stores
     : kind == RoleKind::matrix ? products
                                : by_copy[graph.nodes[i].copy])
        .push_back(static_cast<int>(i));
  }
  const auto add = [&](std::string name, const std::vector<int>& nodes, bool is_producer) {
    if (nodes.empty()) return;
    Role role;
    role.name = std::move(name);
    role.warps = 1;
    for (const int node : nodes) {
      role.warps = std::max(role.warps, graph.nodes[at(node)].warps);
      schedule.role[at(node)] = static_cast<int>(schedule.roles.size());
    }
    schedule.roles.push_back(std::move(role));
    producer.push_back(is_producer);
  };
  add("load", loads, true);
  add("store", stores, true);
  add("mma", products, true);
  for (const auto& [copy, nodes] : by_copy) add("compute" + std::to_string(copy), nodes, false);
  for (const graph::Edge& edge : graph.edges)
    if (edge.same_role && schedule.role[at(edge.src)] != schedule.role[at(edge.dst)])
      support::fail(
          Stage::schedule, Code::unsupported,
          support::cat(
              "graph '", graph.name, "': '", graph.nodes[at(edge.src)].name, "' -> '", graph.nodes[at(edge.dst)].name,
              "' must stay in one role, but copies and variable latency belong to role load and copy c to role "
              "compute<c>; give both nodes one copy, or let a value carry the edge"));
  if (graph.machine.register_roles) share_registers(graph, schedule, producer);
}

namespace {

/// Registers a thread of what lives across a cut at `cycle` of the interval, in one role.
std::int64_t live_across(const Graph& graph, const Schedule& schedule, int role, int cycle) {
  std::int64_t live = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (schedule.role[i] != role || node.scope != Scope::iteration || node.registers == 0) continue;
    std::int64_t end = schedule.cycle[i];
    for (const graph::Edge& edge : graph.edges)
      if (edge.src == static_cast<int>(i) && graph.nodes[at(edge.dst)].scope == Scope::iteration)
        end = std::max(end, schedule.cycle[at(edge.dst)] + std::int64_t{edge.distance} * schedule.ii + 1);
    for (std::int64_t cut = cycle; cut < end; cut += schedule.ii)
      if (cut > schedule.cycle[i]) live += node.registers;
  }
  return live;
}

}  // namespace

void cut_steps(const Graph& graph, Schedule& schedule) {
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    std::vector<int> cycles;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (schedule.role[i] == static_cast<int>(r) && graph.nodes[i].scope == Scope::iteration)
        cycles.push_back(schedule.cycle[i]);
    std::sort(cycles.begin(), cycles.end());
    int& origin = schedule.roles[r].origin;
    origin = cycles.empty() ? 0 : cycles.front() % schedule.ii;
    if (!schedule.mixed_roles) continue;
    // The first node is a copy, far ahead of its use.
    std::int64_t least = live_across(graph, schedule, static_cast<int>(r), origin);
    for (const int cycle : cycles) {
      const std::int64_t live = live_across(graph, schedule, static_cast<int>(r), cycle % schedule.ii);
      if (live >= least) continue;
      least = live;
      origin = cycle % schedule.ii;
    }
  }
  for (const OrderBarrier& barrier : schedule.order_barriers)
    for (std::size_t k = 0; k < barrier.roles.size(); ++k)
      schedule.roles[at(barrier.roles[k])].origin = schedule.cycle[at(barrier.nodes[k].front())] % schedule.ii;
}

void order_roles(const Graph& graph, Schedule& schedule) {
  // In a step, node v runs iteration (step - stage). An edge ties two nodes of one step only when it joins equal steps.
  std::vector<std::pair<int, int>> before, tile_before;
  for (const graph::Edge& edge : graph.edges) {
    const bool inside =
        graph.nodes[at(edge.src)].scope == Scope::iteration && graph.nodes[at(edge.dst)].scope == Scope::iteration;
    if (!inside) tile_before.emplace_back(edge.src, edge.dst);
    if (inside && edge.src != edge.dst && edge.delay >= 0 &&
        schedule.role[at(edge.src)] == schedule.role[at(edge.dst)] &&
        schedule.cycle[at(edge.dst)] + edge.distance * schedule.ii == schedule.cycle[at(edge.src)])
      before.emplace_back(edge.src, edge.dst);
  }
  std::vector<long long> key(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const long long cycle = schedule.cycle[i];
    key[i] = schedule.step_cycle(static_cast<int>(i)) * (1LL << 32) + cycle;
  }
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    auto& list = schedule.roles[r].nodes;
    list.clear();
    for (const Scope scope : {Scope::iteration, Scope::tile_begin, Scope::tile_end}) {
      std::vector<int> nodes;
      for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        if (schedule.role[i] == static_cast<int>(r) && graph.nodes[i].scope == scope)
          nodes.push_back(static_cast<int>(i));
      const auto sorted = ordered(std::move(nodes), scope == Scope::iteration ? before : tile_before, key);
      list.insert(list.end(), sorted.begin(), sorted.end());
    }
  }
}

}  // namespace tj::sched
