// Minimal II, then minimal length (see modulo.hpp): which questions are put to Search, in which order, with which budget.
//
// At each II: first the shortest conceivable length (usually it exists, and proves everything at once); else whether the II
// is possible at all, with every strongly connected component free to move by whole rounds; else lengths by bisection.
#include "sched/modulo.hpp"

#include <algorithm>
#include <cstddef>

#include "graph/cycles.hpp"
#include "sched/reservations.hpp"
#include "sched/search.hpp"
#include "sched/symmetry.hpp"
#include "support/fail.hpp"

namespace tj::sched {
namespace {

using support::cat;

constexpr int kExactNodes = 256;          ///< beyond it the closure's cubic cost no longer pays
constexpr int kHorizon = 1 << 26;         ///< no time that is searched for lies beyond it
constexpr std::uint64_t kFirstProbe = 300;
constexpr std::uint64_t kCheapProbe = 6;
constexpr std::uint64_t kEasy = 300;       ///< nodes at one II before it counts as hard
constexpr int kLongest = 1 << 14;          ///< of these steps: beyond, the II is more likely to be infeasible
constexpr int kSingleSteps = 4096;        ///< IIs tried one by one before the steps grow

std::size_t at(int i) { return static_cast<std::size_t>(i); }

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>(a >= 0 ? (a + b - 1) / b : -(-a / b)); }

/// Moves the first node to cycle 0.
void normalise(std::vector<int>& cycle) {
  const int first = *std::min_element(cycle.begin(), cycle.end());
  for (int& each : cycle) each -= first;
}

/// Everything that is known and tried at one II.
class AtInterval {
 public:
  AtInterval(const Problem& problem, int ii, const std::vector<std::pair<int, int>>& ordered, std::uint64_t& budget)
      : problem_(problem), ii_(ii), ordered_(ordered), budget_(budget), conflicts_(make_conflicts(problem, ii, true)), in_window_(conflicts_, ii, true), in_round_(conflicts_, ii, false) {}

  /// Prepares; false when the II is impossible without any search.
  bool prepare() {
    base_ = Closure(problem_.size());
    for (const graph::Edge& edge : problem_.edges)
      base_.set(edge.src, edge.dst, static_cast<std::int32_t>(std::max<std::int64_t>(edge.delay - std::int64_t{ii_} * edge.distance, -kHorizon)));
    if (!conflicts_.possible || !base_.close()) return false;
    earliest_.assign(at(problem_.size()), 0);
    for (int i = 0; i < problem_.size(); ++i) {
      for (int k = 0; k < problem_.size(); ++k) earliest_[at(i)] = std::max(earliest_[at(i)], base_.at(k, i));
      shortest_ = std::max(shortest_, earliest_[at(i)] + problem_.length[at(i)]);
    }
    last_cycle_ = problem_.max_stages > 0 ? static_cast<int>(std::min<std::int64_t>(std::int64_t{problem_.max_stages} * ii_ - 1, kHorizon)) : kHorizon;
    return true;
  }

  int shortest() const { return shortest_; }
  const std::vector<int>& best() const { return best_; }
  int best_length() const { return best_length_; }

  /// Is there a schedule of at most this length? A found one becomes the best.
  Verdict probe(int length, std::uint64_t limit) {
    Closure root;
    if (!window(length, root)) return Verdict::infeasible;
    std::vector<int> cycle;
    const Verdict verdict = ask(in_window_, root, length, limit, cycle);
    if (verdict == Verdict::found) offer(std::move(cycle));
    return verdict;
  }

  /// Is there a schedule of any length?
  Verdict probe_interval(std::uint64_t limit) {
    std::vector<int> cycle;
    const Verdict verdict = ask(in_round_, rounds_apart(), 0, limit, cycle);
    if (verdict != Verdict::found) return verdict;
    join_components(cycle);
    advance(cycle);
    normalise(cycle);
    if (std::all_of(cycle.begin(), cycle.end(), [&](int each) { return each <= last_cycle_; })) {
      offer(std::move(cycle));
      return Verdict::found;
    }
    return probe(std::min(kHorizon, last_cycle_ + *std::max_element(problem_.length.begin(), problem_.length.end())), limit);
  }

  void offer_advanced(std::vector<int> cycle) {
    advance(cycle);
    offer(std::move(cycle));
  }

 private:
  void offer(std::vector<int> cycle) {
    normalise(cycle);
    const int length = makespan(problem_, cycle);
    if (!best_.empty() && length >= best_length_) return;
    best_ = std::move(cycle);
    best_length_ = length;
  }

  Verdict ask(Search& search, const Closure& root, int scope, std::uint64_t limit, std::vector<int>& cycle) {
    const Verdict verdict = search.run(root, scope, std::min(limit, budget_), cycle);
    spent_ += search.visited();
    if (spent_ > kEasy) in_window_.widen();
    budget_ -= std::min(budget_, search.visited());
    return verdict;
  }

  /// All nodes between cycle 0 and the end; false when the edges alone do not fit.
  bool window(int length, Closure& root) const {
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
    return std::all_of(ordered_.begin(), ordered_.end(), [&](const auto& pair) { return root.insert(pair.first + 1, pair.second + 1, 0); });
  }

  /// Each strongly connected component somewhere in one round; edges between components are met later by whole rounds.
  Closure rounds_apart() const {
    const int size = problem_.size();
    std::vector<int> leader(at(size), -1), members(at(size), 0);
    for (int i = 0; i < size; ++i)
      for (int k = 0; k <= i && leader[at(i)] < 0; ++k)
        if (k == i || (base_.path(i, k) && base_.path(k, i))) leader[at(i)] = k;
    for (int i = 0; i < size; ++i) ++members[at(leader[at(i)])];
    // A schedule may be rotated as a whole: the largest component is pinned.
    const int pinned = static_cast<int>(std::max_element(members.begin(), members.end()) - members.begin());
    Closure root(size + 1);
    for (int i = 0; i < size; ++i) {
      const int lead = leader[at(i)];
      root.set(0, i + 1, base_.at(lead, i));
      root.set(i + 1, 0, base_.at(i, lead) - (lead == pinned ? 0 : ii_ - 1));
    }
    for (int i = 0; i < size; ++i)
      for (int k = 0; k < size; ++k)
        if (leader[at(i)] == leader[at(k)]) root.set(i + 1, k + 1, base_.at(i, k));
    through_origin(root, false);
    return root;
  }

  void through_origin(Closure& root, bool with_edges = true) const {
    for (int i = 1; i < root.size(); ++i)
      for (int k = 1; k < root.size(); ++k) {
        root.set(i, k, root.at(i, 0) + root.at(0, k));
        if (with_edges) root.set(i, k, base_.at(i - 1, k - 1));
      }
  }

  /// Moves nodes by whole rounds, later ones later, until every edge holds; components stay rigid.
  void join_components(std::vector<int>& cycle) const {
    std::vector<int> round(at(problem_.size()), 0);
    bool changed = true;
    while (changed) {
      changed = false;
      for (const graph::Edge& edge : problem_.edges) {
        const std::int64_t gap = std::int64_t{edge.delay} - std::int64_t{ii_} * edge.distance + cycle[at(edge.src)] - cycle[at(edge.dst)];
        const int least = round[at(edge.src)] + ceil_div(gap, ii_);
        if (least <= round[at(edge.dst)]) continue;
        round[at(edge.dst)] = least;
        changed = true;
      }
    }
    for (int i = 0; i < problem_.size(); ++i) cycle[at(i)] += round[at(i)] * ii_;
  }

  /// Moves each node as early as edges and units allow while the others stay: gaps that whole rounds have left close.
  void advance(std::vector<int>& cycle) const {
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
          earliest = std::max(earliest, std::int64_t{cycle[at(edge.src)]} + edge.delay - std::int64_t{ii_} * edge.distance);
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

  const Problem& problem_;
  int ii_;
  const std::vector<std::pair<int, int>>& ordered_;  ///< exchangeable nodes: the first no later than the second
  std::uint64_t& budget_;
  Conflicts conflicts_;
  Search in_window_, in_round_;  ///< what one learns does not hold for the other's roots
  Closure base_;
  std::vector<int> earliest_;
  int shortest_ = 0, last_cycle_ = 0;
  std::uint64_t spent_ = 0;
  std::vector<int> best_;
  int best_length_ = 0;
};

class Scheduler {
 public:
  Scheduler(const Problem& problem, std::uint64_t budget, int min_ii)
      : problem_(problem), total_budget_(budget), budget_(budget), min_ii_(min_ii), exact_(problem.size() <= kExactNodes), ordered_(exchangeable(problem)) {}

  ModuloResult run() {
    const Bound res = resource_bound(problem_), rec = recurrence_bound(problem_);
    result_.res_mii = res.ii;
    result_.rec_mii = rec.ii;
    if (rec.impossible) {
      result_.certificate = rec.reason + ", which no II satisfies";
      return result_;
    }
    const Bound start = first_interval(res, rec);
    reason_ = start.reason;
    std::int64_t total = start.ii + 1;
    for (const int each : problem_.length) total += each;
    for (const auto& uses : problem_.uses)
      for (const graph::Reservation& use : uses) total += use.start + use.cycles;
    for (const graph::Edge& edge : problem_.edges) total += std::max(0, edge.delay);
    bool proven = true;
    for (std::int64_t ii = start.ii; ii <= total; ii += step(ii - start.ii)) {
      if (ii - start.ii >= kSingleSteps) proven = false;
      const Verdict verdict = try_interval(static_cast<int>(ii), proven);
      if (verdict == Verdict::found) return finish();
      if (verdict == Verdict::unknown) proven = false;
    }
    result_.certificate = cat("no schedule up to II ", total, "; ", reason_);
    return result_;
  }

 private:
  std::int64_t step(std::int64_t tried) const {
    if (budget_ == 0 || !exact_) return 1 + tried / 16;
    return tried < kSingleSteps ? 1 : 1 + tried / 64;
  }

  /// The largest lower bound of II: units, recurrences, what the caller asked for, and the stages allowed.
  Bound first_interval(const Bound& res, const Bound& rec) const {
    Bound start = res.ii >= rec.ii ? res : rec;
    if (res.ii == rec.ii && res.ii > 1) start.reason = cat(res.reason, "; also ", rec.reason);
    if (min_ii_ > start.ii) start = {min_ii_, cat("II of at least ", min_ii_, " was asked for"), false};
    if (problem_.max_stages <= 0) return start;
    int late = -1;
    const auto fits = [&](std::int64_t ii) {
      const auto [node, cycle] = latest_start(ii);
      if (cycle < problem_.max_stages * ii) return true;
      late = node;
      return false;
    };
    std::int64_t low = start.ii, high = start.ii;
    while (!fits(high)) high *= 2;
    if (high == low) return start;
    while (low + 1 < high) {
      const std::int64_t middle = (low + high) / 2;
      (fits(middle) ? high : low) = middle;
    }
    fits(low);
    start.ii = static_cast<int>(high);
    start.reason = cat("at most ", problem_.max_stages, " stages: the chain to ", problem_.name[at(late)], " starts it at cycle ",
                       latest_start(low).second, " at II ", low);
    return start;
  }

  /// The node that the edges alone make start last, and when.
  std::pair<int, std::int64_t> latest_start(std::int64_t ii) const {
    std::vector<std::int64_t> time(at(problem_.size()), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (const graph::Edge& edge : problem_.edges) {
        const std::int64_t least = time[at(edge.src)] + edge.delay - ii * edge.distance;
        if (least <= time[at(edge.dst)]) continue;
        time[at(edge.dst)] = least;
        changed = true;
      }
    }
    const auto last = std::max_element(time.begin(), time.end());
    return {static_cast<int>(last - time.begin()), *last};
  }

  Verdict try_interval(int ii, bool proven) {
    const std::uint64_t before = budget_;
    AtInterval here(problem_, ii, ordered_, budget_);
    Verdict verdict = Verdict::unknown;
    int lower = 0;  ///< no schedule is shorter
    if (exact_ && budget_ > 0) {
      if (!here.prepare()) {
        reason_ = cat("II ", ii, " infeasible: two reservations, or the edges, exclude each other");
        return Verdict::infeasible;
      }
      lower = least_length(here);
      verdict = here.probe(lower, kFirstProbe);
      if (verdict == Verdict::infeasible) ++lower;
    }
    if (verdict != Verdict::found && exact_ && budget_ > 0) verdict = here.probe_interval(std::max<std::uint64_t>(1, budget_ / 2));
    if (verdict == Verdict::unknown)
      if (auto cycle = iterative_schedule(problem_, ii)) {
        here.offer_advanced(std::move(*cycle));
        verdict = Verdict::found;
      }
    if (verdict == Verdict::infeasible) reason_ = cat("II ", ii, " infeasible: exhausted ", before - budget_, " nodes");
    if (verdict == Verdict::unknown && unresolved_ == 0) unresolved_ = ii;
    if (verdict != Verdict::found) return verdict;
    result_.ii = ii;
    result_.proven_ii = proven;
    if (exact_) shorten(here, lower);
    result_.cycle = here.best();
    result_.length = here.best_length();
    return Verdict::found;
  }

  /// The least length that cannot be excluded at little cost: steps that double, then bisection.
  int least_length(AtInterval& here) {
    int lower = here.shortest(), step = 1;
    while (here.probe(lower, kCheapProbe) == Verdict::infeasible && step < kLongest) {
      lower += step;
      step *= 2;
    }
    if (step == 1 || step >= kLongest) return here.shortest();
    int excluded = lower - step / 2;
    while (excluded + 1 < lower) {
      const int length = excluded + (lower - excluded) / 2;
      (here.probe(length, kCheapProbe) == Verdict::infeasible ? excluded : lower) = length;
    }
    return lower;
  }

  /// Halfway between what is excluded and what was found; where that is too much, one below what was found, because what is
  /// learnt about a length holds for all shorter ones; then with more effort.
  void shorten(AtInterval& here, int lower) {
    for (std::uint64_t limit = kFirstProbe; lower < here.best_length() && budget_ > 0;) {
      const int length = lower + (here.best_length() - 1 - lower) / 2;
      Verdict verdict = here.probe(length, limit);
      if (verdict == Verdict::infeasible) lower = length + 1;
      if (verdict != Verdict::unknown) continue;
      verdict = here.probe(here.best_length() - 1, limit);
      if (verdict == Verdict::infeasible) lower = here.best_length();
      limit *= 2;
    }
    result_.proven_length = lower >= here.best_length();
  }

  ModuloResult finish() {
    result_.found = true;
    result_.search_nodes = total_budget_ - budget_;
    if (result_.proven_ii)
      result_.certificate = cat("II ", result_.ii, ": ", reason_);
    else
      result_.certificate = cat("II ", result_.ii, " not proven: the search gave up at II ", unresolved_ == 0 ? result_.ii : unresolved_,
                                " after ", result_.search_nodes, " nodes; bound: ", reason_);
    return result_;
  }

  const Problem& problem_;
  std::uint64_t total_budget_, budget_;
  int min_ii_;
  bool exact_;
  std::vector<std::pair<int, int>> ordered_;
  int unresolved_ = 0;
  std::string reason_;
  ModuloResult result_;
};

}  // namespace

int makespan(const Problem& problem, const std::vector<int>& cycle) {
  int end = 0;
  for (int i = 0; i < problem.size(); ++i) end = std::max(end, cycle[at(i)] + problem.length[at(i)]);
  return end;
}

ModuloResult modulo_schedule(const Problem& problem, std::uint64_t node_budget, int min_ii) {
  return Scheduler(problem, node_budget, min_ii).run();
}

}  // namespace tj::sched
