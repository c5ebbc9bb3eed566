// The modulo schedule: minimal II, then minimal length at that II.
//
// Decides cycles. Knows no roles. Exact within a deterministic node budget; beyond it a heuristic answers and says so.
// Invariant: the cycles returned satisfy every edge and unit of the problem.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sched/modulo/mii.hpp"
#include "sched/modulo/problem.hpp"

namespace tj::sched {

struct ModuloResult {
  bool found = false;  ///< false: `certificate` says what rules out every II
  int ii = 0, length = 0;
  int res_mii = 1, rec_mii = 1;
  int open_ii = 0;      ///< the smallest II that the search could not decide; 0: none
  int excluded_ii = 0;  ///< the II that `certificate` says has no schedule, by more than the bounds; 0: none
  bool proven_ii = false, proven_length = false;
  std::vector<int> cycle;  ///< per local node; the first is 0
  std::string certificate;
  std::uint64_t search_nodes = 0;
};

/// min_ii: no smaller II is tried. most_ii, open_ii: as schedule_within() has them (bounds.hpp).
ModuloResult modulo_schedule(const Problem& problem, std::uint64_t node_budget, int min_ii, int most_ii = 0,
                             int open_ii = 0);

/// Iterative modulo scheduling at one II: list scheduling with eviction. Empty when it gives up.
std::optional<std::vector<int>> iterative_schedule(const Problem& problem, int ii);

/// max of cycle + length.
int makespan(const Problem& problem, const std::vector<int>& cycle);

}  // namespace tj::sched
