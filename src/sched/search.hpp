// Exact search for cycles at one initiation interval: difference constraints, and one decision for each pair of nodes whose
// earliest cycles collide on a unit (t_j - t_i goes to the next allowed interval above, or below).
//
// No time-indexed variables, so raw cycles cost nothing. Decides one question: is there a solution inside the closure?
// Deterministic: the same question visits the same nodes. Invariant: `infeasible` is a proof.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/closure.hpp"
#include "sched/conflicts.hpp"

namespace tj::sched {

enum class Verdict { found, infeasible, unknown };

class Search {
 public:
  /// In `root`, index 0 is the origin and node n has index n + 1; every two indexes must be bounded both ways. The
  /// conflicts must outlive the search.
  Search(const Conflicts& conflicts, int ii) : conflicts_(conflicts), ii_(ii) {}

  /// Visits at most `limit` nodes; `unknown` when that was not enough. `time` gets the cycles of all nodes.
  Verdict run(const Closure& root, std::uint64_t limit, std::vector<int>& time);
  std::uint64_t visited() const { return visited_; }

 private:
  struct State {
    Closure closure;
    std::vector<char> decided;  ///< per pair: the distance can no longer leave its interval
  };
  /// Constraints that together leave no case out: one branch each.
  struct Branch {
    int from = 0, to = 0;      ///< t_to - t_from >= least
    int least = 0;
    bool bounded = false;      ///< and <= most
    int most = 0;
    int room = 0;              ///< how much freedom it leaves
  };

  Verdict descend(std::size_t depth);
  bool propagate(State& state) const;
  bool pick_pair(const State& state, std::vector<Branch>& branches) const;
  /// False when a unit is over its capacity for good.
  bool pick_cover(const State& state, std::vector<Branch>& branches) const;
  bool take(State& state, const Branch& branch) const;
  int earliest(const State& state, int node) const { return state.closure.at(0, node + 1); }

  const Conflicts& conflicts_;
  int ii_;
  std::deque<State> states_;
  std::uint64_t visited_ = 0, limit_ = 0;
};

}  // namespace tj::sched
