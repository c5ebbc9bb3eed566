// Windows, rounds and what becomes of their answers (see at_interval.hpp).
#include "sched/modulo/at_interval.hpp"

#include <algorithm>
#include <cstddef>

#include "sched/modulo/modulo.hpp"
#include "sched/modulo/reservations.hpp"
#include "sched/modulo/rounds.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

constexpr std::uint64_t kEasy = 300;  ///< nodes at one II before it counts as hard

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>(a >= 0 ? (a + b - 1) / b : -(-a / b)); }

/// Moves the first node to cycle 0.
void normalise(std::vector<int>& cycle) {
  const int first = *std::min_element(cycle.begin(), cycle.end());
  for (int& each : cycle) each -= first;
}

}  // namespace

AtInterval::AtInterval(const Problem& problem, int ii, const std::vector<std::pair<int, int>>& ordered, bool exact,
                       std::uint64_t& budget)
    : problem_(problem),
      ii_(ii),
      ordered_(ordered),
      budget_(budget),
      conflicts_(exact ? make_conflicts(problem, ii, true) : Conflicts{}),
      in_window_(conflicts_, ii, true),
      in_round_(conflicts_, ii, false) {}

bool AtInterval::prepare() {
  base_ = edges_at(problem_, ii_);
  if (!conflicts_.possible || !base_.close()) return false;
  earliest_.assign(at(problem_.size()), 0);
  for (int i = 0; i < problem_.size(); ++i) {
    for (int k = 0; k < problem_.size(); ++k) earliest_[at(i)] = std::max(earliest_[at(i)], base_.at(k, i));
    shortest_ = std::max(shortest_, earliest_[at(i)] + problem_.length[at(i)]);
  }
  last_cycle_ = problem_.max_stages > 0
                    ? static_cast<int>(std::min<std::int64_t>(std::int64_t{problem_.max_stages} * ii_ - 1, kHorizon))
                    : kHorizon;
  return true;
}

Verdict AtInterval::probe(int length, std::uint64_t limit) {
  Closure root;
  if (!window(length, root)) return Verdict::infeasible;
  std::vector<int> cycle;
  const Verdict verdict = ask(in_window_, root, length, limit, cycle);
  if (verdict == Verdict::found) offer(std::move(cycle));
  return verdict;
}

Verdict AtInterval::probe_interval(std::uint64_t limit) {
  std::vector<int> cycle;
  const Verdict verdict = ask(in_round_, rounds_apart(base_, ii_), 0, limit, cycle);
  if (verdict != Verdict::found) return verdict;
  join_components(cycle);
  advance(cycle);
  normalise(cycle);
  if (std::all_of(cycle.begin(), cycle.end(), [&](int each) { return each <= last_cycle_; })) {
    offer(std::move(cycle));
    return Verdict::found;
  }
  return probe(std::min(kHorizon, last_cycle_ + *std::max_element(problem_.length.begin(), problem_.length.end())),
               limit);
}

void AtInterval::offer_advanced(std::vector<int> cycle) {
  advance(cycle);
  offer(std::move(cycle));
}

void AtInterval::offer(std::vector<int> cycle) {
  normalise(cycle);
  const int length = makespan(problem_, cycle);
  if (!best_.empty() && length >= best_length_) return;
  best_ = std::move(cycle);
  best_length_ = length;
}

Verdict AtInterval::ask(Search& search, const Closure& root, int scope, std::uint64_t limit, std::vector<int>& cycle) {
  const Verdict verdict = search.run(root, scope, std::min(limit, budget_), cycle);
  spent_ += search.visited();
  if (spent_ > kEasy) in_window_.widen();
  budget_ -= std::min(budget_, search.visited());
  return verdict;
}

/// All nodes between cycle 0 and the end; false when the edges alone do not fit.
bool AtInterval::window(int length, Closure& root) const {
  const int size = problem_.size();
  root = Closure(size + 1);
  std::vector<int> latest(at(size));
  for (int i = 0; i < size; ++i) latest[at(i)] = std::min(length - problem_.length[at(i)], last_cycle_);
  for (int i = 0; i < size; ++i) {
    int bound = latest[at(i)];
    for (int k = 0; k < size; ++k)
      if (base_.path(i, k)) bound = std::min(bound, latest[at(k)] - base_.at(i, k));
    if (bound < earliest_[at(i)]) return false;
    root.set(0, i + 1, earliest_[at(i)]);
    root.set(i + 1, 0, -bound);
  }
  through_origin(root);
  for (int i = 0; i < size; ++i)
    for (int k = 0; k < size; ++k) root.set(i + 1, k + 1, base_.at(i, k));
  return std::all_of(ordered_.begin(), ordered_.end(),
                     [&](const auto& pair) { return root.insert(pair.first + 1, pair.second + 1, 0); });
}

/// Moves nodes by whole rounds, later ones later, until every edge holds; components stay rigid.
void AtInterval::join_components(std::vector<int>& cycle) const {
  std::vector<int> round(at(problem_.size()), 0);
  bool changed = true;
  while (changed) {
    changed = false;
    for (const graph::Edge& edge : problem_.edges) {
      const std::int64_t gap =
          std::int64_t{edge.delay} - std::int64_t{ii_} * edge.distance + cycle[at(edge.src)] - cycle[at(edge.dst)];
      const int least = round[at(edge.src)] + ceil_div(gap, ii_);
      if (least <= round[at(edge.dst)]) continue;
      round[at(edge.dst)] = least;
      changed = true;
    }
  }
  for (int i = 0; i < problem_.size(); ++i) cycle[at(i)] += round[at(i)] * ii_;
}

/// Moves each node as early as edges and units allow while the others stay. This closes gaps that whole rounds have
/// left.
void AtInterval::advance(std::vector<int>& cycle) const {
  ReservationTable table(problem_, ii_);
  std::vector<int> order(cycle.size());
  for (int i = 0; i < problem_.size(); ++i) {
    table.add(i, cycle[at(i)]);
    order[at(i)] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cycle[at(a)] < cycle[at(b)]; });
  const int first = cycle[at(order.front())];
  for (const int node : order) {
    std::int64_t earliest = first;
    for (const graph::Edge& edge : problem_.edges)
      if (edge.dst == node && edge.src != node)
        earliest =
            std::max(earliest, std::int64_t{cycle[at(edge.src)]} + edge.delay - std::int64_t{ii_} * edge.distance);
    table.remove(node, cycle[at(node)]);
    int chosen = static_cast<int>(earliest);
    while (chosen < cycle[at(node)]) {
      const int skip = table.blocked(node, chosen);
      if (skip == 0) break;
      chosen += skip;
    }
    cycle[at(node)] = std::min(cycle[at(node)], chosen);
    table.add(node, cycle[at(node)]);
  }
}

}  // namespace tj::sched
