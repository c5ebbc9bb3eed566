// The part of the verifier that looks at limits beyond edges, units and rings: what roles and memory can hold at once.
//
// Decides only right or wrong, from graph and schedule alone. Invariant: what it asks is what joint.hpp promises.
#pragma once

#include <string>
#include <vector>

#include "sched/schedule.hpp"

namespace tj::sched {

/// A streaming load that the schedule counts with latency 0.
bool counts_as_free(const graph::Graph& graph, const Schedule& schedule, int node);

/// Adds one line a violation. The schedule's vectors must be well formed. Every schedule is asked for the warps of a
/// role, and for copies that are apart. Schedules of the joint search are also asked for memory, live registers and
/// blocking waits.
void verify_limits(const graph::Graph& graph, const Schedule& schedule, std::vector<std::string>& problems);

}  // namespace tj::sched
