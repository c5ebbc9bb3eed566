// Content of a picture of a schedule, before it is drawn: rows of boxes in cycles.
//
// Decides which instances of which nodes are shown, on which row and track. Does not decide how they look (svg, trace).
// Invariant: the boxes of one track do not overlap; a unit of one instance has one track when the schedule is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sched/schedule.hpp"

namespace tj::sched {

struct Box {
  int node = -1;            ///< the node shown; -1 for an iteration as a whole, or a role's turn
  int role = -1;            ///< the role whose turn it is
  int iteration = 0;        ///< steady state: relative to the newest; unrolled: counted from 0
  std::int64_t begin = 0;   ///< cycles; may lie outside the window
  std::int64_t end = 0;     ///< begin == end: a mark
  std::int64_t issued = 0;  ///< up to here the role's warps are busy; behind it the result is in flight
  int count = 1;            ///< instances of the unit
  std::string label;        ///< label of boxes that show no node
};

struct Track {
  std::vector<Box> boxes;  ///< by begin
};

struct Row {
  std::string name;
  std::string note;           ///< "busy 94%", "4 warps"
  std::vector<Track> tracks;  ///< at least one
  std::vector<Box> waits;     ///< gaps in which the role waits for what an edge asks; label says for what
};

/// One window [0, window) of time.
struct View {
  std::int64_t window = 1;
  std::vector<Row> rows;
};

struct Picture {
  std::int64_t period = 1;  ///< II
  int stages = 1;           ///< iterations in flight
  View steady;    ///< units, and warps of roles, over two periods; the newest iteration of the first begins at 0
  View unrolled;  ///< iterations, turns on a unit, roles: the prologue and two periods of the steady state
  std::vector<int> begin_nodes, end_nodes;  ///< nodes of tile scope, in no view
};

Picture make_picture(const graph::Graph& graph, const Schedule& schedule);

/// The row of a role for iterations [first, first + count), at the schedule's own times: iteration 0 begins at 0. By
/// begin.
std::vector<Box> role_boxes(const graph::Graph& graph, const Schedule& schedule, int role, int first, int count);
/// Boxes on as few tracks as will do, so that the boxes of a track do not overlap.
std::vector<Track> tracks_of(std::vector<Box> boxes);

}  // namespace tj::sched
