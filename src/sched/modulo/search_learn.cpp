// From a contradiction to a clause (see search.hpp): it is resolved back to one decision of its level, on which all of
// it hangs.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "sched/modulo/search.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

constexpr double kLargest = 1e100;
constexpr std::size_t kClauses = 2000;  ///< learnt ones, before weak ones are forgotten

}  // namespace

/// The literals, all false, that made a comparison follow.
template <typename Visit>
void Search::each_reason(int index, const Visit& visit) const {
  const int reason = comparisons_[at(index)].reason;
  if (reason == kNoReason) return;
  if (reason >= 0) {
    for (const int literal : clauses_[at(reason)].literals)
      if (literal / 2 != index) visit(literal);
    return;
  }
  const auto begin = static_cast<std::size_t>(-2 - reason);
  for (int k = 1; k <= reasons_[begin]; ++k) visit(reasons_[begin + at(k)]);
}

void Search::bump(int index) {
  Comparison& c = comparisons_[at(index)];
  c.activity += bump_;
  if (c.activity < kLargest) return;
  for (Comparison& each : comparisons_) each.activity /= kLargest;
  bump_ /= kLargest;
}

/// False when the contradiction rests on no decision. Else `learnt` gets the clause, and the search goes back as far as
/// the level of its second literal. Its first literal is the one that follows there.
bool Search::analyse(std::vector<int>& learnt) {
  int deepest = 0;
  for (const int literal : conflict_) deepest = std::max(deepest, comparisons_[at(literal / 2)].level);
  if (deepest == 0) return false;
  back_to(at(deepest));
  learnt.assign(1, 0);
  std::vector<int> seen;
  int open = 0;
  const auto see = [&](int literal) {
    Comparison& c = comparisons_[at(literal / 2)];
    if (c.seen || c.level == 0) return;
    c.seen = true;
    seen.push_back(literal / 2);
    bump(literal / 2);
    if (c.level == deepest)
      ++open;
    else
      learnt.push_back(literal);
  };
  for (const int literal : conflict_) see(literal);
  for (std::size_t k = trail_.size(); k-- > 0;) {
    const int index = trail_[k] / 2;
    if (!comparisons_[at(index)].seen) continue;
    if (--open == 0) {
      learnt[0] = trail_[k] ^ 1;
      break;
    }
    const int reason = comparisons_[at(index)].reason;
    if (reason >= 0) clauses_[at(reason)].used = met_;
    each_reason(index, see);
  }
  ++met_;
  shorten(learnt);
  for (const int each : seen) comparisons_[at(each)].seen = false;
  std::size_t back = 0;
  if (learnt.size() > 1) {
    const auto latest = std::max_element(learnt.begin() + 1, learnt.end(), [&](int a, int b) {
      return comparisons_[at(a / 2)].level < comparisons_[at(b / 2)].level;
    });
    std::swap(learnt[1], *latest);
    back = at(comparisons_[at(learnt[1] / 2)].level);
  }
  back_to(back);
  return true;
}

/// A literal whose reasons are all in the clause says nothing that they do not.
void Search::shorten(std::vector<int>& learnt) const {
  const auto implied = [&](int literal) {
    if (comparisons_[at(literal / 2)].reason == kNoReason) return false;
    bool all = true;
    each_reason(literal / 2, [&](int other) {
      all = all && (comparisons_[at(other / 2)].seen || comparisons_[at(other / 2)].level == 0);
    });
    return all;
  };
  learnt.erase(std::remove_if(learnt.begin() + 1, learnt.end(), implied), learnt.end());
}

int Search::add_clause(std::vector<int> literals, int scope) {
  const auto index = static_cast<int>(clauses_.size());
  clauses_.push_back({std::move(literals), scope, met_});
  watch(index);
  return index;
}

void Search::watch(int clause) {
  const std::vector<int>& literals = clauses_[at(clause)].literals;
  if (literals.size() < 2) return;
  for (int k = 0; k < 2; ++k) watches_[at(literals[at(k)])].push_back(clause);
  for (const int literal : literals)
    if (!std::exchange(comparisons_[at(literal / 2)].in_clause, true)) in_clauses_.push_back(literal / 2);
}

void Search::forget_scope(int scope) {
  clauses_.erase(
      std::remove_if(clauses_.begin(), clauses_.end(), [&](const Clause& each) { return each.scope < scope; }),
      clauses_.end());
  watch_all();
}

/// Only where nothing is decided: a reason must stay.
void Search::forget_weak() {
  if (clauses_.size() < kClauses) return;
  std::vector<std::uint64_t> used;
  for (const Clause& each : clauses_) used.push_back(each.used);
  std::nth_element(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2), used.end());
  const std::uint64_t limit = used[used.size() / 2];
  const auto weak = [&](const Clause& each) {
    return each.used < limit && each.literals.size() > 2 && each.scope < kEverywhere;
  };
  clauses_.erase(std::remove_if(clauses_.begin(), clauses_.end(), weak), clauses_.end());
  watch_all();
}

void Search::watch_all() {
  for (auto& list : watches_) list.clear();
  for (const int each : in_clauses_) comparisons_[at(each)].in_clause = false;
  in_clauses_.clear();
  for (int c = 0; c < static_cast<int>(clauses_.size()); ++c) watch(c);
}

}  // namespace tj::sched
