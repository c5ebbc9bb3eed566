// Order of the search: propagate, learn from contradictions, decide (see search.hpp).
#include "sched/modulo/search.hpp"
#include "support/index.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace tj::sched {
namespace {

using support::at;

constexpr std::uint64_t kRestart = 100;  ///< conflicts before the first restart
constexpr double kDecay = 0.95;
constexpr std::size_t kMostBytes = std::size_t{1} << 27;  ///< of the closures of all levels

/// 1 1 2 1 1 2 4 ...: how long the n-th try lasts.
std::uint64_t luby(std::uint64_t n) {
  std::uint64_t size = 1, power = 0;
  while (size < n + 1) {
    size = 2 * size + 1;
    ++power;
  }
  while (size - 1 != n) {
    size = (size - 1) / 2;
    --power;
    n %= size;
  }
  return std::uint64_t{1} << power;
}

}  // namespace

Search::Search(const Conflicts& conflicts, int ii, bool queues)
    : conflicts_(conflicts), ii_(ii), of_pair_(conflicts.pairs.size()), queues_(queues) {}

void Search::start(const Closure& root, int scope) {
  if (levels_.empty()) levels_.emplace_back();
  for (Comparison& each : comparisons_) each.value = 0;
  trail_.clear();
  reasons_.clear();
  depth_ = next_ = 0;
  scope_ = scope;
  here_ = &levels_[0];
  here_->paths.reset(root);
  here_->decided.assign(conflicts_.pairs.size(), 0);
  here_->followed.assign(conflicts_.pairs.size(), {1, 0});
  here_->trail = here_->reasons = 0;
  forget_scope(scope);
}

Verdict Search::run(const Closure& root, int scope, std::uint64_t limit, std::vector<int>& time) {
  visited_ = 0;
  if (!conflicts_.possible) return Verdict::infeasible;
  start(root, scope);
  for (const Clause& clause : clauses_)
    if (clause.literals.size() == 1 && !enqueue(clause.literals[0], kNoReason)) return Verdict::infeasible;
  const std::size_t deepest = kMostBytes / (sizeof(int) * 2 * at(root.size()) * at(root.size()));
  std::uint64_t tries = 0, left = kRestart;
  while (true) {
    if (++visited_ > limit) return Verdict::unknown;
    bool contradiction = !propagate();
    int literal = kNone;
    if (!contradiction) literal = decide_pair();
    if (!contradiction && literal == kNone) literal = decide_cover(contradiction);
    if (contradiction) {
      if (!resolve()) return Verdict::infeasible;
      if (--left > 0) continue;
      left = kRestart * luby(++tries);
      back_to(0);
      forget_weak();
      continue;
    }
    if (literal == kNone) break;
    if (literal == kPropagate) continue;
    if (depth_ >= deepest) return Verdict::unknown;
    descend(literal);
  }
  time.resize(static_cast<std::size_t>(root.size() - 1));
  for (int n = 0; n + 1 < root.size(); ++n) time[at(n)] = earliest(n);
  return Verdict::found;
}

void Search::descend(int literal) {
  ++depth_;
  if (levels_.size() <= depth_) levels_.emplace_back();
  const Level& above = *here_;
  here_ = &levels_[depth_];
  here_->paths = above.paths;
  here_->decided = above.decided;
  here_->followed = above.followed;
  here_->trail = trail_.size();
  here_->reasons = reasons_.size();
  enqueue(literal, kNoReason);
}

// The next pair among those that collide at the earliest cycles. First the pair that contradictions come from most,
// then the pair with the least freedom left whichever way it goes. It goes the way it went last, else where there is
// more room.
int Search::decide_pair() {
  std::size_t best = 0;
  int best_low = 0, best_high = 0, best_score = 0, best_room = 0;
  double best_activity = -1;
  for (std::size_t p = 0; p < conflicts_.pairs.size(); ++p) {
    if (here().decided[p]) continue;
    const Pair& pair = conflicts_.pairs[p];
    const int distance = earliest(pair.j) - earliest(pair.i);
    const int above = next_allowed(pair.allowed, ii_, distance);
    if (above == distance) continue;
    const int below = previous_allowed(pair.allowed, ii_, distance);
    const int up = -here().paths.at(pair.j + 1, pair.i + 1) - above,
              down = below - here().paths.at(pair.i + 1, pair.j + 1);
    const auto known =
        std::find_if(of_pair_[p].begin(), of_pair_[p].end(), [&](int c) { return comparisons_[at(c)].high == above; });
    const double activity = known == of_pair_[p].end() ? 0 : comparisons_[at(*known)].activity;
    if (activity < best_activity || (activity == best_activity && up + down >= best_score)) continue;
    best = p;
    best_activity = activity;
    best_score = up + down;
    best_room = up - down;
    best_low = below;
    best_high = above;
  }
  if (best_activity < 0) return kNone;
  const int chosen = comparison(best, best_low, best_high);
  const int phase = comparisons_[at(chosen)].phase;
  const bool up = phase != 0 ? phase > 0 : best_room >= 0;
  return 2 * chosen + (up ? 0 : 1);
}

/// Is the unit over its capacity at the start of `item`? Then not all of the reservations that cover it may stay.
bool Search::cover_clause(const Cover& cover, const CoverItem& item, std::vector<int>& clause) {
  const int start = earliest(item.node) + item.start;
  std::vector<std::pair<const CoverItem*, int>> others;
  int total = 0;
  for (const CoverItem& other : cover.items) {
    const int into = modulo(start - earliest(other.node) - other.start, ii_);
    if (into >= other.cycles) continue;
    total += other.count;
    if (other.node != item.node) others.emplace_back(&other, earliest(item.node) - earliest(other.node) - into);
  }
  if (total <= cover.capacity) return false;
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.first->count < b.first->count; });
  for (const auto& [other, low] : others) {
    if (total - other->count > cover.capacity) {  // without this one it is still too much: the shorter clause says more
      total -= other->count;
      continue;
    }
    clause.push_back(2 * plain_comparison(other->node + 1, item.node + 1, low) + 1);
    clause.push_back(2 * plain_comparison(other->node + 1, item.node + 1, low + other->cycles));
  }
  return true;
}

int Search::decide_cover(bool& contradiction) {
  std::vector<int> clause;
  bool over = false;
  for (std::size_t c = 0; c < conflicts_.covers.size() && !over; ++c)
    for (std::size_t i = 0; i < conflicts_.covers[c].items.size() && !over; ++i)
      over = cover_clause(conflicts_.covers[c], conflicts_.covers[c].items[i], clause);
  if (!over) return kNone;
  for (const int literal : clause) follow(literal / 2);
  // Open ones first, then the latest decided: what add_clause expects.
  std::stable_sort(clause.begin(), clause.end(), [&](int a, int b) {
    const int open_a = value_of(a) >= 0 ? std::numeric_limits<int>::max() : comparisons_[at(a / 2)].level;
    const int open_b = value_of(b) >= 0 ? std::numeric_limits<int>::max() : comparisons_[at(b / 2)].level;
    return open_a > open_b;
  });
  const auto open = std::count_if(clause.begin(), clause.end(), [&](int literal) { return value_of(literal) >= 0; });
  contradiction = open == 0;
  if (contradiction) conflict_ = clause;
  std::vector<int> name = clause;
  std::sort(name.begin(), name.end());
  if (cover_clauses_.insert(std::move(name)).second) add_clause(clause, kEverywhere);
  if (contradiction || open > 1) return contradiction ? kNone : clause[0];
  enqueue(clause[0], reason_from(clause));
  return kPropagate;
}

bool Search::resolve() {
  std::vector<int> learnt;
  if (!analyse(learnt)) return false;
  const int first = learnt[0];
  const int index = add_clause(std::move(learnt), scope_);
  bump_ /= kDecay;
  return enqueue(first, index);
}

}  // namespace tj::sched
