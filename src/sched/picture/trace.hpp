// A schedule as a trace for Perfetto or chrome://tracing.
#pragma once

#include <string>

#include "sched/schedule.hpp"

namespace tj::sched {

/// Chrome trace JSON. Process 1 has the units in the steady state, process 2 iterations, turns and roles from the first
/// iteration on. A row is a thread (several where boxes overlap), a box a complete event, a cycle one microsecond.
/// Events keep their whole length, also beyond the last period shown. `schedule` belongs to `graph`. Thread safe,
/// deterministic.
std::string to_trace(const graph::Graph& graph, const Schedule& schedule);

}  // namespace tj::sched
