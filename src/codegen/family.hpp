// Families of roles: roles that do the same to copies of one context, so that one text serves all of them.
//
// Decides that alone; the text is role_text's. Invariant: members of a family fill and read the same rings, or each its
// own in the same place; such rings lie one behind the other. Waits for work of their own are the same, at the same
// places.
#pragma once

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// Do the two roles differ in nothing but the copy that they work on, `second` in the copy after `first`'s?
bool congruent(const graph::Graph& graph, const sched::Schedule& schedule, int first, int second);

}  // namespace tj::codegen
