// Nodes with a fast variant: the nodes that say from which step on a role may run them all.
//
// Decides that alone; the text is role_text's. Invariant: a step in which the nodes given here may run fast is one for
// all nodes of the role.
#pragma once

#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// For each context, its node with a fast variant in the last stage, in the order of the role.
std::vector<int> last_variants(const graph::Graph& graph, const sched::Schedule& schedule, int role);

}  // namespace tj::codegen
