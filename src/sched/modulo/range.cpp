// See range.hpp.
#include "sched/modulo/range.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/rounds.hpp"
#include "sched/modulo/search.hpp"

namespace tj::sched {
namespace {

constexpr int kAlone = 16;  ///< most problems have a schedule before
constexpr std::uint64_t kLeastNodes = 100;
constexpr std::uint64_t kMoreNodes = 2;  ///< a question may take so many times the nodes of the last answer
constexpr int kWidest = 1 << 12;

}  // namespace

void RangeRefuter::excluded_alone(std::uint64_t visited) {
  ++alone_;
  nodes_ = visited;
  if (width_ == 0 && alone_ >= kAlone) width_ = kAlone;
}

void RangeRefuter::excluded_before() { alone_ = width_ = kAlone; }

int RangeRefuter::excluded(int ii, int last) {
  if (alone_ < kAlone) return 0;
  for (; width_ > 0; width_ /= 2) {
    const int high = std::min(last, ii + width_ - 1);
    if (!refute(ii, high)) continue;
    width_ = std::min(2 * width_, kWidest);
    return high - ii + 1;
  }
  width_ = 1;
  return 0;
}

bool RangeRefuter::refute(int low, int high) {
  Closure edges = edges_at(problem_, high);
  if (!edges.close()) return false;
  const Closure root = rounds_apart(edges, high);
  int span = 0;
  for (int i = 1; i < root.size(); ++i)
    for (int k = 1; k < root.size(); ++k) span = std::max(span, std::abs(root.at(i, k)));
  if (span >= kHorizon) return false;
  const bool alone = low == high;
  const int period = alone ? low : 2 * span + 2;
  const Conflicts conflicts =
      alone ? make_conflicts(problem_, low, true) : conflicts_between(problem_, low, high, root, period);
  Search search(conflicts, period, false);
  std::vector<int> cycle;
  const std::uint64_t limit = std::min(budget_, std::max(kLeastNodes, kMoreNodes * nodes_));
  const bool refuted = search.run(root, 0, limit, cycle) == Verdict::infeasible;
  budget_ -= std::min(budget_, search.visited());
  if (refuted) nodes_ = search.visited();
  return refuted;
}

}  // namespace tj::sched
