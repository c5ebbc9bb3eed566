// A joint result as a schedule: tile-scope nodes, orders, registers, rings (see joint.hpp, joint/tile.hpp).
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "sched/joint/joint.hpp"
#include "sched/joint/tile.hpp"
#include "sched/rings.hpp"
#include "sched/roles.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

/// Names by kind; a role has the warps of its largest node.
void make_roles(const graph::Graph& graph, const JointResult& result, Schedule& schedule) {
  const int count = 1 + *std::max_element(result.role.begin(), result.role.end());
  schedule.roles.assign(at(count), {});
  std::vector<RoleKind> kinds(at(count), RoleKind::store);
  for (Role& role : schedule.roles) role.warps = 1;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Role& role = schedule.roles[at(result.role[i])];
    role.warps = std::max(role.warps, graph.nodes[i].warps);
    RoleKind& kind = kinds[at(result.role[i])];
    const RoleKind own = kind_of(graph.nodes[i]);
    if (kind == RoleKind::store || own == RoleKind::compute) kind = own;  // a role that mixes kinds computes
  }
  for (const auto& [kind, name] : {std::pair{RoleKind::load, "load"},
                                   {RoleKind::store, "store"},
                                   {RoleKind::matrix, "mma"},
                                   {RoleKind::compute, "compute"}}) {
    const bool numbered = kind == RoleKind::compute || std::count(kinds.begin(), kinds.end(), kind) > 1;
    int number = 0;
    for (std::size_t r = 0; r < schedule.roles.size(); ++r)
      if (kinds[r] == kind) schedule.roles[r].name = numbered ? cat(name, number++) : name;
  }
}

bool is_compute(const Role& role) { return role.name.rfind("compute", 0) == 0; }

/// Every role gets what it needs. The compute roles get what is left of the launch, all alike. The rest goes to the
/// loading roles, as long as they have use for it.
void share_registers(const graph::Graph& graph, const JointResult& result, Schedule& schedule) {
  const graph::Machine& machine = graph.machine;
  const int step = std::max(1, machine.register_step);
  const int most = machine.max_registers_per_thread / step * step;
  const std::vector<int> groups = groups_of(machine, schedule);
  const int all = std::accumulate(groups.begin(), groups.end(), 0);
  const std::int64_t threads = std::int64_t{machine.warps_per_group} * machine.warp_size;
  std::int64_t left = std::min<std::int64_t>(most, machine.registers / (threads * all) / step * step) * all;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    Role& role = schedule.roles[r];
    role.registers = (kMinRegisters + step - 1) / step * step;
    if (r < result.role_registers.size()) role.registers = std::max(role.registers, result.role_registers[r]);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (graph.nodes[i].scope != graph::Scope::iteration && at(schedule.role[i]) == r)
        role.registers = std::max(role.registers, (graph.nodes[i].registers + step - 1) / step * step);
  }
  int shared = 0;  // registers that roles in one group have
  for (const Role& role : schedule.roles) shared = std::max(shared, shares_group(machine, role) ? role.registers : 0);
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    if (shares_group(machine, schedule.roles[r])) schedule.roles[r].registers = shared;
    left -= std::int64_t{schedule.roles[r].registers} * groups[r];
  }
  if (left < 0)
    support::fail(Stage::schedule, Code::unsupported,
                  cat("graph '", graph.name, "': the roles lack ", -left * threads, " registers; use a smaller tile"));
  for (const bool computes : {true, false}) {
    const int top = computes ? most : std::min(most, kMaxProducerRegisters / step * step);
    for (bool more = true; more;) {  // all at the lowest level together
      int level = top;
      for (const Role& role : schedule.roles)
        if (is_compute(role) == computes) level = std::min(level, role.registers);
      std::int64_t cost = 0;
      const auto rises = [&](const Role& role) {
        return is_compute(role) == computes && role.registers == level && level + step <= top;
      };
      for (std::size_t r = 0; r < schedule.roles.size(); ++r)
        cost += rises(schedule.roles[r]) ? std::int64_t{step} * groups[r] : 0;
      more = cost > 0 && cost <= left;
      left -= more ? cost : 0;
      for (Role& role : schedule.roles)
        if (more && rises(role)) role.registers += step;
    }
  }
}

void fill_rings(const graph::Graph& graph, const Options& options, Schedule& schedule) {
  const SlotCaps caps = slot_caps(graph, options);
  const std::vector<int> needed = slots_needed(graph, schedule);
  for (std::size_t v = 0; v < needed.size(); ++v)
    if (caps[v] > 0 && needed[v] > caps[v])
      support::fail(
          Stage::schedule, Code::unsupported,
          cat("graph '", graph.name, "': value '", graph.values[v].name, "' needs ", needed[v],
              " slots in the joint schedule, ", caps[v], " are allowed; allow more or schedule without joint roles"));
  if (shrink_to_fit(graph, schedule, needed) != needed)
    support::fail(Stage::schedule, Code::unsupported,
                  cat("graph '", graph.name, "': the rings of the joint schedule take ",
                      ring_bytes(graph, schedule, needed), " bytes of SMEM, there are ", ring_capacity(graph),
                      "; use a smaller tile or schedule without joint roles"));
  make_rings(graph, needed, caps, schedule);
}

/// For how many warps the bodies of a role are written; 0: for any.
int warps_of_bodies(const graph::Graph& graph, const std::vector<int>& role, int r) {
  for (std::size_t i = 0; i < role.size(); ++i)
    if (role[i] == r && !graph.nodes[i].context.empty()) return graph.nodes[i].warps;
  return 0;
}

}  // namespace

bool completes_by_itself(const graph::Node& node) { return kind_of(node) != RoleKind::compute; }

void place_tile_nodes(const graph::Graph& graph, bool mixed, bool apart, JointResult& result) {
  int roles = result.roles;
  const auto join_tied = [&graph](JointResult& to) {
    const auto join = [&to](int a, int b) {
      if (to.role[at(a)] >= 0 || to.role[at(b)] < 0) return false;
      to.role[at(a)] = to.role[at(b)];
      return true;
    };
    for (bool more = true; more;) {
      more = false;
      for (const graph::Edge& edge : graph.edges)
        if (edge.same_role && (join(edge.dst, edge.src) || join(edge.src, edge.dst))) more = true;
    }
  };
  join_tied(result);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (result.role[i] >= 0) continue;
    // Every node tied to this one goes with it, and may be written for a number of warps.
    JointResult alone;
    alone.role.assign(graph.nodes.size(), -1);
    alone.role[i] = 0;
    join_tied(alone);
    const int warps = warps_of_bodies(graph, alone.role, 0);
    int same_kind = -1, same_copy = -1;
    for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
      const int role = result.role[k];
      if (role < 0 || (!mixed && kind_of(graph.nodes[k]) != kind_of(graph.nodes[i]))) continue;
      if (const int others = mixed ? 0 : warps_of_bodies(graph, result.role, role);
          warps != 0 && others != 0 && others != warps)
        continue;
      const bool other_copy =
          apart && !mixed && kind_of(graph.nodes[i]) == RoleKind::compute && graph.nodes[k].copy != graph.nodes[i].copy;
      if (same_kind < 0 && !other_copy) same_kind = role;
      if (same_copy < 0 && graph.nodes[k].copy == graph.nodes[i].copy) same_copy = role;
    }
    result.role[i] = same_copy >= 0 ? same_copy : same_kind >= 0 ? same_kind : roles++;
    join_tied(result);
  }
}

Schedule with_roles(const graph::Graph& graph, const JointResult& result, const Options& options) {
  if (!result.found)
    support::fail(Stage::schedule, Code::unsupported, cat("graph '", graph.name, "': ", result.certificate));
  Schedule schedule;
  schedule.ii = result.ii;
  schedule.length = result.length;
  schedule.res_mii = result.res_mii;
  schedule.rec_mii = result.rec_mii;
  schedule.proven_ii = result.proven_ii;
  schedule.proven_length = result.proven_length;
  schedule.certificate = result.certificate;
  schedule.excluded = result.excluded;
  schedule.search_nodes = result.search_nodes;
  schedule.cycle = result.cycle;
  schedule.role = result.role;
  schedule.streaming_latency_zero = options.streaming_latency_zero;
  schedule.mixed_roles = options.mixed_roles;
  schedule.copies_apart = options.copies_apart;
  schedule.joint = true;
  make_roles(graph, result, schedule);
  if (graph.machine.register_roles) share_registers(graph, result, schedule);
  order_roles(graph, schedule);
  return schedule;
}

Schedule to_schedule(const graph::Graph& graph, const JointResult& result, const Options& options) {
  Schedule schedule = with_roles(graph, result, options);
  fill_rings(graph, options, schedule);
  if (options.order_barriers) find_order_barriers(graph, schedule);
  cut_steps(graph, schedule);
  order_roles(graph, schedule);
  return schedule;
}

}  // namespace tj::sched
