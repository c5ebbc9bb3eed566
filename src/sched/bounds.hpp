// Bounds of a graph's schedules: those that are known before any search, and those that whoever asks has.
//
// Decides no schedule. Invariant: a bound changes no schedule that is found within it.
#pragma once

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// Stands for an II: the first that units, recurrences and stages allow.
inline constexpr int kFirstIi = -1;

/// As schedule(), where an II above `most_ii` is of no use: the search ends there. 0: any is. Throws
/// tj::Error(schedule) also where there is none within.
Schedule schedule_within(const graph::Graph& graph, const Options& options, int most_ii);

/// The length that edges within an iteration alone ask for: no schedule is shorter.
int least_length(const graph::Graph& graph, const Options& options);

}  // namespace tj::sched
