// Bounds of a graph's schedules: those that are known before any search, and those that whoever asks has.
//
// Decides no schedule. Invariant: a bound changes no schedule that is found within it.
#pragma once

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// Stands for an II: the first that units, recurrences and stages allow.
inline constexpr int kFirstIi = -1;

/// The same as schedule(), but the search ends at most_ii (0: no end). Throws tj::Error(schedule) also where there is
/// none within. At kFirstIi, so does a joint search that gives up.
/// open_ii, where one is given: no smaller II is asked, as it was excluded before; then the smallest II that the search
/// could not decide, 0: none.
Schedule schedule_within(const graph::Graph& graph, const Options& options, int most_ii, int* open_ii = nullptr);

/// The length that edges within an iteration alone ask for: no schedule is shorter.
int least_length(const graph::Graph& graph, const Options& options);

}  // namespace tj::sched
