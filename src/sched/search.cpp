// Branch and bound over pair decisions (see search.hpp).
#include "sched/search.hpp"

#include <algorithm>

namespace tj::sched {

Verdict Search::run(const Closure& root, std::uint64_t limit, std::vector<int>& time) {
  visited_ = 0;
  limit_ = limit;
  if (!conflicts_.possible) return Verdict::infeasible;
  if (states_.empty()) states_.emplace_back();
  states_[0].closure = root;
  states_[0].decided.assign(conflicts_.pairs.size(), 0);
  const Verdict verdict = descend(0);
  if (verdict == Verdict::found) {
    // The solution was left in the state of its depth, which `descend` copied down to the root.
    time.resize(static_cast<std::size_t>(root.size() - 1));
    for (int n = 0; n + 1 < root.size(); ++n) time[static_cast<std::size_t>(n)] = earliest(states_[0], n);
  }
  return verdict;
}

Verdict Search::descend(std::size_t depth) {
  std::vector<Branch> branches;
  while (true) {
    if (++visited_ > limit_) return Verdict::unknown;
    State& state = states_[depth];
    if (!propagate(state)) return Verdict::infeasible;
    branches.clear();
    if (!pick_pair(state, branches) && !pick_cover(state, branches)) return Verdict::infeasible;
    if (branches.empty()) {
      if (depth > 0) states_[0].closure = state.closure;
      return Verdict::found;
    }
    std::stable_sort(branches.begin(), branches.end(), [](const Branch& a, const Branch& b) { return a.room > b.room; });
    if (states_.size() <= depth + 1) states_.emplace_back();
    for (std::size_t b = 0; b + 1 < branches.size(); ++b) {
      states_[depth + 1] = states_[depth];
      if (!take(states_[depth + 1], branches[b])) continue;
      const Verdict verdict = descend(depth + 1);
      if (verdict != Verdict::infeasible) return verdict;
    }
    if (!take(states_[depth], branches.back())) return Verdict::infeasible;
  }
}

bool Search::take(State& state, const Branch& branch) const {
  if (!state.closure.insert(branch.from + 1, branch.to + 1, branch.least)) return false;
  return !branch.bounded || state.closure.insert(branch.to + 1, branch.from + 1, -branch.most);
}

bool Search::propagate(State& state) const {
  Closure& closure = state.closure;
  bool changed = true;
  while (changed) {
    changed = false;
    for (std::size_t p = 0; p < conflicts_.pairs.size(); ++p) {
      if (state.decided[p]) continue;
      const Pair& pair = conflicts_.pairs[p];
      const int low = closure.at(pair.i + 1, pair.j + 1), high = -closure.at(pair.j + 1, pair.i + 1);
      if (high - low >= 2 * ii_) continue;  // an allowed distance is near both ends: little to gain
      const int first = next_allowed(pair, ii_, low), last = previous_allowed(pair, ii_, high);
      if (first > last) return false;
      if (first > low) {
        if (!closure.insert(pair.i + 1, pair.j + 1, first)) return false;
        changed = true;
      }
      if (last < high) {
        if (!closure.insert(pair.j + 1, pair.i + 1, -last)) return false;
        changed = true;
      }
      if (same_interval(pair, ii_, first, last)) state.decided[p] = 1;
    }
  }
  return true;
}

// Among the pairs that collide at the earliest cycles: the one that has the least freedom left whichever way it goes.
bool Search::pick_pair(const State& state, std::vector<Branch>& branches) const {
  int best = 0;
  Branch up, down;
  bool any = false;
  for (std::size_t p = 0; p < conflicts_.pairs.size(); ++p) {
    if (state.decided[p]) continue;
    const Pair& pair = conflicts_.pairs[p];
    const int distance = earliest(state, pair.j) - earliest(state, pair.i);
    const int above = next_allowed(pair, ii_, distance);
    if (above == distance) continue;
    const int below = previous_allowed(pair, ii_, distance);
    const int room_up = -state.closure.at(pair.j + 1, pair.i + 1) - above;
    const int room_down = below - state.closure.at(pair.i + 1, pair.j + 1);
    const int score = room_up + room_down;
    if (any && score >= best) continue;
    any = true;
    best = score;
    up = {pair.i, pair.j, above, false, 0, room_up};
    down = {pair.j, pair.i, -below, false, 0, room_down};
  }
  if (any) branches = {up, down};
  return any;
}

bool Search::pick_cover(const State& state, std::vector<Branch>& branches) const {
  for (const Cover& cover : conflicts_.covers)
    for (const CoverItem& item : cover.items) {
      const int start = earliest(state, item.node) + item.start;
      int total = 0;
      const CoverItem* open = nullptr;  // covers `item` now, but need not
      int low = 0, high = 0;
      for (const CoverItem& other : cover.items) {
        const int into = modulo(start - earliest(state, other.node) - other.start, ii_);
        if (into >= other.cycles) continue;
        total += other.count;
        if (open || other.node == item.node) continue;
        const int distance = earliest(state, item.node) - earliest(state, other.node);
        low = distance - into;
        high = low + other.cycles - 1;
        const bool fixed = state.closure.at(other.node + 1, item.node + 1) >= low &&
                           -state.closure.at(item.node + 1, other.node + 1) <= high;
        if (!fixed) open = &other;
      }
      if (total <= cover.capacity) continue;
      if (!open) return false;
      const int most = -state.closure.at(item.node + 1, open->node + 1), least = state.closure.at(open->node + 1, item.node + 1);
      branches = {{open->node, item.node, high + 1, false, 0, most - high - 1},
                  {item.node, open->node, -(low - 1), false, 0, low - 1 - least},
                  {open->node, item.node, low, true, high, std::min(most, high) - std::max(least, low)}};
      return true;
    }
  return true;
}

}  // namespace tj::sched
