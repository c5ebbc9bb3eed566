// Meeting places of a role that is all of its block: the barriers of blocks that have none in shared memory.
//
// Decides that they stand in the gaps between the nodes of a step, the same in every step, and as few as will do. There
// is always one between a write of a slot and its reads, and between those reads and the next write of the slot. Does
// not decide the order of nodes, nor text. Invariant: every barrier parts two accesses that no other parts, except the
// one before a tile that follows another.
#pragma once

#include <vector>

#include "codegen/timeline.hpp"

namespace tj::codegen {

/// An arc on a cycle of places: it must be parted at one of the `length` places after `start`; `start` itself does not
/// count.
struct Arc {
  int start = 0, length = 0;
};

/// The fewest of `places` places such that each arc has one. Among sets as small, the one whose places are late in
/// their arcs.
std::vector<bool> fewest_places(const std::vector<Arc>& arcs, int places);

/// Adds EventKind::block_sync and warp_sync to the calls of the role for a trip count. Throws tj::Error(codegen) where
/// a slot would be read before it is written, or written before it has been read.
void place_barriers(const graph::Graph& graph, const sched::Schedule& schedule, int role, int trip_count,
                    Timeline& timeline);

}  // namespace tj::codegen
