// One initiation interval of a problem: the facts that are known of it, and the questions put to the search inside it.
//
// Decides which windows become roots of a Search, and how a schedule of the rounds becomes one of all edges. Keeps the
// best schedule that it was offered. Invariant: the best schedule satisfies every edge and unit.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sched/modulo/closure.hpp"
#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/modulo/search.hpp"

namespace tj::sched {

class AtInterval {
 public:
  /// `ordered`: exchangeable nodes, the first no later than the second. Without `exact` it only keeps what it is
  /// offered. All references must outlive this.
  AtInterval(const Problem& problem, int ii, const std::vector<std::pair<int, int>>& ordered, bool exact,
             std::uint64_t& budget);

  /// Prepares; false when the II is impossible without any search.
  bool prepare();
  int ii() const { return ii_; }
  int shortest() const { return shortest_; }  ///< length that edges alone ask for
  const std::vector<int>& best() const { return best_; }
  int best_length() const { return best_length_; }

  /// Is there a schedule of at most this length? A found one becomes the best.
  Verdict probe(int length, std::uint64_t limit);
  /// Is there a schedule of any length?
  Verdict probe_interval(std::uint64_t limit);
  /// Moves nodes as early as they can before it offers.
  void offer_advanced(std::vector<int> cycle);

 private:
  void offer(std::vector<int> cycle);
  Verdict ask(Search& search, const Closure& root, int scope, std::uint64_t limit, std::vector<int>& cycle);
  bool window(int length, Closure& root) const;
  void join_components(std::vector<int>& cycle) const;
  void advance(std::vector<int>& cycle) const;

  const Problem& problem_;
  int ii_;
  const std::vector<std::pair<int, int>>& ordered_;
  std::uint64_t& budget_;
  Conflicts conflicts_;
  Search in_window_, in_round_;  ///< what one search learns does not hold for the other's roots
  Closure base_;
  std::vector<int> earliest_;
  int shortest_ = 0, last_cycle_ = 0;
  std::uint64_t spent_ = 0;
  std::vector<int> best_;
  int best_length_ = 0;
};

}  // namespace tj::sched
