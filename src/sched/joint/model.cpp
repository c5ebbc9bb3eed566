// Graph -> rules (see joint/model.hpp).
#include "sched/joint/model.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sched/joint/tile.hpp"
#include "sched/roles.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

constexpr int kHorizon = 1 << 26;

Pair pair_of(int i, int j, int low, int high) {
  Pair pair;
  pair.i = i;
  pair.j = j;
  pair.allowed = {{low, high}};
  return pair;
}

}  // namespace

JointModel::JointModel(const graph::Graph& graph, const JointOptions& options) : graph_(graph), options_(options) {
  modulo_.max_stages = options.max_stages;
  modulo_.streaming_latency_zero = options.streaming_latency_zero;
  modulo_.mixed_roles = options.mixed_roles;
  caps_ = options.slots.empty() ? SlotCaps(graph.values.size(), 0) : options.slots;
  problem_ =
      make_problem(graph, std::vector<int>(graph.nodes.size(), 0), SlotCaps(graph.values.size(), 0), false, modulo_);
  local_.assign(graph.nodes.size(), -1);
  std::set<std::string> spaces;
  for (int i = 0; i < problem_.size(); ++i) {
    const graph::Node& node = node_of(i);
    local_[at(problem_.node[at(i)])] = i;
    role_kind_.push_back(kind_of(node));
    has_producers_ = has_producers_ || completes_by_itself(node);
    has_warps_ = has_warps_ || node.warp_cycles > 0;
    for (const auto& [space, bytes] : node.memory_bytes)
      if (bytes > 0 && graph.machine.memory_bytes.count(space) != 0) spaces.insert(space);
  }
  uses_registers_ =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) { return node.registers > 0; });
  spaces_.assign(spaces.begin(), spaces.end());
  waits_.assign(role_kind_.size(), 0);
  for (const graph::Edge& edge : problem_.edges) {
    if (edge.blocking) waits_[at(edge.dst)] = 1;
    has_waits_ = has_waits_ || edge.blocking;
    has_spills_ = has_spills_ || edge.spill_cycles > 0;
  }
  find_clusters();
  make_certain_problem();
}

void JointModel::find_clusters() {
  std::vector<int> leader(graph_.nodes.size());
  std::iota(leader.begin(), leader.end(), 0);
  for (const graph::Edge& edge : graph_.edges) {
    if (!edge.same_role) continue;
    const int from = leader[at(edge.dst)], to = leader[at(edge.src)];
    for (int& each : leader)
      if (each == from) each = to;
    const graph::Node &src = graph_.nodes[at(edge.src)], &dst = graph_.nodes[at(edge.dst)];
    if (kind_of(src) != kind_of(dst)) mixed_ = cat("'", src.name, "' -> '", dst.name, "'");
  }
  if (options_.mixed_roles && options_.max_roles == 1)
    std::fill(leader.begin(), leader.end(), 0);  // nothing is left to choose
  std::vector<int> cluster_of(graph_.nodes.size(), -1);
  for (int i = 0; i < problem_.size(); ++i) {
    int& cluster = cluster_of[at(leader[at(problem_.node[at(i)])])];
    if (cluster < 0) {
      cluster = static_cast<int>(clusters_.size());
      clusters_.emplace_back();
    }
    clusters_[at(cluster)].push_back(i);
    cluster_of_.push_back(cluster);
  }
  // Nodes of a tile's begin and end count as well: they run in the same role.
  std::vector<int> warps(graph_.nodes.size(), 0);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const graph::Node& node = graph_.nodes[i];
    int& of_cluster = warps[at(leader[i])];
    if (node.context.empty()) continue;
    if (of_cluster != 0 && of_cluster != node.warps && unlike_.empty()) unlike_ = node.name;
    of_cluster = node.warps;
  }
  for (const auto& cluster : clusters_)
    kinds_.push_back(
        {role_kind_[at(cluster.front())], warps[at(leader[at(problem_.node[at(cluster.front())])])], copy_of(cluster)});
  int known = 0, copy = -1;
  for (const Kind& kind : kinds_) {
    has_bodies_ = has_bodies_ || (known != 0 && kind.warps != 0 && kind.warps != known);
    if (kind.warps != 0) known = kind.warps;
    has_copies_ = has_copies_ || (copy >= 0 && kind.copy >= 0 && kind.copy != copy);
    if (kind.copy >= 0) copy = kind.copy;
  }
  has_copies_ = has_copies_ || !tied_copies_.empty();
}

/// The copy that the nodes of a cluster compute for, where copies are apart.
int JointModel::copy_of(const std::vector<int>& cluster) {
  int first = -1;
  for (const int i : cluster) {
    if (!options_.copies_apart || role_kind_[at(i)] != RoleKind::compute) continue;
    if (first < 0) first = i;
    if (node_of(i).copy != node_of(first).copy)
      tied_copies_ = cat("'", node_of(first).name, "' and '", node_of(i).name, "'");
  }
  return first < 0 ? -1 : node_of(first).copy;
}

bool JointModel::satisfied(const std::vector<int>& role, int ii, const std::vector<int>& cycle,
                           const Relaxation& relaxed) const {
  if (!values_cross(role, relaxed)) return false;
  for (const graph::Edge& edge : role_edges(role, relaxed))
    if (std::int64_t{cycle[at(edge.dst)]} - cycle[at(edge.src)] < least_distance(edge, ii)) return false;
  TimeRules rules;
  rules.ii = ii;
  add_memory(relaxed, rules);
  add_role_rules(role, relaxed, rules);
  return TimeSearch(rules).satisfied(cycle);
}

/// Until when a node's value is held: its readers' ends. An accumulator makes room for itself, at its shortest
/// distance; a longer one to itself only says when to wait.
std::vector<Moment> JointModel::ends(int node, int ii) const {
  std::vector<Moment> result;
  int own = -1;
  for (const graph::Edge& edge : graph_.edges) {  // edges of places hand nothing on
    const int src = local_[at(edge.src)], dst = local_[at(edge.dst)];
    if (src != node || dst < 0) continue;
    if (dst == node)
      own = own < 0 ? edge.distance : std::min(own, edge.distance);
    else
      result.push_back({dst, edge.distance * ii + problem_.length[at(dst)]});
  }
  if (own >= 0) result.push_back({node, own * ii});
  if (result.empty()) result.push_back({node, problem_.length[at(node)]});
  return result;
}

TimeRules JointModel::base_rules(int ii, const Relaxation& relaxed) const {
  TimeRules rules;
  rules.ii = ii;
  Conflicts conflicts = make_conflicts(relaxed.warps ? problem_ : warps_problem_, ii);
  rules.possible = conflicts.possible;
  rules.pairs = std::move(conflicts.pairs);
  for (const Cover& cover : conflicts.covers) {
    Resource unit{cover.capacity, {}};
    for (const CoverItem& item : cover.items)
      unit.holdings.push_back({{item.node, item.start}, item.count, {{item.node, item.start + item.cycles}}});
    rules.resources.push_back(std::move(unit));
  }
  add_memory(relaxed, rules);
  return rules;
}

void JointModel::add_memory(const Relaxation& relaxed, TimeRules& rules) const {
  for (const std::string& space : spaces_) {
    if (space == relaxed.space || space == options_.relaxed.space) continue;
    Resource resource{graph_.machine.memory_bytes.at(space), {}};
    for (int i = 0; i < problem_.size(); ++i)
      if (const std::int64_t amount = bytes_of(i, space); amount > 0)
        resource.holdings.push_back({{i, 0}, amount, ends(i, rules.ii)});
    rules.resources.push_back(std::move(resource));
  }
}

void JointModel::add_role_rules(const std::vector<int>& role, const Relaxation& relaxed, TimeRules& rules) const {
  if (!relaxed.concurrency && has_waits_) add_waits(role, rules);
  if (!relaxed.warps && has_warps_) add_warps(role, rules);
  if (!relaxed.registers && uses_registers_) add_registers(role, rules);
}

// Nodes that share a role for certain are in the base rules already.
void JointModel::add_warps(const std::vector<int>& role, TimeRules& rules) const {
  const auto held = [&](int i) { return role[at(i)] < 0 ? 0 : node_of(i).warp_cycles; };
  std::map<int, std::int64_t> sum;
  for (int i = 0; i < problem_.size(); ++i) {
    if (held(i) > 0 && (sum[role[at(i)]] += held(i)) > rules.ii) {
      rules.possible = false;
      return;
    }
    for (int j = 0; j < i; ++j)
      if (held(i) > 0 && held(j) > 0 && role[at(i)] == role[at(j)] && cluster_of_[at(i)] != cluster_of_[at(j)])
        rules.pairs.push_back(pair_of(i, j, held(i), rules.ii - held(j)));
  }
}

// While v waits, its role issues nothing; what runs on after its issue (Node::cycles) must have been issued early
// enough.
void JointModel::add_waits(const std::vector<int>& role, TimeRules& rules) const {
  for (int v = 0; v < problem_.size(); ++v) {
    if (!waits_[at(v)] || role[at(v)] < 0) continue;
    for (int o = 0; o < problem_.size(); ++o) {
      const int cycles = node_of(o).cycles;
      if (o == v || role[at(o)] != role[at(v)] || cycles <= 0) continue;
      if (cycles >= rules.ii) {
        rules.possible = false;
        return;
      }
      rules.pairs.push_back(pair_of(v, o, 1, rules.ii - cycles));
    }
  }
}

// Nodes that run once a tile join a role of the loop, or have a role of their own, once all of the loop's are decided.
std::vector<JointModel::Need> JointModel::needs(const std::vector<int>& role) const {
  JointResult whole;
  whole.roles = 1 + *std::max_element(role.begin(), role.end());
  whole.role.assign(graph_.nodes.size(), -1);
  for (int i = 0; i < problem_.size(); ++i) whole.role[at(problem_.node[at(i)])] = role[at(i)];
  const bool complete = std::find(role.begin(), role.end(), -1) == role.end();
  if (complete && role.size() < graph_.nodes.size())
    place_tile_nodes(graph_, options_.mixed_roles, options_.copies_apart, whole);
  std::vector<Need> result(at(std::max(whole.roles, 1 + *std::max_element(whole.role.begin(), whole.role.end()))));
  const int size = graph_.machine.warps_per_group;
  for (std::size_t i = 0; i < whole.role.size(); ++i) {
    if (whole.role[i] < 0) continue;
    Need& need = result[at(whole.role[i])];
    need.warps = std::max(need.warps, graph_.nodes[i].warps);
    need.groups = (need.warps + size - 1) / size;
    need.computes = need.computes || kind_of(graph_.nodes[i]) == RoleKind::compute;
    if (local_[i] < 0) need.once = std::max(need.once, graph_.nodes[i].registers);
  }
  share_groups(result);
  return result;
}

// Small roles that compute nothing sit in one group, as groups_of() places them. A group's roles have one count.
void JointModel::share_groups(std::vector<Need>& needs) const {
  const int size = graph_.machine.warps_per_group;
  for (auto joins = needs.begin(); joins != needs.end(); ++joins) {
    const auto host = std::find_if(needs.begin(), joins, [&](const Need& of) {
      return of.groups > 0 && !of.computes && !joins->computes && of.warps + joins->warps <= size;
    });
    if (host == joins) continue;
    host->warps += joins->warps;
    host->once = std::max(host->once, joins->once);
    joins->groups = 0;
    joins->host = static_cast<int>(host - needs.begin());
  }
}

Resource JointModel::registers_of(const std::vector<int>& role, int r, int ii) const {
  Resource resource;
  for (int i = 0; i < problem_.size(); ++i) {
    const int amount = node_of(i).registers;
    if (role[at(i)] == r && amount > 0) resource.holdings.push_back({{i, 0}, amount, ends(i, ii)});
  }
  return resource;
}

// Without moving registers every role has the same count, so more roles leave less to each. With it, roles may differ.
// The sum is limited; all groups of a block are launched with the same count, rounded down.
void JointModel::add_registers(const std::vector<int>& role, TimeRules& rules) const {
  const graph::Machine& machine = graph_.machine;
  const int roles = 1 + *std::max_element(role.begin(), role.end());
  const bool complete = std::find(role.begin(), role.end(), -1) == role.end();
  Total total;
  const std::vector<Need> need = needs(role);
  std::int64_t all = 0;
  int once = 0;
  for (const Need& each : need) {
    all += each.groups;
    once = std::max(once, each.once);
  }
  if (all == 0) return;
  const std::int64_t step = std::max(1, machine.register_step), most = machine.max_registers_per_thread / step * step;
  const std::int64_t share = std::min(most, machine.registers / (threads_of_group() * all) / step * step);
  const auto up = [&](int count) { return (std::max(kMinRegisters, count) + step - 1) / step * step; };
  // All roles of a group get what the one with most needs. What they hold together is no less, and one sum to bound.
  std::vector<int> first(at(roles), -1);  // the resource of a role's group
  for (int r = 0; r < roles; ++r) {
    Resource resource = registers_of(role, r, rules.ii);
    if (need[at(r)].groups == 0) {
      auto& holdings = rules.resources[at(first[at(need[at(r)].host)])].holdings;
      holdings.insert(holdings.end(), resource.holdings.begin(), resource.holdings.end());
      continue;
    }
    resource.capacity = machine.register_roles ? most : share;
    first[at(r)] = static_cast<int>(rules.resources.size());
    total.resources.push_back(first[at(r)]);
    total.weights.push_back(need[at(r)].groups);
    total.least.push_back(up(need[at(r)].once));
    rules.resources.push_back(std::move(resource));
  }
  if (once > (machine.register_roles ? most : share)) rules.possible = false;
  if (!machine.register_roles) return;
  total.step = static_cast<int>(step);
  total.limit = complete ? share * all : machine.registers / threads_of_group();
  for (std::size_t r = at(roles); r < need.size(); ++r)
    total.limit -= up(need[r].once) * need[r].groups;  // roles without a part in the loop
  rules.has_total = true;
  rules.total = std::move(total);
  if (complete && share < up(0)) rules.possible = false;
}

std::vector<int> JointModel::role_registers(const std::vector<int>& role, int roles, int ii,
                                            const std::vector<int>& cycle) const {
  std::vector<int> result;
  const std::int64_t step = std::max(1, graph_.machine.register_step);
  for (int r = 0; r < roles; ++r) {
    const std::int64_t most = peak(registers_of(role, r, ii), ii, cycle);
    result.push_back(static_cast<int>((most + step - 1) / step * step));
  }
  return result;
}

Closure JointModel::window(int ii, int length, bool& possible) const {
  const int size = problem_.size();
  const std::int64_t last =
      options_.max_stages > 0 ? std::min<std::int64_t>(std::int64_t{options_.max_stages} * ii - 1, kHorizon) : kHorizon;
  Closure root(size + 1);
  possible = true;
  for (int i = 0; i < size; ++i) {
    const auto latest = static_cast<int>(std::min<std::int64_t>(length - problem_.length[at(i)], last));
    if (latest < 0) possible = false;
    root.set(0, i + 1, 0);
    root.set(i + 1, 0, -latest);
  }
  for (const graph::Edge& edge : problem_.edges) {
    const int least = least_distance(edge, ii);
    if (edge.src != edge.dst)
      root.set(edge.src + 1, edge.dst + 1, least);
    else if (least > 0)
      possible = false;
  }
  possible = possible && root.close();
  return root;
}

int JointModel::least_distance(const graph::Edge& edge, int ii) {
  return static_cast<int>(
      std::clamp<std::int64_t>(std::int64_t{edge.delay} - std::int64_t{ii} * edge.distance, -kHorizon, kHorizon));
}

}  // namespace tj::sched
