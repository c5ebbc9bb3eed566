// The end of a matrix product's tile where a lane has neighbours of one row of d: scale, add, activate, round, store.
//
// Decides how a wave's sums become elements of d, straight to memory. Included by amd.cuh.
// Invariant: nothing outside d is written, nothing outside c and bias is read.
#pragma once

#include "ops/own_end.cuh"

namespace tj::ops::gemm {

inline constexpr int kRun = dev::kSums;  ///< neighbours that a lane has of sixteen columns, from column own_k() on

/// Some elements of a row: how many of them lie in it, and whether they may be accessed 16 bytes (f32: 8) at a time.
TJ_DEVICE void read_run(dev::F32, const void* base, long long at, int there, bool wide, float (&values)[kRun]) {
  const float* from = static_cast<const float*>(base) + at;
#pragma unroll
  for (int e = 0; e < kRun; e += 2) {
    values[e] = values[e + 1] = 0.0f;
    if (wide && e + 2 <= there) {
      dev::load_global(from + e, values[e], values[e + 1]);
    } else {
      if (e < there) values[e] = dev::load_global(from + e);
      if (e + 1 < there) values[e + 1] = dev::load_global(from + e + 1);
    }
  }
}
template <class Tag>
TJ_DEVICE void read_run(Tag tag, const void* base, long long at, int there, bool wide, float (&values)[kRun]) {
  const unsigned short* from = static_cast<const unsigned short*>(base) + at;
  u32 words[kRun / 2] = {};
  if (wide && there >= kRun) {
    dev::load_global(from, words);
  } else {
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      if (e < there) words[e / 2] |= dev::load_global_u16(from + e) << (e % 2 * 16);
  }
#pragma unroll
  for (int w = 0; w < kRun / 2; ++w) dev::unpack(tag, words[w], values[2 * w], values[2 * w + 1]);
}

TJ_DEVICE void write_run(dev::F32, void* base, long long at, int there, bool wide, const float (&values)[kRun]) {
  float* to = static_cast<float*>(base) + at;
#pragma unroll
  for (int e = 0; e < kRun; e += 2) {
    if (wide && e + 2 <= there) {
      dev::store_global(to + e, values[e], values[e + 1]);
    } else {
      if (e < there) dev::store_global(to + e, values[e]);
      if (e + 1 < there) dev::store_global(to + e + 1, values[e + 1]);
    }
  }
}
template <class Tag>
TJ_DEVICE void write_run(Tag tag, void* base, long long at, int there, bool wide, const float (&values)[kRun]) {
  unsigned short* to = static_cast<unsigned short*>(base) + at;
  u32 words[kRun / 2];
#pragma unroll
  for (int w = 0; w < kRun / 2; ++w) words[w] = dev::pack(tag, values[2 * w], values[2 * w + 1]);
  if (wide && there >= kRun) {
    if constexpr (kRun == 8)
      dev::store_global(to, words[0], words[1], words[2], words[3]);
    else
      dev::store_global(to, words[0], words[1]);
    return;
  }
#pragma unroll
  for (int e = 0; e < kRun; ++e)
    if (e < there) dev::store_global_u16(to + e, words[e / 2] >> (e % 2 * 16) & 0xffffu);
}

inline constexpr int kLanes = 16 * 16 / kRun;  ///< of a wave, which has sixteen rows of sixteen columns
/// The place of a thread's sums of a block of rows and columns, among those that a workgroup leaves.
template <class C>
TJ_DEVICE int sums_place(const Consumer<C>& consumer, int r, int c) {
  return consumer.row(r) / 16 * (C::kBlockN / 16) + consumer.column(c) / 16;
}
/// The end of a piece that another workgroup finishes.
template <class C>
TJ_DEVICE void leave_piece(const Consumer<C>& consumer, const Tile& tile) {
#pragma unroll
  for (int c = 0; c < Consumer<C>::kColumnBlocks; ++c) {
#pragma unroll
    for (int r = 0; r < Consumer<C>::kRowBlocks; ++r) {
      float sums[kRun];
      dev::sums_in_order(consumer.sums[r][c], sums);
      dev::leave_sums<kLanes>(tile.piece, sums_place(consumer, r, c), sums);
    }
  }
}

/// d, straight to memory.
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  if (!finishes<C>(tile)) return leave_piece(consumer, tile);
  const typename C::Output tag{};
  const Params& params = consumer.params;
#pragma unroll
  for (int c = 0; c < Consumer<C>::kColumnBlocks; ++c) {
    const int column = tile.column + consumer.column(c) + static_cast<int>(dev::own_k());
    float bias[kRun] = {};
    if constexpr (C::kBias)
      read_run(tag, params.bias, tile.batch * params.bias_stride_batch + column, params.n - column,
               params.wide_bias != 0, bias);
#pragma unroll
    for (int r = 0; r < Consumer<C>::kRowBlocks; ++r) {
      const int row = tile.row + consumer.row(r) + static_cast<int>(dev::sum_column());
      const int there = row < rows_end<C>(params, tile) ? params.n - column : 0;
      float values[kRun];
      dev::sums_in_order(consumer.sums[r][c], values);
      if constexpr (kSplits<C>) {
        float earlier[kRun];
        dev::read_sums<kLanes>(tile.piece, sums_place(consumer, r, c), earlier);
#pragma unroll
        for (int e = 0; e < kRun; ++e) values[e] = earlier[e] + values[e];
      }
      float added[kRun] = {};
      if constexpr (C::kAddC)
        read_run(Addend<C>{}, params.c, tile.batch * params.c_stride_batch + row * params.c_stride_row + column, there,
                 params.wide_c != 0, added);
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        values[e] =
            ended<C>(params, product_factor(consumer) * values[e], added[e], bias[e], {row, column + e, tile.batch});
      }
      write_run(tag, params.d_data, tile.matrix * params.d_stride_batch + row * params.d_stride_row + column, there,
                params.wide_d != 0, values);
    }
  }
}

}  // namespace tj::ops::gemm
