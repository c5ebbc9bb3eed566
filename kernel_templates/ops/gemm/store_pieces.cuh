// The end of a piece of a tile's K: sums that another block finishes, and those that were left before. Included by
// store.cuh, behind the places of rows.
//
// Decides in which order a thread's sums stand among those that a block leaves, and when they are added. Does not
// decide where pieces lie (piece.cuh). Invariant: sums are added in the order of K.
#pragma once

namespace tj::ops::gemm {

inline constexpr int kLanes = 32;
/// The place of a thread's sums of one part of a row, among those that a block leaves.
template <class C>
TJ_DEVICE int sums_place(const Consumer<C>& consumer, int block, int part, int half) {
  return (consumer.row(block) / 16 * ((kSumColumns<C> + 31) / 32) + consumer.column() / 32 + part) * 2 + half;
}
/// A thread's sum of column values[i] of a part.
template <class C>
TJ_DEVICE float sum_of(const Consumer<C>& consumer, int block, int part, int i, int half) {
  return Parts<C>::has(part, i) ? consumer.sum(block, Parts<C>::sum(part, i, half)) : 0.0f;
}
/// The end of a piece that another block finishes.
template <class C>
TJ_DEVICE void leave_piece(Consumer<C>& consumer, const Tile& tile) {
#pragma unroll
  for (int part = 0; part < Parts<C>::kCount; ++part) {
    consumer.bring(part);
#pragma unroll
    for (int rows = 0; rows < 2 * Consumer<C>::kRowBlocks; ++rows) {
      consumer.afresh();
      const int block = rows / 2, half = rows % 2;
      float sums[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = sum_of(consumer, block, part, i, half);
      dev::leave_sums<kLanes>(tile.piece, sums_place(consumer, block, part, half), sums);
    }
  }
}

/// Adds a piece's sums of so many places, of which each part of the consumer's rows of a block has two.
template <int Places, class C>
TJ_DEVICE void add_places(Consumer<C>& consumer, const float* piece, int block, int place, int first) {
  float sums[Places][8];
  dev::load_sums<kLanes>(piece, place + first, sums);
#pragma unroll
  for (int p = 0; p < Places; ++p) {
    const int part = (first + p) / 2, half = (first + p) % 2;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (Parts<C>::has(part, i)) consumer.sums[block][Parts<C>::sum(part, i, half)] += sums[p][i];
  }
}

/// sums += what the blocks of other slices have sent.
template <class C>
TJ_DEVICE void add_slices(Consumer<C>& consumer, const Tile& tile) {
  static_assert(Consumer<C>::kRowBlocks == 1, "a sliced tile has one product a consumer");
  const int place = sums_place(consumer, 0, 0, 0);
#pragma unroll
  for (int at = 0; at < 2 * Parts<C>::kCount; ++at) {
    float earlier[8];
    dev::read_sums<kLanes>(tile.piece, place + at, earlier);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (Parts<C>::has(at / 2, i)) consumer.sums[0][Parts<C>::sum(at / 2, i, at % 2)] += earlier[i];
  }
}

/// Are the sums of earlier pieces added to those in registers before the tile's end? Read part by part beside it, each
/// would cost it a round trip to L2.
template <class C, class = void>
inline constexpr bool kMerges = false;
template <class C>
inline constexpr bool kMerges<C, decltype(void(Consumer<C>::kMergedPlaces))> = kSplits<C>;

/// sums += those of the earlier pieces, in the order of K.
template <class C>
TJ_DEVICE void merge_pieces(Consumer<C>& consumer, const Tile& tile) {
  if constexpr (kSliced<C>) {
    add_slices(consumer, tile);
  } else if constexpr (kMerges<C>) {
    constexpr int kAll = 2 * Parts<C>::kCount, kTogether = Consumer<C>::kMergedPlaces;
    const float* from = tile.piece.sums(tile.piece.others);
#pragma unroll 1
    for (int other = 0; other < tile.piece.others;
         ++other, from += static_cast<long long>(tile.piece.cluster) * tile.piece.floats) {
#pragma unroll
      for (int block = 0; block < Consumer<C>::kRowBlocks; ++block) {
        const int place = sums_place(consumer, block, 0, 0);
#pragma unroll
        for (int first = 0; first < kAll; first += kTogether) {
          constexpr int kLast = kAll % kTogether == 0 ? kTogether : kAll % kTogether;
          if (first + kTogether <= kAll)
            add_places<kTogether>(consumer, from, block, place, first);
          else
            add_places<kLast>(consumer, from, block, place, first);
        }
      }
    }
  }
}

}  // namespace tj::ops::gemm
