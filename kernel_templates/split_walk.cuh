// Shares of iterations: the pieces of tiles that a block does, and how the sums of a tile's pieces come together.
// Included by units whose graph has a split walk, after walk.cuh.
//
// Decides which pieces a block does and in what order. Tiles that do not fill whole waves of the grid, and those of one
// wave before them, are shared: each cluster has as many of their iterations as any other, one after the other. It does
// them from the last tile to the first. So it begins with the one piece that another cluster may need, and ends with
// the one that may need others'. Then come whole tiles, a grid apart.
// An op says how many places have a tile (`tile_count<Config>(params)`), and how many iterations each tile has
// (`tile_iterations<Config>(params)`). It makes a tile a piece of one by `cut_tile<Config>(tile, piece)`.
// Invariants: a cluster waits only for clusters of lower ranks, which have drawn before it. All counters are 0 again
// when the launch ends.
#pragma once

#include "piece.cuh"
#include "walk.cuh"

namespace tj::dev {

/// One thread of the cluster: the number of clusters that have drawn before, times the cluster's blocks. Whoever is the
/// last leaves the counter at 0.
template <int Reset, int Cluster>
TJ_DEVICE int draw_rank(const Walk& walk) {
  const u32 drawn = draw_global(walk.counter);
  if ((drawn + 1u) * Cluster == walk.blocks) reset_global<Reset>(walk.counter);
  return static_cast<int>(drawn) * Cluster;
}

/// The shares of clusters in the iterations of the first `tiles` tiles. With fewer than Least iterations on a side, a
/// tile is not cut.
template <int Least>
struct Shares {
  int clusters, tiles, iterations;
  TJ_DEVICE int all() const { return tiles * iterations; }
  /// The first iteration that is not of the clusters before this one. Near a tile's begin or end it is moved there.
  TJ_DEVICE int begin(int cluster) const {
    if (cluster >= clusters) return all();
    const int each = all() / clusters, rest = all() - each * clusters;
    const int at = each * cluster + min(cluster, rest);
    const int inside = at % iterations;
    if (inside < Least) return at - inside;
    return iterations - inside < Least ? at - inside + iterations : at;
  }
};
template <class Split>
TJ_DEVICE Shares<Split::kLeast> shares_of(int clusters, int tiles, int iterations) {
  const int rest = tiles % clusters, shared = tiles < clusters ? tiles : clusters + rest;
  const bool counted = shared <= 0x7fffffff / max(iterations, 1);  // else whole tiles last for minutes
  if (rest == 0 || iterations < 2 * Split::kLeast || !counted) return {1, 0, 1};
  return {min(clusters, shared * iterations / Split::kLeast), shared, iterations};
}

/// The piece that ends before iteration `end` of all shared ones.
template <class Split>
TJ_DEVICE Piece shared_piece(int cluster, const Shares<Split::kLeast>& shares, int begin, int end) {
  const int tile = (end - 1) / shares.iterations, from = tile * shares.iterations;
  Piece piece;
  piece.valid = true;
  piece.place = tile * Split::kCluster;
  piece.first = max(begin - from, 0);
  piece.count = end - from - piece.first;
  piece.last = end == from + shares.iterations;
  piece.others = 0;
  if (piece.last && piece.first > 0) {
    do ++piece.others;
    while (shares.begin(cluster - piece.others) > from);
  }
  return piece;
}
template <class Split>
TJ_DEVICE Piece whole_tile(int tile, int tiles, int iterations) {
  Piece piece;
  piece.valid = tile < tiles;
  piece.place = tile * Split::kCluster;
  piece.first = 0;
  piece.count = iterations;
  piece.last = true;
  piece.others = 0;
  return piece;
}
/// This block's part of what the cluster does.
template <class Split>
TJ_DEVICE Piece of_block(const Walk& walk, int drawn, Piece piece) {
  if constexpr (Split::kCluster > 1) piece.place += drawn % Split::kCluster;
  piece.pieces = walk.pieces;
  piece.block = drawn;
  piece.cluster = Split::kCluster;
  piece.floats = Split::kPieceBytes / 4;
  return piece;
}

/// places: of all tiles. drawn: as draw_rank() gives it, and in a cluster the block's rank more.
template <class Split>
TJ_DEVICE Piece first_piece(const Walk& walk, int drawn, int places, int iterations) {
  const int cluster = drawn / Split::kCluster, clusters = static_cast<int>(walk.blocks) / Split::kCluster,
            tiles = cluster_tiles<Split::kCluster>(places);
  const Shares shares = shares_of<Split>(clusters, tiles, iterations);
  const int begin = shares.begin(cluster), end = shares.begin(cluster + 1);
  if (end > begin) return of_block<Split>(walk, drawn, shared_piece<Split>(cluster, shares, begin, end));
  return of_block<Split>(walk, drawn, whole_tile<Split>(shares.tiles + cluster, tiles, iterations));
}
template <class Split>
TJ_DEVICE Piece next_piece(const Walk& walk, int drawn, int places, int iterations, const Piece& done) {
  const int cluster = drawn / Split::kCluster, clusters = static_cast<int>(walk.blocks) / Split::kCluster,
            tiles = cluster_tiles<Split::kCluster>(places), tile = done.place / Split::kCluster;
  const Shares shares = shares_of<Split>(clusters, tiles, iterations);
  if (tile >= shares.tiles) return of_block<Split>(walk, drawn, whole_tile<Split>(tile + clusters, tiles, iterations));
  const int begin = shares.begin(cluster), end = tile * iterations;
  if (end > begin) return of_block<Split>(walk, drawn, shared_piece<Split>(cluster, shares, begin, end));
  return of_block<Split>(walk, drawn, whole_tile<Split>(shares.tiles + cluster, tiles, iterations));
}

/// The counters of one warp of all blocks: behind the first counter, each block has one for each of its warps.
template <class Split>
struct PieceCounters {
  u32* own;
  /// All lanes of a warp.
  TJ_DEVICE PieceCounters(const Walk& walk, int drawn) {
    own = walk.counter + 1 + drawn * Split::kWarps + static_cast<int>(warp_index());
  }
  /// The one of the cluster so many before.
  TJ_DEVICE u32* earlier(int clusters) const { return own - clusters * (Split::kCluster * Split::kWarps); }
};
/// A warp, before it reads what the same warp of other blocks has left: all of it is there. nth: counts the times that
/// a warp says so.
template <int Wait, class Split>
TJ_DEVICE void wait_pieces(const Walk& walk, int drawn, const Piece& piece, int nth) {
  if (piece.others == 0) return;
  const PieceCounters<Split> counters(walk, drawn);
  // All lanes wait. Did one of them for all, the compiler would keep what the role's loop needs in registers of lanes,
  // and each matrix instruction would wait for its operands' addresses: 690 cycles an iteration of 64 x 64 x 128, not
  // 550.
#pragma unroll 1
  for (int other = piece.others; other > 0; --other) wait_global<Wait>(counters.earlier(other), static_cast<u32>(nth));
}
/// A warp, behind the body that leaves sums: they are there.
template <int Sync, int Signal, class Split>
TJ_DEVICE void piece_left(const Walk& walk, int drawn, const Piece& piece) {
  if (piece.last) return;
  const PieceCounters<Split> counters(walk, drawn);
  warp_sync<Sync>();
  if (lane_index() == 0) signal_global<Signal>(counters.own, 1);
}
/// A warp that waits for nobody any more: sets the counters of earlier pieces back, which all its lanes have seen.
template <int Reset, class Split>
TJ_DEVICE void pieces_read(const Walk& walk, int drawn, const Piece& piece) {
  if (piece.others == 0) return;
  const PieceCounters<Split> counters(walk, drawn);
  warp_sync();
#pragma unroll 1
  for (int other = piece.others; other > 0; --other)  // of all lanes, as in wait_pieces()
    if (lane_index() == 0) reset_global<Reset>(counters.earlier(other));
}

}  // namespace tj::dev
