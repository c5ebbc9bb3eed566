// A schedule as a picture for people, 1200 pixels wide.
#pragma once

#include <string>
#include <vector>

#include "sched/picture/picture.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// The steady state (units over two periods) and below it the first iterations (roles over the prologue and two
/// periods). One self-contained SVG document in UTF-8, the same on every machine for the same schedule; times of the
/// search are not in it. `schedule` belongs to `graph` and is right (verify). Thread safe.
std::string to_svg(const graph::Graph& graph, const Schedule& schedule);

/// A page of rows that are not the schedule's own alone: for example, measured times below the predicted ones.
struct Sheet {
  std::string title;
  std::vector<std::string> remarks;  ///< paragraphs below it
  std::string heading;               ///< of the view
  View view;                         ///< a dashed line for each II from 0 on; boxes show nodes
  int first_iteration = 0;  ///< the view whose first line is at 0; a box without room for its name has it above
};
/// Draws a sheet in the same manner, with the same colours.
std::string to_svg(const graph::Graph& graph, const Schedule& schedule, const Sheet& sheet);

}  // namespace tj::sched
