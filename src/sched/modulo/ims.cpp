// Iterative modulo scheduling: the heuristic for when the exact search runs out of its budget.
//
// Places nodes by height; a node that does not fit is forced in and evicts what it collides with. Decides cycles at one
// II or gives up after a fixed number of placements. Deterministic. Self-conflicts of a node are left to the caller's
// check.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/modulo.hpp"
#include "sched/modulo/reservations.hpp"

namespace tj::sched {
namespace {

constexpr int kPlacementsPerNode = 24;

class Iterative {
 public:
  Iterative(const Problem& problem, int ii)
      : problem_(problem),
        ii_(ii),
        table_(problem, ii),
        in_(count()),
        out_(count()),
        height_(count(), 0),
        cycle_(count(), -1),
        last_(count(), -1) {
    for (const graph::Edge& edge : problem.edges) {
      in_[at(edge.dst)].push_back(edge);
      if (edge.src != edge.dst) out_[at(edge.src)].push_back(edge);
    }
    limit_ = problem.max_stages > 0 ? static_cast<std::int64_t>(problem.max_stages) * ii
                                    : std::numeric_limits<int>::max() / 2;
  }

  bool run() {
    if (!fits_alone() || !make_heights()) return false;
    for (int budget = kPlacementsPerNode * problem_.size(); budget > 0; --budget) {
      const int node = next_node();
      if (node < 0) return within_limits();
      if (!place(node)) return false;
    }
    return next_node() < 0 && within_limits();
  }
  const std::vector<int>& cycles() const { return cycle_; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t count() const { return problem_.node.size(); }

  /// Asked of the empty table: no node may be in its own way.
  bool fits_alone() const {
    for (int i = 0; i < problem_.size(); ++i)
      if (table_.blocked(i, 0) != 0) return false;
    return true;
  }

  /// Longest path to any node; false when it does not settle (II below the recurrences).
  bool make_heights() {
    for (int round = 0; round <= problem_.size(); ++round) {
      bool changed = false;
      for (const graph::Edge& edge : problem_.edges) {
        const std::int64_t least = height_[at(edge.dst)] + edge.delay - std::int64_t{edge.distance} * ii_;
        if (least <= height_[at(edge.src)]) continue;
        height_[at(edge.src)] = least;
        changed = true;
      }
      if (!changed) return true;
    }
    return false;
  }

  int next_node() const {
    int best = -1;
    for (int i = 0; i < problem_.size(); ++i)
      if (cycle_[at(i)] < 0 && (best < 0 || height_[at(i)] > height_[at(best)])) best = i;
    return best;
  }

  bool place(int node) {
    std::int64_t earliest = 0;
    for (const graph::Edge& edge : in_[at(node)])
      if (edge.src != node && cycle_[at(edge.src)] >= 0)
        earliest =
            std::max(earliest, cycle_[at(edge.src)] + std::int64_t{edge.delay} - std::int64_t{edge.distance} * ii_);
    if (earliest > std::numeric_limits<int>::max() / 4) return false;
    const int first = static_cast<int>(earliest);
    int chosen = first;
    while (chosen < first + ii_) {
      const int skip = table_.blocked(node, chosen);
      if (skip == 0) break;
      chosen += skip;
    }
    if (chosen >= first + ii_) chosen = std::max(first, last_[at(node)] + 1);
    evict(node, chosen);
    table_.add(node, chosen);
    cycle_[at(node)] = chosen;
    last_[at(node)] = chosen;
    return true;
  }

  void take_out(int node) {
    table_.remove(node, cycle_[at(node)]);
    cycle_[at(node)] = -1;
  }

  void evict(int node, int chosen) {
    // Lowest height first: the node that matters least makes room.
    while (table_.blocked(node, chosen) != 0) {
      int victim = -1;
      for (int i = 0; i < problem_.size(); ++i)
        if (cycle_[at(i)] >= 0 && shares_unit(i, node) && (victim < 0 || height_[at(i)] < height_[at(victim)]) &&
            helps(i, node, chosen))
          victim = i;
      if (victim < 0) return;
      take_out(victim);
    }
    for (const auto* edges : {&in_[at(node)], &out_[at(node)]})
      for (const graph::Edge& edge : *edges) {
        const int other = edge.src == node ? edge.dst : edge.src;
        if (other == node || cycle_[at(other)] < 0) continue;
        const std::int64_t from = edge.src == node ? chosen : cycle_[at(other)],
                           to = edge.dst == node ? chosen : cycle_[at(other)];
        if (to + std::int64_t{edge.distance} * ii_ < from + edge.delay) take_out(other);
      }
  }

  bool shares_unit(int a, int b) const {
    for (const graph::Reservation& x : problem_.uses[at(a)])
      for (const graph::Reservation& y : problem_.uses[at(b)])
        if (x.unit == y.unit) return true;
    return false;
  }

  /// Do the two overlap modulo II on a unit?
  bool helps(int other, int node, int chosen) const {
    for (const graph::Reservation& x : problem_.uses[at(other)])
      for (const graph::Reservation& y : problem_.uses[at(node)]) {
        if (x.unit != y.unit) continue;
        const int a = cycle_[at(other)] + x.start, b = chosen + y.start;
        if (modulo(b - a, ii_) < x.cycles || modulo(a - b, ii_) < y.cycles) return true;
      }
    return false;
  }

  bool within_limits() const {
    return std::all_of(cycle_.begin(), cycle_.end(), [&](int cycle) { return cycle < limit_; });
  }

  const Problem& problem_;
  int ii_;
  ReservationTable table_;
  std::vector<std::vector<graph::Edge>> in_, out_;  ///< per node
  std::vector<std::int64_t> height_;
  std::vector<int> cycle_, last_;
  std::int64_t limit_ = 0;
};

}  // namespace

std::optional<std::vector<int>> iterative_schedule(const Problem& problem, int ii) {
  Iterative iterative(problem, ii);
  if (!iterative.run()) return std::nullopt;
  return iterative.cycles();
}

}  // namespace tj::sched
