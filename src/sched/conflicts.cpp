// Units -> pairs and covers (see conflicts.hpp).
#include "sched/conflicts.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace tj::sched {
namespace {

/// Forbidden distances modulo ii -> allowed intervals. False when nothing is allowed.
bool complement(std::vector<Interval> forbidden, int ii, std::vector<Interval>& allowed) {
  std::vector<Interval> cut;
  for (const Interval& each : forbidden) {
    const int length = each.high - each.low + 1;
    if (length >= ii) return false;
    const int low = modulo(each.low, ii);
    const int high = low + length - 1;
    cut.push_back({low, std::min(high, ii - 1)});
    if (high >= ii) cut.push_back({0, high - ii});
  }
  std::sort(cut.begin(), cut.end(), [](const Interval& a, const Interval& b) { return a.low < b.low; });
  int next = 0;
  for (const Interval& each : cut) {
    if (each.low > next) allowed.push_back({next, each.low - 1});
    next = std::max(next, each.high + 1);
  }
  if (next < ii) allowed.push_back({next, ii - 1});
  if (allowed.empty()) return false;
  // An interval that ends where the circle closes continues in the first one.
  if (allowed.size() > 1 && allowed.front().low == 0 && allowed.back().high == ii - 1) {
    allowed.back().high = ii + allowed.front().high;
    allowed.erase(allowed.begin());
  }
  return true;
}

/// A node's own reservations repeat every II and may meet each other.
bool fits_alone(const Cover& cover, int node, int ii) {
  for (const CoverItem& first : cover.items) {
    if (first.node != node) continue;
    int total = 0;
    for (const CoverItem& other : cover.items)
      if (other.node == node && modulo(first.start - other.start, ii) < other.cycles) total += other.count;
    if (total > cover.capacity) return false;
  }
  return true;
}

std::vector<Cover> make_covers(const Problem& problem, int ii) {
  std::vector<Cover> covers(problem.units.size());
  for (std::size_t u = 0; u < covers.size(); ++u) covers[u].capacity = problem.units[u].capacity;
  for (int i = 0; i < problem.size(); ++i)
    for (const graph::Reservation& use : problem.uses[static_cast<std::size_t>(i)]) {
      Cover& cover = covers[static_cast<std::size_t>(use.unit)];
      cover.capacity -= use.cycles / ii * use.count;
      if (use.cycles % ii != 0) cover.items.push_back({i, use.start, use.cycles % ii, use.count});
    }
  return covers;
}

}  // namespace

Conflicts make_conflicts(const Problem& problem, int ii) {
  Conflicts result;
  const std::vector<Cover> covers = make_covers(problem, ii);
  const auto size = static_cast<std::size_t>(problem.size());
  std::vector<std::vector<Interval>> forbidden(size * size);
  for (const Cover& cover : covers) {
    if (cover.capacity < 0) result.possible = false;
    int total = 0;
    for (std::size_t a = 0; a < cover.items.size(); ++a) {
      const CoverItem& first = cover.items[a];
      total += first.count;
      const bool several = a + 1 < cover.items.size() && cover.items[a + 1].node == first.node;
      if (first.count > cover.capacity || (several && !fits_alone(cover, first.node, ii))) result.possible = false;
      for (std::size_t b = a + 1; b < cover.items.size(); ++b) {
        const CoverItem& second = cover.items[b];
        if (first.node == second.node || first.count + second.count <= cover.capacity) continue;
        const int offset = first.start - second.start;  // items are in node order, so first.node < second.node
        forbidden[static_cast<std::size_t>(first.node) * size + static_cast<std::size_t>(second.node)].push_back(
            {offset - second.cycles + 1, offset + first.cycles - 1});
      }
    }
    if (cover.capacity > 1 && total > cover.capacity) result.covers.push_back(cover);
  }
  for (int i = 0; i < problem.size() && result.possible; ++i)
    for (int j = i + 1; j < problem.size(); ++j) {
      auto& rules = forbidden[static_cast<std::size_t>(i) * size + static_cast<std::size_t>(j)];
      if (rules.empty()) continue;
      Pair pair{i, j, {}};
      if (!complement(std::move(rules), ii, pair.allowed)) {
        result.possible = false;
        break;
      }
      result.pairs.push_back(std::move(pair));
    }
  return result;
}

int next_allowed(const Pair& pair, int ii, int x) {
  const int rest = modulo(x, ii);
  int best = std::numeric_limits<int>::max();
  for (const Interval& each : pair.allowed) {
    // In this round, in what reaches over from the round before, or first of the next round.
    if (rest + ii <= each.high || (rest >= each.low && rest <= each.high)) return x;
    best = std::min(best, rest < each.low ? each.low - rest : each.low + ii - rest);
  }
  return x + best;
}

int previous_allowed(const Pair& pair, int ii, int x) {
  const int rest = modulo(x, ii);
  int best = std::numeric_limits<int>::max();
  for (const Interval& each : pair.allowed) {
    if (rest + ii <= each.high || (rest >= each.low && rest <= each.high)) return x;
    if (each.high >= ii) {
      best = std::min(best, rest - (each.high - ii));  // rest + ii > high, and low > rest: the last end was at high - ii
    } else {
      best = std::min(best, rest > each.high ? rest - each.high : rest + ii - each.high);
    }
  }
  return x - best;
}

bool same_interval(const Pair& pair, int ii, int a, int b) {
  if (b - a >= ii) return false;
  const int rest = modulo(a, ii);
  const int reach = rest + (b - a);
  for (const Interval& each : pair.allowed)
    if ((rest >= each.low && reach <= each.high) || (rest + ii >= each.low && reach + ii <= each.high)) return true;
  return false;
}

}  // namespace tj::sched
