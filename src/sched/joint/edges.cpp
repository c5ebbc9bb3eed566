// Edges that are certain while roles are decided one by one: spills, slots that are filled again, shared warps (see
// joint/model.hpp).
#include <algorithm>
#include <cstddef>

#include "sched/joint/model.hpp"
#include "sched/joint/tile.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

}  // namespace

void JointModel::make_certain_problem() {
  warps_problem_ = problem_;
  std::vector<int> holder(graph_.nodes.size(), -1);
  std::vector<std::string> names;
  for (const auto& cluster : clusters_) {
    for (const int i : cluster) holder[at(problem_.node[at(i)])] = static_cast<int>(names.size());
    names.push_back(cat("'warps of the role of ", problem_.name[at(cluster.front())], "'"));
  }
  hold_warps(graph_, holder, names, warps_problem_);
  certain_problem_ = options_.relaxed.warps ? problem_ : warps_problem_;
  take_role_edges(std::vector<int>(at(problem_.size()), -1), certain_problem_);
}

/// Spills go onto the edges themselves, so that reasons in words count them once.
void JointModel::take_role_edges(const std::vector<int>& role, Problem& problem) const {
  const Sharing who = sharing(role, options_.relaxed);
  for (graph::Edge& edge : problem.edges)
    if (!options_.relaxed.spills && edge.spill_cycles > 0 &&
        who.apart(problem_.node[at(edge.src)], problem_.node[at(edge.dst)]))
      edge.delay += edge.spill_cycles;
  for (graph::Edge& reuse : reuse_edges(graph_, who, caps_, options_.strict_slots, local_))
    problem.edges.push_back(reuse);
}

Problem JointModel::decided_problem(const std::vector<int>& role) const {
  Problem problem = problem_;
  if (has_warps_ && !options_.relaxed.warps) {
    std::vector<int> holder(graph_.nodes.size(), -1);
    for (int i = 0; i < problem_.size(); ++i) holder[at(problem_.node[at(i)])] = role[at(i)];
    hold_warps(graph_, holder, std::vector<std::string>(role.size(), "warps"), problem);
  }
  take_role_edges(role, problem);
  return problem;
}

Sharing JointModel::sharing(const std::vector<int>& role, const Relaxation& relaxed) const {
  const auto decided = [this, &role](int a, int b) {
    return role[at(local_[at(a)])] >= 0 && role[at(local_[at(b)])] >= 0;
  };
  const auto cluster = [this](int a) { return at(cluster_of_[at(local_[at(a)])]); };
  const auto same = [this, &role, decided, cluster](int a, int b) {
    return cluster(a) == cluster(b) || (decided(a, b) && role[at(local_[at(a)])] == role[at(local_[at(b)])]);
  };
  const auto apart = [this, &role, &relaxed, decided, cluster](int a, int b) {
    if (decided(a, b)) return role[at(local_[at(a)])] != role[at(local_[at(b)])];
    return cluster(a) != cluster(b) && !kinds_[cluster(a)].agrees(kinds_[cluster(b)], relaxed);
  };
  return {same, apart, options_.mixed_roles};
}

std::vector<graph::Edge> JointModel::role_edges(const std::vector<int>& role, const Relaxation& relaxed) const {
  std::vector<graph::Edge> edges;
  const Sharing who = sharing(role, relaxed);
  if (has_spills_ && !relaxed.spills)
    for (const graph::Edge& edge : problem_.edges) {
      if (edge.spill_cycles <= 0 || !who.apart(problem_.node[at(edge.src)], problem_.node[at(edge.dst)])) continue;
      edges.push_back(edge);
      edges.back().delay += edge.spill_cycles;
    }
  for (graph::Edge& reuse : reuse_edges(graph_, who, caps_, options_.strict_slots, local_)) edges.push_back(reuse);
  return edges;
}

bool JointModel::edges_depend() const {
  return has_spills_ || std::any_of(caps_.begin(), caps_.end(), [](int cap) { return cap > 0; });
}

// A role that may hold what completes by itself may also wait for its own copies.
bool JointModel::values_cross(const std::vector<int>& role, const Relaxation& relaxed) const {
  if (options_.mixed_roles) return true;
  std::vector<char> inside(graph_.values.size(), 0), outside(graph_.values.size(), 0);
  for (const graph::Edge& edge : graph_.edges) {
    if (edge.value < 0 || (relaxed.variable_latency && completes_by_itself(graph_.nodes[at(edge.src)]))) continue;
    const int from = local_[at(edge.src)], to = local_[at(edge.dst)];
    const bool known = from >= 0 && to >= 0 && role[at(from)] >= 0 && role[at(to)] >= 0;
    (known && role[at(from)] == role[at(to)] ? inside : outside)[at(edge.value)] = 1;
  }
  for (std::size_t v = 0; v < inside.size(); ++v)
    if (inside[v] != 0 && outside[v] == 0) return false;
  return true;
}

}  // namespace tj::sched
