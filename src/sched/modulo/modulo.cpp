// Minimal II, then minimal length (see modulo.hpp): which questions are put to Search, in which order, with which
// budget.
//
// The order at each II. First the shortest conceivable length: usually it exists, and proves everything at once. Else
// whether the II is possible at all, with every strongly connected component free to move by whole rounds. Else lengths
// by bisection.
#include "sched/modulo/modulo.hpp"

#include <algorithm>
#include <cstddef>

#include "sched/bounds.hpp"
#include "sched/modulo/at_interval.hpp"
#include "sched/modulo/range.hpp"
#include "sched/modulo/symmetry.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

using support::cat;

constexpr int kExactNodes = 256;         ///< beyond it the closure's cubic cost no longer pays
constexpr int kExactReservations = 512;  ///< reservations of one unit, as every two are looked at
constexpr std::uint64_t kFirstProbe = 300;
constexpr std::uint64_t kCheapProbe = 6;  ///< nodes to exclude a length at little cost
constexpr int kLongest = 1 << 14;         ///< such steps: beyond, the II is more likely to be infeasible
constexpr int kSingleSteps = 4096;        ///< IIs tried one by one before the steps grow
constexpr const char* kExcludedAtOnce = " infeasible: two reservations, or the edges, exclude each other";

/// Is the problem small enough for an exact search?
bool within_reach(const Problem& problem) {
  std::vector<int> reservations(problem.units.size(), 0);
  for (const auto& uses : problem.uses)
    for (const graph::Reservation& use : uses) ++reservations[at(use.unit)];
  return problem.size() <= kExactNodes &&
         std::all_of(reservations.begin(), reservations.end(), [](int count) { return count <= kExactReservations; });
}

class Scheduler {
 public:
  Scheduler(const Problem& problem, std::uint64_t budget, int min_ii, int most_ii, int open_ii)
      : problem_(problem),
        total_budget_(budget),
        budget_(budget),
        min_ii_(min_ii),
        most_ii_(most_ii),
        open_ii_(open_ii),
        exact_(within_reach(problem)),
        ordered_(exchangeable(problem)),
        ranges_(problem, budget_) {}

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
    if (most_ii_ == kFirstIi) most_ii_ = start.ii;
    std::int64_t total = start.ii + 1;
    for (const int each : problem_.length) total += each;
    for (const auto& uses : problem_.uses)
      for (const graph::Reservation& use : uses) total += use.start + use.cycles;
    for (const graph::Edge& edge : problem_.edges) total += std::max(0, edge.delay);
    bool proven = true;
    for (std::int64_t ii = first_open(start.ii); ii <= total; ii += step(ii - start.ii)) {
      if (most_ii_ > 0 && ii > most_ii_) {
        if (!told_) tell_of(static_cast<int>(ii) - 1);
        result_.certificate = cat("II of at most ", most_ii_, " was asked for; ", reason_);
        return result_;
      }
      if (ii - start.ii >= kSingleSteps) proven = false;
      if (const int excluded = exclude_range(static_cast<int>(ii), start.ii, total); excluded > 0) {
        ii += excluded - 1;
        continue;
      }
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
    start.reason = cat("at most ", problem_.max_stages, " stages: the chain to ", problem_.name[at(late)],
                       " starts it at cycle ", latest_start(low).second, " at II ", low);
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

  /// The first II that was not excluded before.
  int first_open(int start) {
    if (open_ii_ <= start || !exact_) return start;
    excluded_ = true;
    told_ = false;
    ranges_.excluded_before();
    return open_ii_;
  }

  /// How many IIs from this one on are excluded together. The steps do not grow yet, and none before is open. Ranges
  /// are asked only where whoever asks has a bound: any other search that gives up does so at the II where it always
  /// did.
  int exclude_range(int ii, int start, std::int64_t total) {
    if (!exact_ || budget_ == 0 || unresolved_ != 0 || (most_ii_ <= 0 && open_ii_ == 0)) return 0;
    std::int64_t last = std::min<std::int64_t>(total, std::int64_t{start} + kSingleSteps - 1);
    if (most_ii_ > 0) last = std::min<std::int64_t>(last, most_ii_);
    const int excluded = ii <= last ? ranges_.excluded(ii, static_cast<int>(last)) : 0;
    if (excluded > 0) told_ = false;
    return excluded;
  }

  /// The reason of an II that was excluded together with others.
  void tell_of(int ii) {
    AtInterval alone(problem_, ii, ordered_, exact_, budget_);
    int lower = 0;
    told_ = true;
    result_.excluded_ii = ii;
    if (!alone.prepare()) {
      reason_ = cat("II ", ii, kExcludedAtOnce);
      return;
    }
    const std::uint64_t before = budget_;
    const bool exhausted = ask(alone, lower) == Verdict::infeasible;
    reason_ = cat("II ", ii,
                  exhausted ? " infeasible: exhausted " : " infeasible, told together with others: ", before - budget_,
                  " nodes");
  }

  Verdict try_interval(int ii, bool proven) {
    if (!told_) tell_of(ii - 1);
    const std::uint64_t before = budget_;
    AtInterval here(problem_, ii, ordered_, exact_, budget_);
    if (exact_ && budget_ > 0 && !here.prepare()) {
      reason_ = cat("II ", ii, kExcludedAtOnce);
      result_.excluded_ii = ii;
      ranges_.excluded_alone(before - budget_);
      return Verdict::infeasible;
    }
    int lower = 0;  ///< no schedule is shorter
    const Verdict verdict = ask(here, lower);
    excluded_ = excluded_ || verdict == Verdict::infeasible;
    if (verdict == Verdict::infeasible) {
      reason_ = cat("II ", ii, " infeasible: exhausted ", before - budget_, " nodes");
      result_.excluded_ii = ii;
      ranges_.excluded_alone(before - budget_);
    }
    if (verdict == Verdict::unknown && unresolved_ == 0) unresolved_ = ii;
    if (verdict != Verdict::found) return verdict;
    result_.ii = ii;
    result_.proven_ii = proven;
    if (exact_) shorten(here, lower);
    result_.cycle = here.best();
    result_.length = here.best_length();
    return Verdict::found;
  }

  /// Is there a schedule? Short lengths first, unless a smaller II had none: then this II may have none either.
  Verdict ask(AtInterval& here, int& lower) {
    Verdict any = Verdict::unknown;
    if (exact_ && budget_ > 0 && excluded_) any = here.probe_interval(kFirstProbe);
    if (any == Verdict::infeasible) return any;
    if (exact_ && budget_ > 0) {
      lower = least_length(here);
      const Verdict verdict = here.probe(lower, kFirstProbe);
      if (verdict == Verdict::found) return verdict;
      if (verdict == Verdict::infeasible) ++lower;
    }
    if (exact_ && budget_ > 0 && any == Verdict::unknown)
      any = here.probe_interval(std::max<std::uint64_t>(1, budget_ / 2));
    if (any != Verdict::unknown) return any;
    auto cycle = iterative_schedule(problem_, here.ii());
    if (!cycle) return Verdict::unknown;
    here.offer_advanced(std::move(*cycle));
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

  /// The next length to ask: halfway between the longest excluded and the shortest found. If that is too much, one
  /// below the shortest found: clauses learnt about a length hold for all shorter ones. Then again with more effort.
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
    result_.open_ii = unresolved_;
    result_.search_nodes = total_budget_ - budget_;
    if (result_.proven_ii)
      result_.certificate = cat("II ", result_.ii, ": ", reason_);
    else
      result_.certificate =
          cat("II ", result_.ii, " not proven: the search gave up at II ", unresolved_ == 0 ? result_.ii : unresolved_,
              " after ", result_.search_nodes, " nodes; bound: ", reason_);
    return result_;
  }

  const Problem& problem_;
  std::uint64_t total_budget_, budget_;
  int min_ii_, most_ii_, open_ii_;
  bool exact_;
  bool excluded_ = false;  ///< an II was proven to have no schedule
  std::vector<std::pair<int, int>> ordered_;
  RangeRefuter ranges_;
  bool told_ = true;  ///< reason_ is of the II before, or of the bounds
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

ModuloResult modulo_schedule(const Problem& problem, std::uint64_t node_budget, int min_ii, int most_ii, int open_ii) {
  return Scheduler(problem, node_budget, min_ii, most_ii, open_ii).run();
}

}  // namespace tj::sched
