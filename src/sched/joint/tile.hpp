// From the joint search's answer to a schedule: roles of what runs once a tile, then everything but rings.
//
// Decides no cycle. Invariant: nodes that must share a role do, and no role mixes nodes that complete by themselves
// with others, unless roles may be mixed.
#pragma once

#include "graph/graph.hpp"
#include "sched/joint/joint.hpp"

namespace tj::sched {

/// Fills the roles of tile-scope nodes. A new role is opened only where none of the node's kind exists, or with `apart`
/// none of what computes for its copy. With `mixed` any role will do.
void place_tile_nodes(const graph::Graph& graph, bool mixed, bool apart, JointResult& result);

/// A found result as a schedule whose roles have names, registers and orders, but no rings yet. Throws
/// tj::Error(schedule, unsupported) with the certificate when nothing was found.
Schedule with_roles(const graph::Graph& graph, const JointResult& result, const Options& options);

/// Does the node complete by itself, so that it belongs into a producer's role?
bool completes_by_itself(const graph::Node& node);

}  // namespace tj::sched
