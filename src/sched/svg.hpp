// A schedule as a picture for people, 1200 pixels wide.
#pragma once

#include <string>

#include "sched/schedule.hpp"

namespace tj::sched {

/// The steady state (units over two periods) and below it the first iterations (roles over the prologue and two periods).
/// One self-contained SVG document in UTF-8, the same on every machine for the same schedule; times of the search are not in it.
/// `schedule` belongs to `graph` and is right (verify). Thread safe.
std::string to_svg(const graph::Graph& graph, const Schedule& schedule);

}  // namespace tj::sched
