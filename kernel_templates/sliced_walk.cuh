// Slices of tiles: the blocks of a cluster do a tile together, each some of its iterations, and how their sums come
// together. Included by units whose graph has a sliced walk, after pipeline.cuh.
//
// Decides which iterations a block does, and where the sums of others lie in the last block's shared memory. A store
// brings them there and says so to a barrier: nobody fences, and no block waits for another but the last one. An op
// says how many iterations a tile has (`tile_iterations<Config>(params)`), and makes a tile a slice of one by
// `cut_tile<Config>(tile, piece)`. Invariant: sums are added in the order of the blocks' iterations, so that equal
// launches give equal bits.
#pragma once

#define TJ_SLICED_WALK
#include "piece.cuh"

namespace tj::dev {

/// This block's slice. R: the slot of the sums that come.
template <class R, int Cluster>
TJ_DEVICE Piece slice_of(u32 shared, int iterations) {
  const int rank = static_cast<int>(cluster_rank()), each = iterations / Cluster, rest = iterations - each * Cluster;
  Piece piece;
  piece.valid = true;
  piece.place = static_cast<int>(block_index()) / Cluster;
  piece.first = rank * each + min(rank, rest);
  piece.count = each + (rank < rest ? 1 : 0);
  piece.last = rank == Cluster - 1;
  piece.others = piece.last ? Cluster - 1 : 0;
  piece.pieces = nullptr;
  piece.block = rank;
  piece.cluster = Cluster;
  piece.floats = static_cast<int>(R::kSlotBytes) / 4 / (Cluster - 1);
  piece.here = slot_address<R>(shared, 0);
  piece.full = full_barrier<R>(shared, 0);
  return piece;
}

/// One thread of a role that adds sums, in each block: the last one announces what comes. Sums may come before.
template <int Site, class R, int Cluster>
TJ_DEVICE void expect_slices(u32 shared) {
  if (cluster_rank() == Cluster - 1) expect_full<Site, R>(shared, 0);
}
/// A warp, before it adds what other blocks have sent.
template <int Site, class R>
TJ_DEVICE void wait_slices(u32 shared, const Piece& piece) {
  if (piece.others > 0) wait_full<Site, R>(shared, 0);
}

}  // namespace tj::dev
