// A piece of a tile, as node bodies see it: which iterations a block does, and where sums of pieces lie.
//
// Decides how the sums of a piece lie in memory: each thread finds there what the same thread of another block has
// left. In a sliced walk that is shared memory, and a unit of it says TJ_SLICED_WALK before this file. Who does which
// piece, and when another block's sums are there, is the walk's to say (split_walk.cuh, sliced_walk.cuh). Invariant:
// sums are added in the order of the pieces' iterations, so that the same pieces give the same bits.
#pragma once

namespace tj::dev {

struct Piece {
  bool valid;
  int place;               ///< the tile's
  int first, count;        ///< iterations of the tile
  bool last;               ///< the tile's last iterations are among them: its block finishes the tile
  int others;              ///< pieces of earlier iterations, where it is the last
  float* pieces;           ///< sums of all blocks
  int block;               ///< this block's number among them
  int cluster;             ///< from a piece's block to that of the next one
  int floats;              ///< of a block
  u32 here = 0, full = 0;  ///< in a sliced walk: where sums come to in shared memory, and the barrier of their bytes
  u32 last_rank = 0;       ///< likewise: rank of the block that adds them

  TJ_DEVICE float* sums(int earlier) const {
    return pieces + static_cast<long long>(block - earlier * cluster) * floats;
  }
};

/// The piece of a tile. An op whose tiles have these members says `using dev::cut_tile;`.
template <class C, class Tile>
TJ_DEVICE Tile cut_tile(Tile tile, const Piece& piece) {
  tile.first = piece.first;
  tile.trip_count = piece.count;
  tile.piece = piece;
  return tile;
}

/// The same piece in all lanes of a warp, so that the compiler knows. All of them take part.
TJ_DEVICE Piece uniform(Piece piece) {
  piece.valid = uniform(static_cast<int>(piece.valid)) != 0;
  piece.place = uniform(piece.place);
  piece.first = uniform(piece.first);
  piece.count = uniform(piece.count);
  piece.last = uniform(static_cast<int>(piece.last)) != 0;
  piece.others = uniform(piece.others);
  return piece;
}

#ifdef TJ_SLICED_WALK
// Sums go to the last block's shared memory, a place for each other block of the cluster.
template <int Lanes, int Count>
TJ_DEVICE u32 sums_address(const Piece& piece, int rank, int place) {
  const int at = rank * piece.floats + place * (Count * Lanes) + static_cast<int>(lane_index()) * 4;
  return piece.here + static_cast<u32>(at) * 4u;
}
#endif

/// Leaves sums of a piece that is not the last. Lanes: threads of a warp. place: counts, over the block, the times that
/// a warp leaves Count sums of each lane. In a sliced walk, each warp leaves as many in each slice but the last.
template <int Lanes, int Count>
TJ_DEVICE void leave_sums(const Piece& piece, int place, const float (&sums)[Count]) {
  static_assert(Count % 4 == 0, "sums are stored 16 bytes at a time");
#ifdef TJ_SLICED_WALK
  const u32 to = sums_address<Lanes, Count>(piece, piece.block, place);
#else
  float* to = piece.sums(0) + (place * (Count * Lanes) + static_cast<int>(lane_index()) * 4);
#endif
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    const float four[4] = {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
#ifdef TJ_SLICED_WALK
    store_shared_at(to + static_cast<u32>(i * Lanes) * 4u, four, piece.full, piece.last_rank);
#else
    store_global(to + i * Lanes, four);
#endif
  }
}
/// The sums of one piece at some places that follow each other, all on their way together: one round trip.
template <int Lanes, int Count, int Places>
TJ_DEVICE void load_sums(const float* piece, int place, float (&sums)[Places][Count]) {
  const float* from = piece + (place * (Count * Lanes) + static_cast<int>(lane_index()) * 4);
#pragma unroll
  for (int p = 0; p < Places; ++p) {
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      float four[4];
      load_global(from + (p * Count + i) * Lanes, four);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[p][i + e] = four[e];
    }
  }
}
/// earlier = the sums of all earlier pieces at this place; 0 where there are none.
template <int Lanes, int Count>
TJ_DEVICE void read_sums(const Piece& piece, int place, float (&earlier)[Count]) {
#pragma unroll
  for (float& sum : earlier) sum = 0.0f;
#ifndef TJ_SLICED_WALK
  const float* from = piece.sums(piece.others) + (place * (Count * Lanes) + static_cast<int>(lane_index()) * 4);
#endif
#pragma unroll 1
  for (int other = 0; other < piece.others; ++other) {
#ifdef TJ_SLICED_WALK
    const u32 from = sums_address<Lanes, Count>(piece, other, place);
#endif
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      float four[4];
#ifdef TJ_SLICED_WALK
      load_shared(from + static_cast<u32>(i * Lanes) * 4u, four);
#else
      load_global(from + i * Lanes, four);
#endif
#pragma unroll
      for (int e = 0; e < 4; ++e) earlier[i + e] += four[e];
    }
#ifndef TJ_SLICED_WALK
    from += static_cast<long long>(piece.cluster) * piece.floats;
#endif
  }
}

}  // namespace tj::dev
