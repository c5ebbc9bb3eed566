// Scales of blocks of 8-bit operands: the bodies load_scales and bring_scales, and promote where each column has one,
// also of pieces.
//
// Decides where scales lie in a slot: those of the tile's rows first, then those of its columns. An iteration has
// kScaleBlocks blocks of 128 elements of K. Where M (N) is contiguous a box has a row of scales for each block, else
// four words for each row, of which some are the iteration's. Included after the family's node bodies. Invariant: sums
// whose row or column lies outside the matrix, and has a scale of zero, are stored nowhere.
#pragma once

namespace tj::ops::gemm {

template <class C>
inline constexpr int kScaleBlocks = Factors<C>::kScaleBlocks;
/// Does each column have a scale of its own?
template <class C>
inline constexpr bool kScalesColumns = C::kScales == kScaledRows;

/// Scales of `Rows` rows in a slot, in words. Where K is contiguous, a box begins at a multiple of four words, as the
/// copy engine takes no other place.
template <bool KMajor, bool Packed, int Rows, int Blocks>
struct ScaleBox {
  static_assert(kScalesTogether % Blocks == 0, "an iteration's scales lie in one box");
  static constexpr int kBytes = 4 * Rows * (KMajor ? kScalesTogether : Packed ? 1 : Blocks);
  /// The word of a row and of block `block` of K, which is the iteration's number `at`.
  static TJ_DEVICE constexpr u32 place(int row, int block, int at) {
    const int word = Packed ? block / kPackedBlocks : block;
    return 4u *
           static_cast<u32>(KMajor ? row * kScalesTogether + word % kScalesTogether : (Packed ? 0 : at * Rows) + row);
  }
};
/// The scale of block `block` of K in the word at an address.
template <class C>
TJ_DEVICE float scale_at(u32 address, int block) {
  if constexpr (kPacked<C>)
    return packed_scale(dev::load_shared<u32>(address), block);
  else
    return dev::load_shared<float>(address);
}
/// Rows that a box brings before the tile: up to three, where M is contiguous and a tile may begin at any row.
template <class C>
inline constexpr int kRowsBefore = kGroups<C> == kGroupEnds && !C::kLeftScalesK ? kScalesBefore : 0;
template <class C>
TJ_DEVICE int rows_before(const Tile& tile) {
  if constexpr (kRowsBefore<C> == 0)
    return 0;
  else
    return tile.row % kRowsBefore<C>;
}
template <class C>
using LeftScales = ScaleBox<C::kLeftScalesK, kPacked<C>, C::kBlockM + kRowsBefore<C>, kScaleBlocks<C>>;
template <class C>
using RightScales = ScaleBox<!kScalesColumns<C> || C::kRightScalesK, kPacked<C>,
                             kScalesColumns<C> ? kTileColumns<C> : scaled_blocks(kTileColumns<C>), kScaleBlocks<C>>;
template <class C>
inline constexpr u32 kRightScales = scale_place(LeftScales<C>::kBytes);
/// From the scales of a gate's columns to those of what it multiplies, which have a box of their own.
template <class C>
inline constexpr u32 kOtherScales = scale_place(RightScales<C>::kBytes);

/// One box of scales, which begins at a row of them and at a block of K.
template <bool KMajor, bool Packed>
TJ_DEVICE void load_box(const TensorMap* map, u32 slot, u32 full, int row, int block, int batch, int half = 0) {
  const int word = Packed ? block / kPackedBlocks : block, first = word / kScalesTogether * kScalesTogether;
  dev::copy_box_4d(slot, map, full, KMajor ? first : row, KMajor ? row : word, batch, half);
}
/// The number of an iteration's block `at` among those of all of K.
template <class C>
TJ_DEVICE int scaled_block(const Tile& tile, int i, int at) {
  return (tile.first + i) * kScaleBlocks<C> + at;
}
template <class C>
TJ_DEVICE void load_scales(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  static_assert(!kSwapped<C>, "rows of sums are rows of d");
  const Params& params = loader.params;
  const int block = scaled_block<C>(tile, i, 0);
  load_box<C::kLeftScalesK, kPacked<C>>(&params.left_scales, slot, full, tile.row - rows_before<C>(tile), block,
                                        tile.left_batch);
#pragma unroll
  for (int half = 0; half < kHalves<C>; ++half)
    load_box<!kScalesColumns<C> || C::kRightScalesK, kPacked<C>>(
        &params.right_scales, slot + kRightScales<C> + half * kOtherScales<C>, full,
        kScalesColumns<C> ? tile.column : tile.column / kScaledElements, block, tile.right_batch, half);
}

template <class C>
TJ_DEVICE float right_scale(u32 slot, int half, int row, int block, int at) {
  return scale_at<C>(slot + kRightScales<C> + half * kOtherScales<C> + RightScales<C>::place(row, block, at), block);
}
/// The factors of an iteration's sums into registers, while its products are under way.
template <class C>
TJ_DEVICE void bring_scales(Consumer<C>& consumer, const Tile& tile, int i, u32 slot) {
#pragma unroll
  for (int at = 0; at < kScaleBlocks<C>; ++at) {
    const int block = scaled_block<C>(tile, i, at);
    float rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(consumer.row(0) + consumer.lane / 4 + 8 * half, C::kBlockM - 1);
      rows[half] = scale_at<C>(slot + LeftScales<C>::place(row + rows_before<C>(tile), block, at), block);
    }
#pragma unroll
    for (int part = 0; part < Factors<C>::kFactorParts; ++part) {
      constexpr int kHalfParts = kScalesColumns<C> ? 1 : Factors<C>::kFactorParts / kHalves<C>;
      const int from = part % kHalfParts * Factors<C>::kPartColumns,
                right = (tile.column % kScaledElements + from) / kScaledElements;
      const float column = kScalesColumns<C> ? 1.0f : right_scale<C>(slot, part / kHalfParts, right, block, at);
#pragma unroll
      for (int half = 0; half < 2; ++half) consumer.factors[at][part][half] = rows[half] * column;
    }
  }
}

/// A piece's sums to those in f32 where each column has a scale.
template <int Piece, class C>
TJ_DEVICE void promote_columns(Consumer<C>& consumer, const Tile& tile, int i, u32 slot) {
  constexpr int kSums = Consumer<C>::kPieceSums, kFirst = Piece * kSums;
#pragma unroll
  for (int at = 0; at < kScaleBlocks<C>; ++at) {
    const int block = scaled_block<C>(tile, i, at);
#pragma unroll
    for (int s = 0; s < kSums; s += 4) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int first = 2 * (kFirst + s);
        const float column = right_scale<C>(slot, first / kTileColumns<C>,
                                            first % kTileColumns<C> + consumer.lane % 4 * 2 + e, block, at);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& sum = consumer.sums[0][kFirst + s + 2 * half + e];
          const float partial = consumer.partial[Consumer<C>::template set_of<Piece>(at)][s + 2 * half + e];
          sum = dev::multiply_add(partial, consumer.factors[at][0][half] * column, sum);
        }
      }
    }
  }
}
template <class C>
TJ_DEVICE void promote(Consumer<C>& consumer, const Tile& tile, int i, u32 slot) {
  promote_columns<0>(consumer, tile, i, slot);
}
template <class C>
TJ_DEVICE void promote_low(Consumer<C>& consumer, const Tile& tile, int i, u32 slot) {
  promote_columns<0>(consumer, tile, i, slot);
}
template <class C>
TJ_DEVICE void promote_high(Consumer<C>& consumer, const Tile& tile, int i, u32 slot) {
  promote_columns<1>(consumer, tile, i, slot);
}

}  // namespace tj::ops::gemm
