// Products of e4m3 by waves: an iteration's sums of half of a wave's columns, then of the others, each added to those
// in f32; and bring_scales for scales of blocks.
//
// Decides which sums are by themselves at a time, and which scales a lane reads: that of its row, and of its columns,
// as they lie in memory. Included after the family's node bodies. Invariant: no scale is read of a row or column that
// lies outside the matrix.
#pragma once

#include "ops/gemm/memory_scales.cuh"

namespace tj::ops::gemm {

template <>
struct Words<dev::E4m3> {
  TJ_DEVICE static void multiply(float (&d)[dev::kSums], const u32 (&a)[dev::kOperandWords],
                                 const u32 (&b)[dev::kOperandWords]) {
    dev::mma_m16n16k32(dev::E4m3{}, d, a, b);
  }
};

template <class C>
TJ_DEVICE void bring_scales(Consumer<C>& consumer, const Tile& tile, int i) {
  constexpr int kColumns = kWaveColumns<C> * kMatrix;
  static_assert(C::kBlockK == kScaledElements && kScaledElements % kColumns == 0,
                "an iteration has one block of K, and a wave's columns one of b");
  const Params& params = consumer.params;
  const int block = depth_from_end<C>(tile, i).begin / kScaledElements;
#pragma unroll
  for (int r = 0; r < kWaveRows<C>; ++r) {
    const int row = min(tile.row + consumer.row(r) + static_cast<int>(dev::sum_column()), params.m - 1);
    consumer.left_scales[r] = memory_scale<C>(params.scale_a, params.scale_strides[0], tile.left_batch, row, block);
  }
  const auto right = [&](int row) {
    return memory_scale<C>(params.scale_b, params.scale_strides[1], tile.right_batch, row, block);
  };
  if constexpr (C::kScales == kScaledRows) {
#pragma unroll
    for (int c = 0; c < kWaveColumns<C>; ++c) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s)
        consumer.right_scales[c][s] =
            right(min(tile.column + consumer.column(c) + static_cast<int>(dev::sum_row(s)), params.n - 1));
    }
  } else {
    consumer.right_scales[0][0] = right(min(tile.column + consumer.column(0), params.n - 1) / kScaledElements);
  }
}

/// Half `Half` of a wave's columns: the sums of an iteration alone.
template <int Half, class C>
TJ_DEVICE void multiply_half(Consumer<C>& consumer, u32 slot) {
  static_assert(kWaveColumns<C> % 2 == 0, "a half has sixteens of columns");
  clear(consumer.partial);
  multiply<Half * kWaveColumns<C> / 2, kWaveColumns<C> / 2>(consumer, consumer.partial, slot);
}
template <int Half, class C>
TJ_DEVICE void promote_half(Consumer<C>& consumer) {
  constexpr int kColumns = kWaveColumns<C> / 2;
#pragma unroll
  for (int r = 0; r < kWaveRows<C>; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) {
        const int column = Half * kColumns + c;
        const float partial = consumer.partial[r][c][s];
        float& sum = consumer.sums[r][column][s];
        if constexpr (kScaled<C>) {
          constexpr bool kEach = C::kScales == kScaledRows;
          sum = dev::multiply_add(
              partial, consumer.left_scales[r] * consumer.right_scales[kEach ? column : 0][kEach ? s : 0], sum);
        } else {
          sum += partial;
        }
      }
    }
  }
}

}  // namespace tj::ops::gemm

#include "ops/gemm/promoted_halves.cuh"
