// Refusals of graphs that a unit's text cannot say, by name, before anything is written.
//
// Decides which graphs, schedules and names codegen accepts; writes nothing. Invariant: a graph that passes here
// compiles, as far as codegen's own part of the text goes.
#pragma once

#include "codegen/layout.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// Fails with Stage::codegen where roles, edges or nodes cannot be written as the schedule has them.
void refuse_inexpressible(const graph::Graph& graph, const sched::Schedule& schedule);

/// Fails with Stage::codegen for names that the unit uses itself, or would use twice.
void refuse_names(const graph::Graph& graph, const Layout& layout, bool recording);

}  // namespace tj::codegen
