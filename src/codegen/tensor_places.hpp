// Columns of the rings in tensor memory.
//
// Decides that two rings may have the same columns, if the graph orders all accesses to one before all accesses to the
// other, around the loop. For example, weights of attention lie over the scores that they were made of. Does not decide
// slots. Invariant: columns that are shared are never in use for both, whatever the roles' progress; slots of a ring
// lie one behind the other.
#pragma once

#include <vector>

#include "codegen/layout.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// Fills `column` and `member_columns` of the rings that have slot_columns. Returns the columns to allocate: a power of
/// two, 0 without such rings. Throws tj::Error(codegen, unsupported) when there are not enough.
int place_tensor_rings(const graph::Graph& graph, const sched::Schedule& schedule, std::vector<RingPlace>& rings);

}  // namespace tj::codegen
