// Products of e4m3 by warps: an iteration's sums of half of a warp's columns, then of the others, each added to those
// in f32; and bring_scales for scales of blocks.
//
// Decides which sums are by themselves at a time: all of them would take as many registers again. Decides which scales
// a thread reads: those of its rows and columns, as they lie in memory, while products are under way. Included after
// the family's node bodies. Invariant: no scale is read of a row or column that lies outside the matrix.
#pragma once

#include "ops/gemm/memory_scales.cuh"

namespace tj::ops::gemm {

/// Places of rows are made anew in each iteration: kept in registers, they would take those of sums.
template <class C>
TJ_DEVICE void bring_scales(Consumer<C>& consumer, const Tile& tile, int i) {
  static_assert(C::kBlockK == kScaledElements && kScaledElements % kWarpColumns<C> == 0,
                "an iteration has one block of K, and a warp's columns one of b");
  const Params& params = consumer.params;
  const int block = tile.first + i;
  int row = tile.row + consumer.row(0) + consumer.lane / 4, column = tile.column + consumer.column();
  dev::hold(row), dev::hold(column);
#pragma unroll
  for (int r = 0; r < 2 * kWarpRows<C>; ++r)
    consumer.left_scales[r] = memory_scale<C>(params.scale_a, params.scale_strides[0], tile.left_batch,
                                              min(row + 8 * r, params.m - 1), block);
  if constexpr (C::kScales == kScaledRows) column += consumer.lane % 4 * 2;
#pragma unroll
  for (int c = 0; c < Consumer<C>::kRightScales; ++c) {
    const int place = min(column + c / 2 * 8 + c % 2, params.n - 1);
    consumer.right_scales[c] = memory_scale<C>(params.scale_b, params.scale_strides[1], tile.right_batch,
                                               C::kScales == kScaledRows ? place : place / kScaledElements, block);
  }
}

/// Half `Half` of a warp's columns: the sums of an iteration alone.
template <int Half, class C>
TJ_DEVICE void multiply_half(Consumer<C>& consumer, u32 slot) {
  static_assert(kAcross<C> % 2 == 0, "a half has sixteens of columns");
  clear(consumer.partial);
  multiply<Span<0, kSteps<C>, Half * kAcross<C> / 2, kAcross<C> / 2>>(consumer, consumer.partial, slot);
}
template <int Half, class C>
TJ_DEVICE void promote_half(Consumer<C>& consumer) {
  constexpr int kGroups = kWarpColumns<C> / 16, kFirst = Half * kGroups;  // eights of columns
#pragma unroll
  for (int block = 0; block < kWarpRows<C>; ++block) {
#pragma unroll
    for (int at = 0; at < 4 * kGroups; ++at) {
      const float partial = consumer.partial[block][at / 4][at % 4];
      float& sum = consumer.sums[block][kFirst + at / 4][at % 4];
      if constexpr (kScaled<C>) {
        const int column = C::kScales == kScaledRows ? (kFirst + at / 4) * 2 + at % 2 : 0;
        sum = dev::multiply_add(partial, consumer.left_scales[2 * block + at / 2 % 2] * consumer.right_scales[column],
                                sum);
      } else {
        sum += partial;
      }
    }
  }
}

}  // namespace tj::ops::gemm

#include "ops/gemm/promoted_halves.cuh"
