// The end of a matrix product's tile: scale, add, activate, round, store. Included by the family's node bodies.
//
// Decides how accumulator fragments become elements of d. Invariant: nothing outside d is written, nothing outside c and bias
// is read.
#pragma once

#include "fragments.cuh"

namespace tj::ops::gemm {

inline constexpr int kPart = 4;  ///< groups of 8 columns that are finished together

template <int Kind>
TJ_DEVICE float activate(float x) {
  constexpr float kLog2E = 1.44269504088896f, kSqrtHalf = 0.707106781186548f;
  if constexpr (Kind == kRelu) return x < 0.0f ? 0.0f : x;  // a NaN stays one
  else if constexpr (Kind == kGelu) return 0.5f * x * (1.0f + dev::error_function(x * kSqrtHalf));
  else if constexpr (Kind == kSilu) return dev::divide_approx(x, 1.0f + dev::exp2_approx(-x * kLog2E));
  else return x;
}

// ---- one or two elements of any output type ---------------------------------------------------------------------------
TJ_DEVICE float element_at(dev::F32, const void* base, long long at) { return dev::load_global(static_cast<const float*>(base) + at); }
template <class Tag>
TJ_DEVICE float element_at(Tag tag, const void* base, long long at) {
  return dev::unpack_low(tag, dev::load_global_u16(static_cast<const unsigned short*>(base) + at));
}

/// values[2b + e] = the elements of c at this thread's columns of group b; 0 outside.
template <class Tag>
TJ_DEVICE void read_elements(Tag tag, const Params& params, long long row_start, int column, bool inside, float (&values)[2 * kPart]) {
#pragma unroll
  for (int b = 0; b < kPart; ++b) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int at = column + 8 * b + e;
      values[2 * b + e] = inside && at < params.n ? element_at(tag, params.c, row_start + at) : 0.0f;
    }
  }
}
TJ_DEVICE void read_c(dev::F32 tag, const Params& params, long long row_start, int column, bool inside, float (&values)[2 * kPart]) {
  if (!params.wide_c || column + 8 * kPart > params.n) return read_elements(tag, params, row_start, column, inside, values);
#pragma unroll
  for (int b = 0; b < kPart; ++b) {
    if (inside) dev::load_global(static_cast<const float*>(params.c) + row_start + column + 8 * b, values[2 * b], values[2 * b + 1]);
  }
}
/// Lane q of a quad reads the 8 columns of group q at once; a transpose brings each pair to its lane.
template <class Tag>
TJ_DEVICE void read_c(Tag tag, const Params& params, long long row_start, int column, bool inside, float (&values)[2 * kPart]) {
  const int lane = static_cast<int>(dev::lane_index() & 3u), first = column - 2 * lane;  // alike in a quad
  const bool whole = params.wide_c && first + 8 * kPart <= params.n;
  if (!whole) read_elements(tag, params, row_start, column, inside, values);
  u32 words[kPart] = {};
  if (whole && inside) dev::load_global(static_cast<const unsigned short*>(params.c) + row_start + first + 8 * lane, words);
  dev::transpose_quad(words);
#pragma unroll
  for (int b = 0; b < kPart; ++b) {
    if (whole) dev::unpack(tag, words[b], values[2 * b], values[2 * b + 1]);
  }
}

TJ_DEVICE void write_d(dev::F32, const Params& params, long long row_start, int column, bool inside, const float (&values)[2 * kPart]) {
  float* row = static_cast<float*>(params.d) + row_start;
#pragma unroll
  for (int b = 0; b < kPart; ++b) {
    const int at = column + 8 * b;
    if (!inside) continue;
    if (params.wide_d && at + 2 <= params.n) {
      dev::store_global(row + at, values[2 * b], values[2 * b + 1]);
    } else {
      if (at < params.n) dev::store_global(row + at, values[2 * b]);
      if (at + 1 < params.n) dev::store_global(row + at + 1, values[2 * b + 1]);
    }
  }
}
/// A transpose gives lane q of a quad the 8 columns of group q: 16 bytes.
template <class Tag>
TJ_DEVICE void write_d(Tag tag, const Params& params, long long row_start, int column, bool inside, const float (&values)[2 * kPart]) {
  const int lane = static_cast<int>(dev::lane_index() & 3u);
  u32 words[kPart];
#pragma unroll
  for (int b = 0; b < kPart; ++b) words[b] = dev::pack(tag, values[2 * b], values[2 * b + 1]);
  dev::transpose_quad(words);
  const int first = column - 2 * lane + 8 * lane;
  unsigned short* eight = static_cast<unsigned short*>(params.d) + row_start + first;
  if (!inside || first >= params.n) return;
  if (params.wide_d && first + 8 <= params.n) return dev::store_global(eight, words[0], words[1], words[2], words[3]);
#pragma unroll 1  // rare, and long when written out
  for (int left = min(8, params.n - first); left > 0; --left) {
    dev::store_global_u16(eight++, words[0] & 0xffffu);
#pragma unroll
    for (int b = 0; b < kPart; ++b) words[b] = words[b] >> 16 | (b + 1 < kPart ? words[b + 1] << 16 : 0);
  }
}

/// d = activation(alpha * sums + beta * c + bias).
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  using Output = typename C::Output;
  dev::hold(consumer.sums);  // the last group's wait is behind: no read may move ahead of it
  const Params& params = consumer.params;
  const int row = tile.row + consumer.copy * kRowsPerConsumer + consumer.row0;
#pragma unroll
  for (int j = 0; j < C::kBlockN / 8; j += kPart) {
    const int column = tile.column + 8 * j + consumer.column0;
    float bias[2 * kPart] = {};
    if constexpr (C::kBias) {
#pragma unroll
      for (int i = 0; i < 2 * kPart; ++i) {
        const int at = column + 8 * (i / 2) + i % 2;
        if (at < params.n) bias[i] = element_at(Output{}, params.bias, tile.batch * params.bias_stride_batch + at);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = row + 8 * half < params.m;
      float values[2 * kPart], added[2 * kPart] = {};
      if constexpr (C::kAddC)
        read_c(Output{}, params, tile.batch * params.c_stride_batch + (row + 8 * half) * params.c_stride_row, column, inside, added);
#pragma unroll
      for (int i = 0; i < 2 * kPart; ++i) {
        float value = params.alpha * consumer.sums[4 * (j + i / 2) + 2 * half + i % 2];
        if constexpr (C::kAddC) value = dev::multiply_add(params.beta, added[i], value);
        values[i] = activate<C::kActivation>(value + bias[i]);
      }
      write_d(Output{}, params, tile.batch * params.d_stride_batch + (row + 8 * half) * params.d_stride_row, column, inside, values);
    }
  }
}

}  // namespace tj::ops::gemm
