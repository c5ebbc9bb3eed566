// Facts that the joint search has before it searches (see joint/model.hpp): least roles and bytes, a first guess at
// roles, limits that no II meets.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "sched/joint/model.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

}  // namespace

/// Roles that the kinds of nodes need; more than one for each kind is a matter of the constraints.
int JointModel::least_roles(const Relaxation& relaxed) const {
  struct Needed {
    std::map<int, std::set<int>> warps_of_copy;  ///< the copies that must be apart
    std::set<int> warps;
  };
  std::map<RoleKind, Needed> needed;
  for (const Kind& kind : kinds_) {
    Needed& of_kind = needed[relaxed.variable_latency ? RoleKind::compute : kind.of];
    std::set<int>* of_copy = relaxed.copies || kind.copy < 0 ? nullptr : &of_kind.warps_of_copy[kind.copy];
    if (kind.warps == 0 || relaxed.bodies) continue;
    of_kind.warps.insert(kind.warps);
    if (of_copy != nullptr) of_copy->insert(kind.warps);
  }
  std::size_t roles = 0;
  for (const auto& [of, each] : needed) {
    std::size_t copies = 0;
    for (const auto& [copy, warps] : each.warps_of_copy) copies += std::max<std::size_t>(1, warps.size());
    roles += std::max({std::size_t{1}, copies, each.warps.size()});  // a node of no copy may join any
  }
  return static_cast<int>(roles);
}

bool JointModel::seed(bool by_copy, const Relaxation& relaxed, std::vector<int>& role) const {
  std::vector<std::pair<Kind, int>> roles;  // with the copy that each is for
  Relaxation allowed = relaxed;
  allowed.variable_latency = relaxed.variable_latency && !by_copy;
  role.assign(at(problem_.size()), -1);
  for (std::size_t c = 0; c < clusters_.size(); ++c) {
    const Kind& kind = kinds_[c];
    const int copy = by_copy && kind.of == RoleKind::compute ? node_of(clusters_[c].front()).copy : -1;
    std::size_t r = 0;
    while (r < roles.size() && !(roles[r].second == copy && roles[r].first.agrees(kind, allowed))) ++r;
    if (r == roles.size()) roles.emplace_back(kind, copy);
    roles[r].first.join(kind);
    for (const int i : clusters_[c]) role[at(i)] = static_cast<int>(r);
  }
  return by_copy || static_cast<int>(roles.size()) == least_roles(relaxed);
}

// A node and all that it reads are held together when it issues, whatever the II. Carried values are held always.
std::int64_t JointModel::held_at_issue(int i, const std::function<std::int64_t(int)>& amount) const {
  std::map<int, int> times;  // instances of each node
  bool read = false, read_later = false;
  for (const graph::Edge& edge : problem_.edges) {
    if (edge.dst == i && edge.delay >= 0) times[edge.src] = std::max(times[edge.src], 1);
    read = read || edge.src == i;
    read_later = read_later || (edge.src == i && edge.delay >= 0);
  }
  if (read_later || !read) times[i] = std::max(times[i], 1);
  for (int c = 0; c < problem_.size(); ++c) {
    int own = -1;
    for (const graph::Edge& edge : problem_.edges)
      if (edge.src == c && edge.dst == c) own = own < 0 ? edge.distance : std::min(own, edge.distance);
    if (own > 0) times[c] = std::max(times[c], own);
  }
  std::int64_t sum = 0;
  for (const auto& [node, count] : times) sum += count * amount(node);
  return sum;
}

std::pair<std::string, std::string> JointModel::impossible(int max_roles) const {
  const Relaxation& relaxed = options_.relaxed;
  if (!mixed_.empty() && !relaxed.variable_latency)
    return {"roles", cat(mixed_, " must stay in one role, but only one of them completes by itself")};
  if (!unlike_.empty() && !relaxed.bodies)
    return {"roles", cat("nodes that must share a role with ", unlike_, " are written for another number of warps")};
  if (!tied_copies_.empty() && !relaxed.copies)
    return {"copies", cat(tied_copies_, " must share a role, but compute for different copies, which must be apart")};
  const int least = least_roles(relaxed);
  if (least > max_roles && !relaxed.roles)
    return {"roles", cat("at least ", least, " roles are needed, ", max_roles, " are allowed")};
  for (const std::string& space : spaces_) {
    if (space == relaxed.space) continue;
    const std::int64_t capacity = graph_.machine.memory_bytes.at(space);
    for (int i = 0; i < problem_.size(); ++i) {
      const std::int64_t sum = held_at_issue(i, [&](int node) { return bytes_of(node, space); });
      if (sum > capacity)
        return {space, cat(problem_.name[at(i)], ", what it reads and what is carried hold ", sum, " bytes of ", space,
                           ", there are ", capacity)};
    }
  }
  if (!uses_registers_ || relaxed.registers) return {};
  const graph::Machine& machine = graph_.machine;
  std::int64_t most = machine.max_registers_per_thread;
  if (!machine.register_roles) most = std::min(most, machine.registers / (threads_of_group() * least));
  most = most / std::max(1, machine.register_step) * std::max(1, machine.register_step);
  for (int i = 0; i < problem_.size(); ++i) {
    const std::int64_t sum = held_at_issue(i, [&](int node) {
      return cluster_of_[at(node)] == cluster_of_[at(i)] ? std::int64_t{node_of(node).registers} : 0;
    });
    if (sum > most)
      return {"registers", cat(problem_.name[at(i)], ", what it reads and what is carried in its role hold ", sum,
                               " registers a thread, a role has at most ", most)};
  }
  return {};
}

// The bytes as if all that may share a role did.
std::int64_t JointModel::least_bytes(const Relaxation& relaxed) const {
  std::vector<int> kind;
  for (int i = 0; i < problem_.size(); ++i)
    kind.push_back(relaxed.variable_latency ? 0 : static_cast<int>(role_kind_[at(i)]));
  return cross_bytes(kind);
}

std::int64_t JointModel::cross_bytes(const std::vector<int>& role) const {
  std::set<std::pair<std::pair<int, int>, int>> sent;  // (node, value) to a role: once, however many read it there
  std::int64_t sum = 0;
  for (const graph::Edge& edge : problem_.edges) {
    const int from = role[at(edge.src)], to = role[at(edge.dst)];
    if (from < 0 || to < 0 || from == to || !sent.insert({{edge.src, edge.value}, to}).second) continue;
    const graph::Node& node = node_of(edge.src);
    if (edge.value >= 0) {
      sum += graph_.values[at(edge.value)].slot_bytes;
    } else if (!node.memory_bytes.empty()) {
      for (const auto& [space, bytes] : node.memory_bytes) sum += bytes;
    } else {
      sum += std::int64_t{4} * node.registers * node.warps * graph_.machine.warp_size;
    }
  }
  return sum;
}

}  // namespace tj::sched
