// Slices of tiles: blocks of a cluster do a tile together, each some of its iterations, and how their sums come
// together. Included by units whose graph has a sliced walk, after pipeline.cuh.
//
// Decides which iterations a block does, and where the sums of others lie in the last block's shared memory. A store
// brings them there and says so to a barrier: nobody fences, and no block waits for another but a tile's last one. An
// op says how many iterations a tile has (`tile_iterations<Config>(params)`), and makes a tile a slice of one by
// `cut_tile<Config>(tile, piece)`. Invariant: sums are added in the order of the blocks' iterations, so that equal
// launches give equal bits.
#pragma once

#define TJ_SLICED_WALK
#include "piece.cuh"

namespace tj::dev {

/// This block's slice. R: the slot of the sums that come. Ranks of the blocks of a tile are Cluster / Slices apart, so
/// that neighbours do the same slice of tiles beside each other.
template <class R, int Cluster, int Slices>
TJ_DEVICE Piece slice_of(u32 shared, int iterations) {
  constexpr int kTiles = Cluster / Slices;
  const int rank = static_cast<int>(cluster_rank()), slice = rank / kTiles, each = iterations / Slices,
            rest = iterations - each * Slices;
  Piece piece;
  piece.valid = true;
  piece.place = static_cast<int>(block_index()) / Cluster * kTiles + rank % kTiles;
  piece.first = slice * each + min(slice, rest);
  piece.count = each + (slice < rest ? 1 : 0);
  piece.last = slice == Slices - 1;
  piece.others = piece.last ? Slices - 1 : 0;
  piece.pieces = nullptr;
  piece.block = slice;
  piece.cluster = kTiles;
  piece.floats = static_cast<int>(R::kSlotBytes) / 4 / (Slices - 1);
  piece.here = slot_address<R>(shared, 0);
  piece.full = full_barrier<R>(shared, 0);
  piece.last_rank = static_cast<u32>((Slices - 1) * kTiles + rank % kTiles);
  return piece;
}

/// One thread of a role that adds sums, in each block: the last one announces what comes. Sums may come before.
template <int Site, class R, int Cluster, int Slices>
TJ_DEVICE void expect_slices(u32 shared) {
  if (static_cast<int>(cluster_rank()) >= Cluster - Cluster / Slices) expect_full<Site, R>(shared, 0);
}
/// A warp, before it adds what other blocks have sent.
template <int Site, class R>
TJ_DEVICE void wait_slices(u32 shared, const Piece& piece) {
  if (piece.others > 0) wait_full<Site, R>(shared, 0);
}

}  // namespace tj::dev
