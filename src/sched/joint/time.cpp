// Branch and bound over broken rules (see joint/time.hpp). The candidate is always the earliest cycle of every node. It
// satisfies all difference constraints, so only pairs and resources can be broken. The cases that repair one are again
// difference constraints: a holding begins later than another's begin, or ends before it.
#include "sched/joint/time.hpp"
#include "support/index.hpp"

#include <algorithm>
#include <cstddef>

namespace tj::sched {
namespace {

using support::at;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

std::int64_t when(const Moment& moment, const std::vector<int>& cycle) {
  return std::int64_t{cycle[at(moment.node)]} + moment.after;
}

std::int64_t end_of(const Holding& holding, const std::vector<int>& cycle) {
  std::int64_t end = when(holding.begin, cycle);
  for (const Moment& each : holding.ends) end = std::max(end, when(each, cycle));
  return end;
}

/// The instances of `holding` that cover `moment`, as the numbers (after, until] of their rounds.
struct Rounds {
  std::int64_t after = 0, until = 0;
  std::int64_t count() const { return until - after; }
};

Rounds covering(const Holding& holding, std::int64_t moment, int ii, const std::vector<int>& cycle) {
  return {floor_div(moment - end_of(holding, cycle), ii), floor_div(moment - when(holding.begin, cycle), ii)};
}

std::int64_t held(const Resource& resource, std::int64_t moment, int ii, const std::vector<int>& cycle) {
  std::int64_t sum = 0;
  for (const Holding& each : resource.holdings) sum += each.amount * covering(each, moment, ii, cycle).count();
  return sum;
}

/// The holding at whose begin most is held: the maximum lies where something begins.
std::size_t fullest(const Resource& resource, int ii, const std::vector<int>& cycle, std::int64_t& most) {
  std::size_t best = 0;
  most = 0;
  for (std::size_t h = 0; h < resource.holdings.size(); ++h) {
    const std::int64_t sum = held(resource, when(resource.holdings[h].begin, cycle), ii, cycle);
    if (sum <= most) continue;
    most = sum;
    best = h;
  }
  return best;
}

}  // namespace

std::int64_t peak(const Resource& resource, int ii, const std::vector<int>& cycle) {
  std::int64_t most = 0;
  fullest(resource, ii, cycle, most);
  return most;
}

Verdict TimeSearch::run(const Closure& root, std::uint64_t limit, std::vector<int>& cycle) {
  visited_ = 0;
  limit_ = limit;
  if (!rules_.possible) return Verdict::infeasible;
  if (states_.empty()) states_.emplace_back();
  states_[0] = root;
  const Verdict verdict = descend(0);
  if (verdict != Verdict::found) return verdict;
  cycle.resize(at(root.size() - 1));
  for (int n = 0; n + 1 < root.size(); ++n) cycle[at(n)] = states_[0].at(0, n + 1);
  return verdict;
}

bool TimeSearch::satisfied(const std::vector<int>& cycle) const {
  std::vector<Case> cases;
  return rules_.possible && !broken(cycle, cases);
}

Verdict TimeSearch::descend(std::size_t depth) {
  std::vector<Case> cases;
  std::vector<int> cycle;
  if (++visited_ > limit_) return Verdict::unknown;
  if (!propagate(states_[depth]) || !limits_fit(states_[depth])) return Verdict::infeasible;
  for (int n = 1; n < states_[depth].size(); ++n) cycle.push_back(states_[depth].at(0, n));
  if (!broken(cycle, cases)) {
    if (depth > 0) states_[0] = states_[depth];
    return Verdict::found;
  }
  if (states_.size() <= depth + 1) states_.emplace_back();
  for (const Case& each : cases) {
    states_[depth + 1] = states_[depth];
    if (take(states_[depth + 1], each)) {
      const Verdict verdict = descend(depth + 1);
      if (verdict != Verdict::infeasible) return verdict;
    }
    // The rest does not satisfy this case. A single constraint that none satisfies is refuted too.
    if (each.size() == 1 && !take(states_[depth], {{each[0].to, each[0].from, 1 - each[0].least}}))
      return Verdict::infeasible;
  }
  return Verdict::infeasible;
}

bool TimeSearch::take(Closure& closure, const Case& each) {
  for (const Constraint& c : each) {
    if (c.from == c.to) {
      if (c.least > 0) return false;
    } else if (!closure.insert(c.from + 1, c.to + 1, c.least)) {
      return false;
    }
  }
  return true;
}

bool TimeSearch::propagate(Closure& closure) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Pair& pair : rules_.pairs) {
      const int low = closure.at(pair.i + 1, pair.j + 1), high = -closure.at(pair.j + 1, pair.i + 1);
      if (high - low >= 2 * rules_.ii) continue;
      const int first = next_allowed(pair, rules_.ii, low), last = previous_allowed(pair, rules_.ii, high);
      if (first > last) return false;
      changed = changed || first > low || last < high;
      if (first > low && !closure.insert(pair.i + 1, pair.j + 1, first)) return false;
      if (last < high && !closure.insert(pair.j + 1, pair.i + 1, -last)) return false;
    }
  }
  return true;
}

/// Two limits of what is held: the shortest lifetimes must fit into the period in sum; holdings that certainly meet
/// must fit at any moment.
bool TimeSearch::limits_fit(const Closure& closure) const {
  for (const Resource& resource : rules_.resources) {
    std::int64_t sum = 0;
    for (const Holding& each : resource.holdings) {
      std::int64_t least = 0;
      for (const Moment& end : each.ends)
        least =
            std::max(least, std::int64_t{closure.at(each.begin.node + 1, end.node + 1)} + end.after - each.begin.after);
      sum += least * each.amount;
    }
    if (sum > resource.capacity * rules_.ii || least_peak(resource, closure) > resource.capacity) return false;
  }
  if (!rules_.has_total) return true;
  const Total& total = rules_.total;
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < total.resources.size(); ++k) {
    const std::int64_t most = least_peak(rules_.resources[at(total.resources[k])], closure);
    sum += std::max(total.least[k], (most + total.step - 1) / total.step * total.step) * total.weights[k];
  }
  return sum <= total.limit;
}

/// The least that every solution holds at the begin of a holding. Each other holding counts the rounds that have
/// certainly begun and have not certainly ended.
std::int64_t TimeSearch::least_peak(const Resource& resource, const Closure& closure) const {
  const auto least = [&](const Moment& from, const Moment& to) {
    const int known = from.node == to.node ? 0 : closure.at(from.node + 1, to.node + 1);
    return known <= Closure::kHalf ? std::int64_t{Closure::kHalf} : std::int64_t{known} + to.after - from.after;
  };
  std::int64_t most = 0;
  for (const Holding& first : resource.holdings) {
    std::int64_t sum = 0;
    for (const Holding& other : resource.holdings) {
      const std::int64_t begun = floor_div(least(other.begin, first.begin), rules_.ii);
      std::int64_t rounds = 0;
      for (const Moment& end : other.ends)
        rounds = std::max(rounds, begun - floor_div(-least(first.begin, end), rules_.ii));
      sum += rounds * other.amount;
    }
    most = std::max(most, sum);
  }
  return most;
}

bool TimeSearch::broken(const std::vector<int>& cycle, std::vector<Case>& cases) const {
  cases.clear();
  if (broken_pair(cycle, cases)) return true;
  for (const Resource& resource : rules_.resources)
    if (broken_resource(resource, cycle, cases)) return true;
  return rules_.has_total && broken_total(cycle, cases);
}

bool TimeSearch::broken_pair(const std::vector<int>& cycle, std::vector<Case>& cases) const {
  for (const Pair& pair : rules_.pairs) {
    const int distance = cycle[at(pair.j)] - cycle[at(pair.i)];
    const int above = next_allowed(pair, rules_.ii, distance);
    if (above == distance) continue;
    cases.push_back({{pair.i, pair.j, above}});
    cases.push_back({{pair.j, pair.i, -previous_allowed(pair, rules_.ii, distance)}});
    return true;
  }
  return false;
}

bool TimeSearch::broken_resource(const Resource& resource, const std::vector<int>& cycle,
                                 std::vector<Case>& cases) const {
  std::int64_t most = 0;
  const std::size_t first = fullest(resource, rules_.ii, cycle, most);
  if (most <= resource.capacity) return false;
  part(resource, first, resource.capacity, cycle, cases);
  return true;
}

// The sum shrinks only where the peak of a resource does: the cases of all of them.
bool TimeSearch::broken_total(const std::vector<int>& cycle, std::vector<Case>& cases) const {
  const Total& total = rules_.total;
  std::int64_t sum = 0;
  const auto rounded = [&](std::size_t k, std::int64_t most) {
    return std::max(total.least[k], (most + total.step - 1) / total.step * total.step);
  };
  for (std::size_t k = 0; k < total.resources.size(); ++k)
    sum += rounded(k, peak(rules_.resources[at(total.resources[k])], rules_.ii, cycle)) * total.weights[k];
  if (sum <= total.limit) return false;
  for (std::size_t k = 0; k < total.resources.size(); ++k) {
    const Resource& resource = rules_.resources[at(total.resources[k])];
    std::int64_t most = 0;
    const std::size_t first = fullest(resource, rules_.ii, cycle, most);
    if (rounded(k, most) <= total.least[k]) continue;
    part(resource, first, rounded(k, most) - total.step, cycle, cases);
  }
  return true;
}

void TimeSearch::part(const Resource& resource, std::size_t first, std::int64_t capacity, const std::vector<int>& cycle,
                      std::vector<Case>& cases) const {
  const Moment begin = resource.holdings[first].begin;
  const std::int64_t moment = when(begin, cycle);
  std::vector<std::size_t> order(resource.holdings.size());
  for (std::size_t h = 0; h < order.size(); ++h) order[h] = h;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return (a == first) != (b == first) ? a == first : resource.holdings[a].amount > resource.holdings[b].amount;
  });
  std::int64_t sum = 0;
  for (const std::size_t h : order) {
    const Holding& other = resource.holdings[h];
    const Rounds rounds = covering(other, moment, rules_.ii, cycle);
    for (std::int64_t round = rounds.until; round > rounds.after && sum <= capacity; --round) {
      sum += other.amount;
      const int shift = static_cast<int>(round) * rules_.ii;
      if (h != first) cases.push_back({{begin.node, other.begin.node, begin.after - other.begin.after - shift + 1}});
      Case over;
      for (const Moment& end : other.ends) over.push_back({end.node, begin.node, end.after + shift - begin.after});
      cases.push_back(
          std::move(over));  // of `first` itself too: with negative delays a value can be done before it begins
    }
    if (sum > capacity) return;
  }
}

}  // namespace tj::sched
