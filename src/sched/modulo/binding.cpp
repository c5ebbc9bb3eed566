// See binding.hpp.
#include "sched/modulo/binding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sched/modulo/at_interval.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

constexpr int kMostNodes = 64;         ///< beyond, a question takes too long beside the search itself
constexpr int kMostQuestions = 16;     ///< of one interval
constexpr std::uint64_t kEffort = 50;  ///< nodes of the search for one question
constexpr std::size_t kMostNames = 8;  ///< in words

/// The problem without what `node` holds of a unit, or without all that is held of it where node is negative.
Problem without(const Problem& problem, int unit, int node) {
  Problem less = problem;
  for (int i = 0; i < less.size(); ++i) {
    auto& uses = less.uses[at(i)];
    if (node < 0 || i == node)
      uses.erase(std::remove_if(uses.begin(), uses.end(), [unit](const auto& use) { return use.unit == unit; }),
                 uses.end());
  }
  return less;
}

bool holds(const Problem& problem, int node, int unit) {
  const auto& uses = problem.uses[at(node)];
  return std::any_of(uses.begin(), uses.end(), [unit](const auto& use) { return use.unit == unit; });
}

/// No answer counts as no.
bool possible(const Problem& problem, int ii) {
  const std::vector<std::pair<int, int>> unordered;
  std::uint64_t budget = kEffort;
  AtInterval alone(problem, ii, unordered, true, budget);
  return alone.prepare() && alone.probe_interval(kEffort) == Verdict::found;
}

/// The first unit without which the interval is possible, and its nodes without which it is. Nodes beside the
/// recurrence are asked first, as those of it have to be there.
void find_unit(const Problem& problem, const Bound& recurrence, Excluded& excluded) {
  int left = kMostQuestions, unit = -1;
  for (int u = 0; u < static_cast<int>(problem.units.size()) && unit < 0; ++u) {
    int holders = 0;
    for (int i = 0; i < problem.size(); ++i) holders += holds(problem, i, u) ? 1 : 0;
    if (holders > 1 && left-- > 0 && possible(without(problem, u, -1), excluded.ii)) unit = u;
  }
  if (unit < 0) return;
  excluded.unit = problem.units[at(unit)].name;
  for (const bool beside : {true, false}) {
    for (int i = 0; i < problem.size(); ++i) {
      const bool of_it = std::find(recurrence.nodes.begin(), recurrence.nodes.end(), i) != recurrence.nodes.end();
      if (of_it != beside && holds(problem, i, unit) && left-- > 0 && possible(without(problem, unit, i), excluded.ii))
        excluded.nodes.push_back(problem.name[at(i)]);
    }
    if (!excluded.nodes.empty()) return;
  }
}

}  // namespace

Excluded what_binds(const Problem& problem, const ModuloResult& result) {
  Excluded excluded;
  if (result.excluded_ii <= 0) return excluded;
  excluded.ii = result.excluded_ii;
  const Bound recurrence = recurrence_bound(problem);
  excluded.cycles = recurrence.delay;
  excluded.distance = recurrence.distance;
  for (const int node : recurrence.nodes) excluded.recurrence.push_back(problem.name[at(node)]);
  if (problem.size() <= kMostNodes) find_unit(problem, recurrence, excluded);
  return excluded;
}

std::string to_words(const Excluded& excluded) {
  std::string text;
  if (!excluded.recurrence.empty()) {
    text += "; the longest recurrence ";
    for (const std::string& name : excluded.recurrence) text += name + " -> ";
    text += cat(excluded.recurrence.front(), " takes ", excluded.cycles, " cycles over distance ", excluded.distance);
  }
  if (excluded.unit.empty()) return text;
  text += cat(excluded.recurrence.empty() ? "; " : ", and ", "unit ", excluded.unit, " has no place ",
              excluded.recurrence.empty() ? "" : "beside it ");
  if (excluded.nodes.empty()) return text + "for all of its nodes";
  text += excluded.nodes.size() > 1 ? "for all of " : "for ";
  for (std::size_t n = 0; n < std::min(kMostNames, excluded.nodes.size()); ++n)
    text += (n == 0 ? "" : ", ") + excluded.nodes[n];
  if (excluded.nodes.size() > kMostNames) text += cat(" and ", excluded.nodes.size() - kMostNames, " more");
  return text;
}

}  // namespace tj::sched
