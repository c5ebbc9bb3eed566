// Consequences of decisions, through the closure and through learnt clauses (see search.hpp).
#include <algorithm>
#include <cstddef>
#include <utility>

#include "sched/modulo/search.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

constexpr int kRounds = 4;
constexpr int kQueueRounds = 1;  ///< each is a valid step; without a bound they may creep through an infeasible window

}  // namespace

int Search::add_comparison(int i, int j, int low, int high) {
  Comparison one;
  one.i = i;
  one.j = j;
  one.low = low;
  one.high = high;
  comparisons_.push_back(one);
  watches_.resize(2 * comparisons_.size());
  return static_cast<int>(comparisons_.size()) - 1;
}

int Search::comparison(std::size_t pair, int low, int high) {
  for (const int each : of_pair_[pair])
    if (comparisons_[at(each)].high == high) return each;
  const Pair& nodes = conflicts_.pairs[pair];
  of_pair_[pair].push_back(add_comparison(nodes.i + 1, nodes.j + 1, low, high));
  return of_pair_[pair].back();
}

int Search::plain_comparison(int i, int j, int least) {
  for (const int each : plain_) {
    const Comparison& known = comparisons_[at(each)];
    if (known.i == i && known.j == j && known.high == least) return each;
  }
  plain_.push_back(add_comparison(i, j, least - 1, least));
  return plain_.back();
}

Distance Search::distance_of(int literal) const {
  const Comparison& c = comparisons_[at(literal / 2)];
  return literal % 2 == 0 ? Distance{c.i, c.j, c.high} : Distance{c.j, c.i, -c.low};
}

int Search::value_of(int literal) const {
  const int value = comparisons_[at(literal / 2)].value;
  return literal % 2 == 0 ? value : -value;
}

bool Search::enqueue(int literal, int reason) {
  Comparison& c = comparisons_[at(literal / 2)];
  const int value = literal % 2 == 0 ? 1 : -1;
  if (c.value != 0) return c.value == value;
  c.value = c.phase = value;
  c.level = static_cast<int>(depth_);
  c.reason = reason;
  trail_.push_back(literal);
  return true;
}

/// The literals that the entry (i, j) rests on, negated: the rest of a clause that it makes.
void Search::explain(int i, int j, std::vector<int>& clause) {
  causes_.clear();
  const auto distance = [&](int cause) {
    if (cause >= 0) return distance_of(cause);
    const auto* place = reasons_.data() + (-2 - cause);
    return Distance{place[1], place[2], place[3]};
  };
  here_->paths.explain(i, j, distance, causes_);
  for (const int cause : causes_) {
    if (cause >= 0) {
      clause.push_back(cause ^ 1);
      continue;
    }
    const auto* place = reasons_.data() + (-2 - cause);
    clause.insert(clause.end(), place + 4, place + 4 + place[0]);
  }
}

void Search::remove_repeated(std::vector<int>& literals) {
  ++lists_;
  const auto repeated = [&](int literal) {
    return std::exchange(comparisons_[at(literal / 2)].mark, lists_) == lists_;
  };
  literals.erase(std::remove_if(literals.begin(), literals.end(), repeated), literals.end());
}

/// A reason that no clause stands for: kept as long as the level.
int Search::reason_from_path(int i, int j) {
  literals_.assign(1, 0);  // the literal that follows stands first
  explain(i, j, literals_);
  return reason_from(literals_);
}

/// All of `clause` but its first literal, which follows, is false.
int Search::reason_from(const std::vector<int>& clause) {
  const std::size_t begin = reasons_.size();
  reasons_.push_back(static_cast<int>(clause.size()) - 1);
  reasons_.insert(reasons_.end(), clause.begin() + 1, clause.end());
  return -2 - static_cast<int>(begin);
}

void Search::back_to(std::size_t level) {
  if (level >= depth_) return;
  const Level& next = levels_[level + 1];
  for (std::size_t k = next.trail; k < trail_.size(); ++k) comparisons_[at(trail_[k] / 2)].value = 0;
  trail_.resize(next.trail);
  reasons_.resize(next.reasons);
  depth_ = level;
  here_ = &levels_[level];
  next_ = trail_.size();
}

bool Search::propagate() {
  for (int rounds = 0, queue_rounds = 0;;) {
    while (next_ < trail_.size())
      if (!assert_next()) return false;
    const std::size_t before = trail_.size();
    derived_ = false;
    for (std::size_t p = 0; p < conflicts_.pairs.size(); ++p)
      if (!here().decided[p] && moved(p) && !follow_pair(p)) return false;
    for (const int c : in_clauses_)
      if (comparisons_[at(c)].value == 0 && !follow(c)) return false;
    if (trail_.size() != before || (derived_ && rounds++ < kRounds)) continue;
    derived_ = false;
    if (queues_ && queue_rounds++ < kQueueRounds && !follow_queues()) return false;
    if (!derived_) return true;
  }
}

bool Search::assert_next() {
  const int literal = trail_[next_++];
  const Distance bound = distance_of(literal);
  if (!here().paths.insert(bound, literal)) {
    conflict_.assign(1, literal ^ 1);
    explain(bound.to, bound.from, conflict_);
    return false;
  }
  return visit_watches(literal ^ 1);
}

/// `literal` has become false: every clause that watches it watches another one, or says what must hold.
bool Search::visit_watches(int literal) {
  std::vector<int>& list = watches_[at(literal)];
  std::size_t kept = 0;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const int index = list[k];
    std::vector<int>& literals = clauses_[at(index)].literals;
    if (literals[0] == literal) std::swap(literals[0], literals[1]);
    list[kept++] = index;
    if (value_of(literals[0]) > 0) continue;
    const auto other =
        std::find_if(literals.begin() + 2, literals.end(), [&](int each) { return value_of(each) >= 0; });
    if (other != literals.end()) {
      std::swap(literals[1], *other);
      watches_[at(literals[1])].push_back(index);
      --kept;
    } else if (!enqueue(literals[0], index)) {
      conflict_ = literals;
      while (++k < list.size()) list[kept++] = list[k];
      list.resize(kept);
      return false;
    }
  }
  list.resize(kept);
  return true;
}

/// Is the pair's distance bounded otherwise than when it was followed last?
inline bool Search::moved(std::size_t p) {
  const Pair& pair = conflicts_.pairs[p];
  const std::pair<int, int> bounds(here().paths.at(pair.i + 1, pair.j + 1), -here().paths.at(pair.j + 1, pair.i + 1));
  return std::exchange(here().followed[p], bounds) != bounds;
}

/// Moves both ends of a pair's distance to the nearest allowed one. A comparison does it where the two would meet, a
/// bound of its own where only others would lack room.
bool Search::follow_pair(std::size_t p) {
  const Pair& pair = conflicts_.pairs[p];
  const int i = pair.i + 1, j = pair.j + 1;
  const auto [low, high] = here().followed[p];
  if (high - low >= 2 * ii_) return true;  // an allowed distance is near both ends: little to gain
  const int first = next_allowed(pair.allowed, ii_, low), last = previous_allowed(pair.allowed, ii_, high);
  if (first > low && !follow(comparison(p, previous_allowed(pair.allowed, ii_, low), first))) return false;
  if (last < high && !follow(comparison(p, last, next_allowed(pair.allowed, ii_, high)))) return false;
  if (same_interval(pair.narrowed(), ii_, low, high)) here().decided[p] = 1;
  if (pair.reachable.empty() || first > low || last < high) return true;
  const int reach_first = next_allowed(pair.reachable, ii_, low),
            reach_last = previous_allowed(pair.reachable, ii_, high);
  if (reach_first > low && !derive({i, j, reach_first}, i, j)) return false;
  return reach_last >= high || derive({j, i, -reach_last}, j, i);
}

/// A bound that follows from the entry (i, j) alone.
bool Search::derive(const Distance& bound, int i, int j) {
  literals_.clear();
  explain(i, j, literals_);
  return insert_derived(bound);
}

/// `bound` follows from literals_ being false.
bool Search::insert_derived(const Distance& bound) {
  const auto place = static_cast<int>(reasons_.size());
  reasons_.insert(reasons_.end(), {static_cast<int>(literals_.size()), bound.from, bound.to, bound.least});
  reasons_.insert(reasons_.end(), literals_.begin(), literals_.end());
  derived_ = true;
  if (here().paths.insert(bound, -2 - place)) return true;
  explain(bound.to, bound.from, literals_);
  conflict_ = literals_;
  return false;
}

/// The value that the closure gives a comparison.
bool Search::follow(int index) {
  const Comparison& c = comparisons_[at(index)];
  if (c.value != 0) return true;
  const bool above = here().paths.at(c.i, c.j) > c.low, below = -here().paths.at(c.j, c.i) < c.high;
  if (above && below) {
    conflict_.clear();
    explain(c.i, c.j, conflict_);
    explain(c.j, c.i, conflict_);
    return false;
  }
  if (above) return enqueue(2 * index, reason_from_path(c.i, c.j));
  if (below) return enqueue(2 * index + 1, reason_from_path(c.j, c.i));
  return true;
}

}  // namespace tj::sched
