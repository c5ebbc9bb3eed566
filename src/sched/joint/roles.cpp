// Depth-first assignment of clusters to roles (see joint/roles.hpp).
#include "sched/joint/roles.hpp"
#include "support/index.hpp"

#include <algorithm>
#include <cstddef>

namespace tj::sched {
namespace {

using support::at;

}  // namespace

RoleSearch::RoleSearch(const JointModel& model, const RoleQuestion& question, std::uint64_t& budget)
    : model_(model),
      question_(question),
      budget_(budget),
      base_(model.base_rules(question.ii, question.relaxed)),
      edges_depend_(model.edges_depend()) {}

Verdict RoleSearch::run(RoleAnswer& answer) {
  State state;
  bool possible = base_.possible;
  if (possible) state.closure = model_.window(question_.ii, question_.length, possible);
  if (!possible) return Verdict::infeasible;
  state.role.assign(at(model_.problem().size()), -1);
  bool kept = question_.hint != nullptr;
  if (kept) state.cycle = *question_.hint;
  if (!add_edges(state, kept)) return Verdict::infeasible;
  const Verdict verdict = settle(state, kept);
  return verdict == Verdict::found ? descend(0, state, answer) : verdict;
}

Verdict RoleSearch::descend(std::size_t cluster, const State& state, RoleAnswer& answer) {
  if (cluster == model_.clusters().size()) {
    answer = {state.cycle, state.role, static_cast<int>(state.kind.size())};
    return Verdict::found;
  }
  bool gave_up = false;
  for (const int role : candidates(cluster, state)) {
    State next = state;
    Verdict verdict = place(cluster, role, next);
    if (verdict == Verdict::found) verdict = descend(cluster + 1, next, answer);
    if (verdict == Verdict::found) return verdict;
    gave_up = gave_up || verdict == Verdict::unknown;
    if (budget_ == 0) return Verdict::unknown;
  }
  return gave_up ? Verdict::unknown : Verdict::infeasible;
}

std::vector<int> RoleSearch::candidates(std::size_t cluster, const State& state) const {
  const std::vector<int>& nodes = model_.clusters()[cluster];
  const JointModel::Kind kind = model_.kind(cluster);
  if (question_.fixed != nullptr) {
    const int role = (*question_.fixed)[at(nodes.front())];
    const bool opens = role == static_cast<int>(state.kind.size());
    return opens || state.kind[at(role)].agrees(kind, question_.relaxed) ? std::vector<int>{role} : std::vector<int>{};
  }
  std::vector<std::pair<std::int64_t, int>> rated;
  std::vector<int> role = state.role;
  for (std::size_t r = 0; r < state.kind.size(); ++r) {
    if (!state.kind[r].agrees(kind, question_.relaxed)) continue;
    for (const int node : nodes) role[at(node)] = static_cast<int>(r);
    rated.emplace_back(model_.cross_bytes(role), static_cast<int>(r));
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> result;
  for (const auto& [bytes, r] : rated)
    if (question_.max_bytes < 0 || bytes <= question_.max_bytes) result.push_back(r);
  if (static_cast<int>(state.kind.size()) < question_.max_roles) result.push_back(static_cast<int>(state.kind.size()));
  return result;
}

Verdict RoleSearch::place(std::size_t cluster, int role, State& state) {
  const std::vector<int>& nodes = model_.clusters()[cluster];
  const JointModel::Kind kind = model_.kind(cluster);
  if (role == static_cast<int>(state.kind.size())) state.kind.push_back(kind);
  state.kind[at(role)].join(kind);
  for (const int node : nodes) state.role[at(node)] = role;
  if (question_.max_bytes >= 0 && model_.cross_bytes(state.role) > question_.max_bytes) return Verdict::infeasible;
  if (!model_.values_cross(state.role, question_.relaxed)) return Verdict::infeasible;
  bool kept = true;
  if (edges_depend_ && !add_edges(state, kept)) return Verdict::infeasible;
  return settle(state, kept);
}

bool RoleSearch::add_edges(State& state, bool& kept) const {
  for (const graph::Edge& edge : model_.role_edges(state.role, question_.relaxed)) {
    const int least = JointModel::least_distance(edge, question_.ii);
    if (kept && state.cycle[at(edge.dst)] - state.cycle[at(edge.src)] < least) kept = false;
    if (edge.src == edge.dst) {
      if (least > 0) return false;
    } else if (!state.closure.insert(edge.src + 1, edge.dst + 1, least)) {
      return false;
    }
  }
  return true;
}

Verdict RoleSearch::settle(State& state, bool kept) {
  TimeRules rules = base_;
  model_.add_role_rules(state.role, question_.relaxed, rules);
  TimeSearch search(rules);
  if (kept && search.satisfied(state.cycle)) {
    budget_ -= std::min<std::uint64_t>(budget_, 1);
    return Verdict::found;
  }
  const Verdict verdict = search.run(state.closure, budget_, state.cycle);
  budget_ -= std::min(budget_, search.visited());
  return verdict;
}

}  // namespace tj::sched
