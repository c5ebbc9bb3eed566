// Exact search for cycles at one initiation interval when more than units binds. Bytes and registers that are held are
// limited in every cycle of the steady state, and a wait keeps a role from issuing.
//
// Decides one question: is there a solution inside the closure? Knows no roles by name: the question says which
// resources a role has. Deterministic. Invariant: `infeasible` is a proof.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/modulo/closure.hpp"
#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/search.hpp"

namespace tj::sched {

/// The cycle of a node plus an offset.
struct Moment {
  int node = 0;
  int after = 0;
};

/// `amount` of a resource from `begin` to the latest of `ends` (exclusive), again every II.
struct Holding {
  Moment begin;
  std::int64_t amount = 0;
  std::vector<Moment> ends;
};

/// Something of which no more than `capacity` may be held at once.
struct Resource {
  std::int64_t capacity = 0;
  std::vector<Holding> holdings;
};

/// Peaks of several resources, rounded up to `step` and to at least their `least`, times `weight`, may not exceed
/// `limit` together.
struct Total {
  std::vector<int> resources;
  std::vector<int> weights;
  int step = 1;
  std::vector<std::int64_t> least;
  std::int64_t limit = 0;
};

/// One question's rules. The pairs may name the same two nodes more than once.
struct TimeRules {
  int ii = 1;
  bool possible = true;  ///< false: two nodes exclude each other
  std::vector<Pair> pairs;
  std::vector<Resource> resources;
  bool has_total = false;
  Total total;
};

/// The most of a resource that is held in any cycle.
std::int64_t peak(const Resource& resource, int ii, const std::vector<int>& cycle);

class TimeSearch {
 public:
  /// The rules must outlive the search.
  explicit TimeSearch(const TimeRules& rules) : rules_(rules) {}

  /// In `root`, index 0 is the origin and node n has index n + 1; the origin bounds every node both ways. Visits at
  /// most `limit` nodes. A found answer leaves the cycles in `cycle`.
  Verdict run(const Closure& root, std::uint64_t limit, std::vector<int>& cycle);
  std::uint64_t visited() const { return visited_; }
  /// Do these cycles satisfy all pairs and resources (edges are not looked at)?
  bool satisfied(const std::vector<int>& cycle) const;

 private:
  struct Constraint {
    int from = 0, to = 0, least = 0;  ///< t_to - t_from >= least
  };
  using Case = std::vector<Constraint>;  ///< all of them together

  Verdict descend(std::size_t depth);
  bool propagate(Closure& closure) const;
  bool limits_fit(const Closure& closure) const;
  std::int64_t least_peak(const Resource& resource, const Closure& closure) const;
  /// Cases for a broken rule: every solution satisfies at least one of them, the cycles given satisfy none. False when
  /// the cycles break no rule.
  bool broken(const std::vector<int>& cycle, std::vector<Case>& cases) const;
  bool broken_pair(const std::vector<int>& cycle, std::vector<Case>& cases) const;
  bool broken_resource(const Resource& resource, const std::vector<int>& cycle, std::vector<Case>& cases) const;
  bool broken_total(const std::vector<int>& cycle, std::vector<Case>& cases) const;
  /// Ways in which the holdings that meet at the begin of `first` could cease to exceed `capacity`; only as many
  /// holdings as it takes.
  void part(const Resource& resource, std::size_t first, std::int64_t capacity, const std::vector<int>& cycle,
            std::vector<Case>& cases) const;
  static bool take(Closure& closure, const Case& each);

  const TimeRules& rules_;
  std::deque<Closure> states_;
  std::uint64_t visited_ = 0, limit_ = 0;
};

}  // namespace tj::sched
