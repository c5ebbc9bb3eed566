// Nodes of a problem that may change places: copies of a loop body, equal parts of a tile.
//
// Decides which of several equal schedules is searched for; excludes none that is better. Invariant: for every result
// (a, b) some exchange of nodes maps the problem onto itself, moves a to b, and moves no node before a. So asking for
// t_a <= t_b keeps one of each set of schedules that exchanges turn into each other.
#pragma once

#include <utility>
#include <vector>

#include "sched/modulo/problem.hpp"

namespace tj::sched {

std::vector<std::pair<int, int>> exchangeable(const Problem& problem);

}  // namespace tj::sched
