// Units -> pairs and covers (see conflicts.hpp).
#include "sched/modulo/conflicts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

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
  std::vector<CoverItem> own;
  std::copy_if(cover.items.begin(), cover.items.end(), std::back_inserter(own),
               [&](const CoverItem& item) { return item.node == node; });
  return std::all_of(own.begin(), own.end(), [&](const CoverItem& first) {
    int total = 0;
    for (const CoverItem& other : own)
      if (modulo(first.start - other.start, ii) < other.cycles) total += other.count;
    return total <= cover.capacity;
  });
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

/// Gaps between two reservations of a unit with little time to spare. The time between them is what some of the others
/// take, and at most the spare time. Every other distance of the two is forbidden too.
class Gaps {
 public:
  Gaps(const Cover& cover, int ii) : cover_(cover), ii_(ii), spare_(ii) {
    int least = ii;
    for (const CoverItem& item : cover.items) {
      spare_ -= item.cycles;
      least = std::min(least, item.cycles);
    }
    const bool alone = std::all_of(cover.items.begin(), cover.items.end(),
                                   [&](const CoverItem& item) { return item.count == cover.capacity; });
    useful_ = alone && spare_ >= 0 && spare_ < least && cover.items.size() <= kMostItems && ii <= kLongest;
  }
  bool useful() const { return useful_; }

  /// Distances from the begin of `a` to the begin of `b`, modulo II, that leave a gap which nothing fits.
  const std::vector<Interval>& forbidden(const CoverItem& a, const CoverItem& b) {
    const auto [place, fresh] = known_.try_emplace({a.cycles, b.cycles});
    if (!fresh) return place->second;
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(ii_) / 64 + 1,
                                    0);  // bit v: some of the others take v cycles together
    sums[0] = 1;
    for (const CoverItem& other : cover_.items)
      if (&other != &a && &other != &b) add_shifted(sums, other.cycles);
    int next = a.cycles;  // nothing below is left open by the sums so far
    for (int value = 0; value <= ii_ - a.cycles - b.cycles; ++value) {
      const std::uint64_t rest = sums[static_cast<std::size_t>(value) / 64] >> (value % 64);
      if (rest == 0) value |= 63;
      if ((rest & 1) == 0) continue;
      if (value + a.cycles > next + ii_ / kSmallest) place->second.push_back({next, value + a.cycles - 1});
      next = value + a.cycles + spare_ + 1;
    }
    if (next + ii_ / kSmallest <= ii_ - b.cycles) place->second.push_back({next, ii_ - b.cycles});
    return place->second;
  }

 private:
  static void add_shifted(std::vector<std::uint64_t>& bits, int by) {
    const std::size_t words = static_cast<std::size_t>(by) / 64, rest = static_cast<std::size_t>(by) % 64;
    for (std::size_t w = bits.size(); w-- > words;) {
      std::uint64_t moved = bits[w - words] << rest;
      if (rest > 0 && w > words) moved |= bits[w - words - 1] >> (64 - rest);
      bits[w] |= moved;
    }
  }

  static constexpr int kSmallest = 32;  ///< shorter gaps than this part of II are left out: many, and little to gain
  static constexpr std::size_t kMostItems = 32;
  static constexpr int kLongest = 1 << 14;
  const Cover& cover_;
  int ii_, spare_;
  bool useful_ = false;
  std::map<std::pair<int, int>, std::vector<Interval>> known_;  ///< by the cycles of the two
};

constexpr int kBusyPercent = 80;

/// The instances of the iteration before are worth knowing of on a busy unit, too.
Queue make_queue(const Cover& cover, int ii) {
  Queue queue;
  std::int64_t busy = 0;
  for (const CoverItem& item : cover.items) {
    if (2 * item.count <= cover.capacity) continue;
    queue.items.push_back(item);
    busy += item.cycles;
  }
  queue.own = queue.items.size();
  if (queue.own > 1 && busy * 100 >= std::int64_t{ii} * kBusyPercent)
    for (std::size_t k = 0; k < queue.own; ++k) {
      queue.items.push_back(queue.items[k]);
      queue.items.back().start -= ii;
    }
  return queue;
}

/// Forbidden distances of every two nodes, (i, j) at i * size + j for i < j.
using Forbidden = std::vector<std::vector<Interval>>;

/// The pairs that one unit forbids; false when it rules out the II by itself.
bool add_forbidden(const Cover& cover, int ii, bool narrow, std::size_t size, Forbidden& overlap, Forbidden& gap) {
  Gaps gaps(cover, ii);
  narrow = narrow && gaps.useful();
  for (std::size_t a = 0; a < cover.items.size(); ++a) {
    const CoverItem& first = cover.items[a];
    // Asked once, at the first of a node's reservations.
    const bool several = a + 1 < cover.items.size() && cover.items[a + 1].node == first.node &&
                         (a == 0 || cover.items[a - 1].node != first.node);
    if (first.count > cover.capacity || (several && !fits_alone(cover, first.node, ii))) return false;
    for (std::size_t b = a + 1; b < cover.items.size(); ++b) {
      const CoverItem& second = cover.items[b];
      if (first.node == second.node || first.count + second.count <= cover.capacity) continue;
      const int offset = first.start - second.start;  // items are in node order, so first.node < second.node
      const std::size_t place = static_cast<std::size_t>(first.node) * size + static_cast<std::size_t>(second.node);
      overlap[place].push_back({offset - second.cycles + 1, offset + first.cycles - 1});
      if (!narrow) continue;
      for (const Interval& each : gaps.forbidden(first, second))
        gap[place].push_back({each.low + offset, each.high + offset});
    }
  }
  return true;
}

}  // namespace

Conflicts make_conflicts(const Problem& problem, int ii, bool narrow) {
  Conflicts result;
  const auto size = static_cast<std::size_t>(problem.size());
  Forbidden overlap(size * size), gap(size * size);
  for (const Cover& cover : make_covers(problem, ii)) {
    int total = 0;
    for (const CoverItem& item : cover.items) total += item.count;
    if (cover.capacity < 0 || !add_forbidden(cover, ii, narrow, size, overlap, gap)) result.possible = false;
    if (cover.capacity > 1 && total > cover.capacity) result.covers.push_back(cover);
    if (Queue queue = make_queue(cover, ii); queue.items.size() > 1) result.queues.push_back(std::move(queue));
  }
  for (int i = 0; i < problem.size() && result.possible; ++i)
    for (int j = i + 1; j < problem.size(); ++j) {
      const std::size_t place = static_cast<std::size_t>(i) * size + static_cast<std::size_t>(j);
      if (overlap[place].empty()) continue;
      Pair pair{i, j, {}, {}};
      std::vector<Interval> both = overlap[place];
      both.insert(both.end(), gap[place].begin(), gap[place].end());
      if (!complement(overlap[place], ii, pair.allowed) ||
          (!gap[place].empty() && !complement(std::move(both), ii, pair.reachable))) {
        result.possible = false;
        break;
      }
      result.pairs.push_back(std::move(pair));
    }
  return result;
}

namespace {

/// Distances within `bounds` of two reservations that meet at each II from `low` to `high`. In the k-th round they do
/// from k * II + offset - second + 1 to k * II + offset + first - 1.
void meet_between(const CoverItem& first, const CoverItem& second, int low, int high, const Interval& bounds,
                  std::vector<Interval>& forbidden) {
  const std::int64_t begin = std::int64_t{first.start} - second.start - second.cycles + 1,
                     end = std::int64_t{first.start} - second.start + first.cycles - 1;
  for (std::int64_t k = (bounds.low - end) / low - 1; k <= (bounds.high - begin) / low + 1; ++k) {
    const std::int64_t from = std::max<std::int64_t>(k * (k < 0 ? low : high) + begin, bounds.low),
                       to = std::min<std::int64_t>(k * (k < 0 ? high : low) + end, bounds.high);
    if (from <= to) forbidden.push_back({static_cast<int>(from), static_cast<int>(to)});
  }
}

/// Has a unit a reservation of so many cycles? It meets itself at II of `cycles` and less.
bool has_reservation(const Problem& problem, std::size_t unit, int cycles) {
  return std::any_of(problem.uses.begin(), problem.uses.end(), [&](const auto& uses) {
    return std::any_of(uses.begin(), uses.end(), [&](const graph::Reservation& use) {
      return static_cast<std::size_t>(use.unit) == unit && use.cycles >= cycles;
    });
  });
}

}  // namespace

Conflicts conflicts_between(const Problem& problem, int low, int high, const Closure& root, int period) {
  Conflicts result;
  const auto size = static_cast<std::size_t>(problem.size());
  Forbidden overlap(size * size);
  const std::vector<Cover> covers = make_covers(problem, high);
  for (std::size_t u = 0; u < covers.size(); ++u) {
    if (has_reservation(problem, u, low)) continue;
    for (auto first = covers[u].items.begin(); first != covers[u].items.end(); ++first)
      for (auto second = first + 1; second != covers[u].items.end(); ++second) {
        if (first->node == second->node || first->count + second->count <= covers[u].capacity) continue;
        const int i = first->node + 1, j = second->node + 1;
        meet_between(*first, *second, low, high, {root.at(i, j), -root.at(j, i)},
                     overlap[static_cast<std::size_t>(first->node) * size + static_cast<std::size_t>(second->node)]);
      }
  }
  for (int i = 0; i < problem.size(); ++i)
    for (int j = i + 1; j < problem.size(); ++j) {
      std::vector<Interval>& own = overlap[static_cast<std::size_t>(i) * size + static_cast<std::size_t>(j)];
      if (own.empty()) continue;
      Pair pair{i, j, {}, {}};
      complement(std::move(own), period, pair.allowed);
      result.pairs.push_back(std::move(pair));
    }
  return result;
}

/// The last interval that begins at `rest` or before; null: none does.
const Interval* last_until(const std::vector<Interval>& allowed, int rest) {
  const auto after = std::upper_bound(allowed.begin(), allowed.end(), rest,
                                      [](int value, const Interval& each) { return value < each.low; });
  return after == allowed.begin() ? nullptr : &*(after - 1);
}

int next_allowed(const std::vector<Interval>& allowed, int ii, int x) {
  const int rest = modulo(x, ii);
  if (rest + ii <= allowed.back().high) return x;  // reaches over from the round before
  const Interval* at = last_until(allowed, rest);
  if (at != nullptr && rest <= at->high) return x;
  const Interval* next = at == nullptr ? &allowed.front() : at + 1;
  return x + (next == allowed.data() + allowed.size() ? allowed.front().low + ii : next->low) - rest;
}

int previous_allowed(const std::vector<Interval>& allowed, int ii, int x) {
  const int rest = modulo(x, ii);
  if (rest + ii <= allowed.back().high) return x;
  const Interval* at = last_until(allowed, rest);
  if (at == nullptr) return x - rest + allowed.back().high - ii;
  return rest <= at->high ? x : x - rest + at->high;
}

bool same_interval(const std::vector<Interval>& allowed, int ii, int a, int b) {
  if (b - a >= ii) return false;
  const int rest = modulo(a, ii), reach = rest + (b - a);
  if (rest + ii <= allowed.back().high) return reach + ii <= allowed.back().high;
  const Interval* at = last_until(allowed, rest);
  return at != nullptr && rest <= at->high && reach <= at->high;
}

}  // namespace tj::sched
