// A piece of a tile, as node bodies see it: which iterations a block does, and where sums of pieces lie.
//
// Decides how the sums of a piece lie in memory: each thread finds there what the same thread of another block has
// left. Who does which piece, and when another block's sums are there, is split_walk.cuh's to say. Invariant: sums are
// added in the order of the pieces' iterations, so that the same pieces give the same bits.
#pragma once

namespace tj::dev {

struct Piece {
  bool valid;
  int place;         ///< the tile's
  int first, count;  ///< iterations of the tile
  bool last;         ///< the tile's last iterations are among them: its block finishes the tile
  int others;        ///< pieces of earlier iterations, where it is the last
  float* pieces;     ///< sums of all blocks
  int block;         ///< this block's number among them
  int cluster;       ///< from a piece's block to that of the next one
  int floats;        ///< of a block

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

/// Leaves sums of a piece that is not the last. Lanes: threads of a warp. place: counts, over the block, the times that
/// a warp leaves Count sums of each lane.
template <int Lanes, int Count>
TJ_DEVICE void leave_sums(const Piece& piece, int place, const float (&sums)[Count]) {
  static_assert(Count % 4 == 0, "sums are stored 16 bytes at a time");
  float* to = piece.sums(0) + (place * (Count * Lanes) + static_cast<int>(lane_index()) * 4);
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    const float four[4] = {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    store_global(to + i * Lanes, four);
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
  const float* from = piece.sums(piece.others) + (place * (Count * Lanes) + static_cast<int>(lane_index()) * 4);
#pragma unroll
  for (float& sum : earlier) sum = 0.0f;
#pragma unroll 1
  for (int other = 0; other < piece.others; ++other, from += static_cast<long long>(piece.cluster) * piece.floats) {
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      float four[4];
      load_global(from + i * Lanes, four);
#pragma unroll
      for (int e = 0; e < 4; ++e) earlier[i + e] += four[e];
    }
  }
}

}  // namespace tj::dev
