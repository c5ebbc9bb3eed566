// Places in shared memory that several rings have in turns: what a node that fills one waits for.
//
// Decides which other rings must have been handed back, and which fillings of them. Does not decide where the waits
// stand (timeline) nor who lies where (graph/lifetimes.hpp). Invariant: a role that waits for fillings of a ring has
// waited for each filling before, or reads or fills the ring itself, so that a phase is never taken for another.
#pragma once

#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// A ring that has had the place before, for a node that fills another one there.
struct Before {
  int ring = -1;  ///< of the schedule
  bool every_iteration = false;
  bool same_round = false;  ///< the filling of the same iteration, or tile; else of the one before
};

/// The rings that have had a value's place before it is filled. None where the value has its place to itself, or where
/// a block does one tile alone and nothing comes before.
std::vector<Before> before_filling(const graph::Graph& graph, const sched::Schedule& schedule, int value);

/// The entry of before_filling() for a ring that a node waits for.
Before before_of(const graph::Graph& graph, const sched::Schedule& schedule, int node, int ring);

/// Is the value's place filled with another value behind it, in the same iteration or tile?
bool followed(const graph::Graph& graph, const sched::Schedule& schedule, int value);

/// May copies by hardware fill the value's place next? `bulk`: by the copy engine alone; else also copies by threads.
bool replaced_by_copies(const graph::Graph& graph, const sched::Schedule& schedule, int value, bool bulk);

/// Throws tj::Error(codegen, unsupported) where a role would wait for fillings that it does not follow.
void refuse_lost_turns(const graph::Graph& graph, const sched::Schedule& schedule);

}  // namespace tj::codegen
