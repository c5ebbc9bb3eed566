// Where a role that is all of its block meets: the barriers of blocks that have none in shared memory.
//
// Decides that they stand in the gaps between the nodes of a step, the same in every step, and as few as will do:
// between a write of a slot and its reads, and between those and the next write of that slot, there is always one. Does
// not decide the order of nodes, nor text. Invariant: each of them, but the one before a tile that follows another,
// parts two accesses that no other parts.
#pragma once

#include <vector>

#include "codegen/timeline.hpp"

namespace tj::codegen {

/// On a cycle of places, what must be parted: one of the `length` places after `start`, itself not among them.
struct Arc {
  int start = 0, length = 0;
};

/// The fewest of `places` places, of which each arc has one; where several sets are as small, one whose places are late
/// in their arcs.
std::vector<bool> fewest_places(const std::vector<Arc>& arcs, int places);

/// Adds EventKind::block_sync and warp_sync to the calls of the role for a trip count. Throws tj::Error(codegen) where
/// a slot would be read before it is written, or written before it has been read.
void place_barriers(const graph::Graph& graph, const sched::Schedule& schedule, int role, int trip_count,
                    Timeline& timeline);

}  // namespace tj::codegen
