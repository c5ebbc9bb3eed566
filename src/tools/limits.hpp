// Which limits keep a schedule from the interval before, where its certificate does not name them.
#pragma once

#include <string>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::tools {

/// A line that names the limits without which the interval before would be possible; empty where the certificate has
/// no search that exhausted its nodes. Searches again, once for each kind of limit and once for all together.
std::string limits_line(const graph::Graph& graph, const sched::Options& options, const sched::Schedule& schedule);

}  // namespace tj::tools
