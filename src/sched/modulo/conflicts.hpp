// Limits that units set at one initiation interval, as questions about the distance of two nodes modulo II.
//
// Two reservations that together exceed a unit's capacity must be disjoint: t_j - t_i lies in a few intervals modulo
// II. Larger capacities also need sums: at the start of a reservation, the counts of all that cover it fit. Decides no
// times. Invariant: cycles that satisfy every pair and every cover respect every unit in every modulo slot.
#pragma once

#include <cstddef>
#include <vector>

#include "sched/modulo/closure.hpp"
#include "sched/modulo/problem.hpp"

namespace tj::sched {

struct Interval {
  int low = 0, high = 0;  ///< inclusive; 0 <= low < II; high may reach beyond II where the interval wraps
};

/// t_j - t_i modulo II must lie in one of `allowed` (sorted, disjoint, not everything).
struct Pair {
  int i = 0, j = 0;
  std::vector<Interval> allowed;
  /// The part of `allowed` that is left when the unit's other work must fit into the gaps as well: no solution lies
  /// outside. Empty: as `allowed`.
  std::vector<Interval> reachable;
  const std::vector<Interval>& narrowed() const { return reachable.empty() ? allowed : reachable; }
};

/// One reservation, without the whole rounds that it makes of II.
struct CoverItem {
  int node = 0;
  int start = 0;
  int cycles = 0;  ///< below II
  int count = 0;
};

/// A unit on which three or more reservations may meet.
struct Cover {
  int capacity = 0;  ///< count that whole rounds leave
  std::vector<CoverItem> items;
};

/// Reservations of a unit, no two of which may meet: whatever the II, they follow one another.
struct Queue {
  std::vector<CoverItem> items;
  std::size_t own = 0;  ///< so many of them; the others are their instances of the iteration before
};

struct Conflicts {
  bool possible = true;  ///< false: one node or one pair alone rules this II out
  std::vector<Pair> pairs;
  std::vector<Cover> covers;
  std::vector<Queue> queues;  ///< queues of two or more reservations
};

/// `narrow`: with Pair::reachable, which costs more and is worth it in an exact search.
Conflicts make_conflicts(const Problem& problem, int ii, bool narrow = false);

/// Limits that hold at each II from `low` to `high`: where two reservations exclude each other at all of these. `root`
/// bounds each distance both ways; index 0 is the origin and node n has index n + 1. Distances are modulo `period`, by
/// which no two of them are alike. Covers and queues are left out.
Conflicts conflicts_between(const Problem& problem, int low, int high, const Closure& root, int period);

/// x modulo ii in [0, ii).
inline int modulo(int x, int ii) {
  const int rest = x % ii;
  return rest < 0 ? rest + ii : rest;
}

/// The allowed distance nearest to x from above (or x itself), and from below.
int next_allowed(const std::vector<Interval>& allowed, int ii, int x);
int previous_allowed(const std::vector<Interval>& allowed, int ii, int x);
/// Do two allowed distances a <= b lie in the same interval of the same round?
bool same_interval(const std::vector<Interval>& allowed, int ii, int a, int b);
inline int next_allowed(const Pair& pair, int ii, int x) { return next_allowed(pair.allowed, ii, x); }
inline int previous_allowed(const Pair& pair, int ii, int x) { return previous_allowed(pair.allowed, ii, x); }

}  // namespace tj::sched
