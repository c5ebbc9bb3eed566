// Exact search for cycles at one initiation interval: difference constraints, and clauses over comparisons of
// distances.
//
// A unit leaves gaps in the distance of two nodes: t_j - t_i is at most `low` or at least `high`. One comparison says
// which. Comparisons are decided where nodes collide at their earliest cycles. The closure propagates what follows.
// Every contradiction is learnt as a clause that keeps the search from meeting it again.
//
// No time-indexed variables, so raw cycles cost nothing. Decides one question: is there a solution inside the closure?
// Deterministic: the same questions in the same order visit the same nodes. Invariant: `infeasible` is a proof.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "sched/modulo/closure.hpp"
#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/paths.hpp"

namespace tj::sched {

enum class Verdict { found, infeasible, unknown };

class Search {
 public:
  /// The conflicts must outlive the search. `queues`: looks at work that queues for a unit, which is worth its price
  /// where roots bound nodes from both sides by edges.
  Search(const Conflicts& conflicts, int ii, bool queues);

  /// In `root`, index 0 is the origin and node n has index n + 1; every two indexes must be bounded both ways. Visits
  /// at most `limit` nodes; `unknown` when that was not enough. `time` gets the cycles of all nodes. Clauses learnt
  /// inside a root are used again inside roots of the same or a smaller `scope`. So a smaller scope must mean a tighter
  /// root.
  Verdict run(const Closure& root, int scope, std::uint64_t limit, std::vector<int>& time);
  /// From now on looks at more where work queues: more is excluded, at a higher price a node.
  void widen() { wide_ = true; }
  std::uint64_t visited() const { return visited_; }

 private:
  static constexpr int kNone = -1, kPropagate = -2;  ///< instead of a literal
  static constexpr int kNoReason = -1;
  static constexpr int kEverywhere = 1 << 30;  ///< the scope of what holds inside any root

  /// True: t_j - t_i >= high; false: <= low. Indexes of the closure.
  struct Comparison {
    int i = 0, j = 0;
    int low = 0, high = 0;
    int value = 0;  ///< 1 true, -1 false, 0 open
    int level = 0;
    int reason = kNoReason;  ///< a clause, or below -1 a place in reasons_
    int phase = 0;           ///< the value that it had last
    double activity = 0;
    bool seen = false;
    bool in_clause = false;  ///< its value matters to others
    std::uint64_t mark = 0;  ///< the list that it was last put into
  };
  struct Clause {
    std::vector<int> literals;  ///< 2 * comparison, + 1 when negated; the first two are watched
    int scope = 0;
    std::uint64_t used = 0;  ///< the contradiction that it last took part in
  };
  /// One reservation of a queue as seen from a target node.
  struct QueueEntry {
    int node = 0;  ///< index in the closure
    int edge = 0;  ///< earliest begin, or minus the latest end
    int cycles = 0;
    int apart = 0;  ///< least time between the reservation and the target
  };
  struct Level {
    Paths paths;
    std::vector<char> decided;                  ///< per pair: the distance can no longer leave its interval
    std::vector<std::pair<int, int>> followed;  ///< per pair: the least and the most distance that follow_pair last saw
    std::size_t trail = 0, reasons = 0;         ///< how much was there when the level began
  };

  void start(const Closure& root, int scope);
  Level& here() { return *here_; }
  const Level& here() const { return *here_; }
  int earliest(int node) const { return here_->paths.at(0, node + 1); }
  // Decisions: a literal, kNone when all is well, kPropagate when something was found that follows.
  int decide_pair();
  int decide_cover(bool& contradiction);
  bool cover_clause(const Cover& cover, const CoverItem& item, std::vector<int>& clause);
  void descend(int literal);
  // Comparisons and literals.
  int add_comparison(int i, int j, int low, int high);
  int comparison(std::size_t pair, int low, int high);
  int plain_comparison(int i, int j, int least);
  Distance distance_of(int literal) const;
  int value_of(int literal) const;
  bool enqueue(int literal, int reason);
  void back_to(std::size_t level);
  // Propagation; false: conflict_ has literals that are all false.
  bool propagate();
  bool assert_next();
  bool visit_watches(int literal);
  bool moved(std::size_t pair);
  bool follow_pair(std::size_t pair);
  bool follow(int comparison);
  bool derive(const Distance& bound, int i, int j);
  bool insert_derived(const Distance& bound);
  bool follow_queues();
  void look(const Queue& queue, bool before);
  bool gather(const Queue& queue, int target, bool before, std::uint64_t& quiet);
  std::size_t items_of(const Queue& queue) const { return wide_ ? queue.items.size() : queue.own; }
  int edge_of(const CoverItem& item, bool before) const;
  int known_edge(int target, bool before) const;
  int queue_bound();
  bool follow_queue(int target, bool before, std::uint64_t& quiet);
  void explain(int i, int j, std::vector<int>& clause);
  void remove_repeated(std::vector<int>& literals);
  int reason_from_path(int i, int j);
  int reason_from(const std::vector<int>& clause);
  // Learning.
  bool resolve();
  bool analyse(std::vector<int>& learnt);
  template <typename Visit>
  void each_reason(int comparison, const Visit& visit) const;
  void shorten(std::vector<int>& learnt) const;
  void bump(int comparison);
  int add_clause(std::vector<int> literals, int scope);
  void forget_scope(int scope);
  void forget_weak();
  void watch_all();
  void watch(int clause);

  const Conflicts& conflicts_;
  int ii_;
  int scope_ = 0;
  std::vector<Comparison> comparisons_;
  std::vector<std::vector<int>> of_pair_;  ///< comparisons of each pair
  std::vector<int> in_clauses_;            ///< comparisons that clauses hold
  std::vector<int> plain_;                 ///< comparisons that belong to no pair
  std::set<std::vector<int>> cover_clauses_;
  std::vector<Clause> clauses_;
  std::vector<std::vector<int>> watches_;  ///< per literal: clauses that watch it
  std::deque<Level> levels_;
  Level* here_ = nullptr;  ///< the last of them
  std::size_t depth_ = 0, next_ = 0;
  bool queues_, wide_ = false;
  bool derived_ = false;  ///< a bound was inserted that no comparison stands for
  std::vector<int> trail_, reasons_, conflict_, causes_, literals_;
  std::vector<int> apart_, total_, known_, promising_;  ///< for the queue that is looked at, per target
  std::vector<std::uint64_t> quiet_;          ///< per queue, target and side: how it looked when nothing followed
  std::vector<QueueEntry> entries_;           ///< for the queue that is looked at
  std::vector<std::pair<int, int>> by_edge_;  ///< edge and cycles of some of them, latest edge first
  double bump_ = 1;
  std::uint64_t visited_ = 0, met_ = 0, lists_ = 0;
};

}  // namespace tj::sched
