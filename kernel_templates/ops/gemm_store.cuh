// The end of a matrix product's tile: scale, add, activate, round, store. Included by the family's node bodies.
//
// Decides how accumulator fragments become elements of d. Invariant: nothing outside d is written, nothing outside c and bias
// is read.
#pragma once

#include "fragments.cuh"

namespace tj::ops::gemm {

inline constexpr int kPart = 4;  ///< groups of 8 columns that are finished together

/// x times the normal distribution function. The tail by Abramowitz and Stegun 7.1.26, erfc within 1.5e-7, without a branch and
/// without a difference of two numbers near 1.
TJ_DEVICE float gelu(float x) {
  constexpr float kHalfLog2E = 0.721347520444482f, kScale = 0.3275911f * 0.707106781186548f;
  const float t = dev::divide_approx(1.0f, dev::multiply_add(kScale, x < 0.0f ? -x : x, 1.0f));
  float tail = dev::multiply_add(t, 1.061405429f, -1.453152027f);
  tail = dev::multiply_add(t, tail, 1.421413741f);
  tail = dev::multiply_add(t, tail, -0.284496736f);
  tail = dev::multiply_add(t, tail, 0.254829592f) * t * 0.5f * dev::exp2_approx(-kHalfLog2E * x * x);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

template <int Kind>
TJ_DEVICE float activate(float x) {
  constexpr float kLog2E = 1.44269504088896f;
  if constexpr (Kind == kRelu) return x < 0.0f ? 0.0f : x;  // a NaN stays one
  else if constexpr (Kind == kGelu) return gelu(x);
  else if constexpr (Kind == kSilu) return dev::divide_approx(x, 1.0f + dev::exp2_approx(-x * kLog2E));
  else return x;
}

/// A row of c, d or bias: where it begins, how many elements it has, whether it may be accessed 16 bytes (f32: 8) at a time.
struct Row {
  const void* begin;
  int columns;
  bool wide;
};

/// values[2b + e] = the row's elements at this thread's columns of group b; 0 outside.
TJ_DEVICE void read_row(dev::F32, const Row& row, int column, float (&values)[2 * kPart]) {
  const float* begin = static_cast<const float*>(row.begin);
#pragma unroll
  for (int b = 0; b < kPart; ++b) {
    const int at = column + 8 * b;
    values[2 * b] = values[2 * b + 1] = 0.0f;
    if (row.wide && at + 2 <= row.columns) {
      dev::load_global(begin + at, values[2 * b], values[2 * b + 1]);
    } else {
      if (at < row.columns) values[2 * b] = dev::load_global(begin + at);
      if (at + 1 < row.columns) values[2 * b + 1] = dev::load_global(begin + at + 1);
    }
  }
}
/// Lane q of a quad reads the 8 columns of group q; a transpose brings each pair to its lane.
template <class Tag>
TJ_DEVICE void read_row(Tag tag, const Row& row, int column, float (&values)[2 * kPart]) {
  const int lane = static_cast<int>(dev::lane_index() & 3u);
  const int first = column - 2 * lane + 8 * lane;
  const unsigned short* eight = static_cast<const unsigned short*>(row.begin) + first;
  u32 words[kPart] = {};
  if (row.wide && first + 8 <= row.columns) {
    dev::load_global(eight, words);
  } else {
#pragma unroll 1  // rare, and long when written out
    for (int e = min(8, row.columns - first) - 1; e >= 0; --e) {
      words[3] = words[3] << 16 | words[2] >> 16;
      words[2] = words[2] << 16 | words[1] >> 16;
      words[1] = words[1] << 16 | words[0] >> 16;
      words[0] = words[0] << 16 | dev::load_global_u16(eight + e);
    }
  }
  dev::transpose_quad(words);
#pragma unroll
  for (int b = 0; b < kPart; ++b) dev::unpack(tag, words[b], values[2 * b], values[2 * b + 1]);
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

/// Element `at` of a strided matrix's row.
template <class Tag>
TJ_DEVICE const void* row_begin(Tag, const void* base, long long at) {
  return static_cast<const unsigned short*>(base) + at;
}
TJ_DEVICE const void* row_begin(dev::F32, const void* base, long long at) { return static_cast<const float*>(base) + at; }

/// d = activation(alpha * sums + beta * c + bias).
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  const typename C::Output tag{};
  dev::hold(consumer.sums);  // the last group's wait is behind: no read may move ahead of it
  const Params& params = consumer.params;
  const float factor = product_factor(consumer);
  const int first = tile.row + consumer.copy * kRowsPerConsumer, row = first + consumer.row0;
  const int end = min(params.m, first + (C::kBlockM < kRowsPerConsumer ? C::kBlockM : kRowsPerConsumer));
#pragma unroll
  for (int j = 0; j < C::kBlockN / 8; j += kPart) {
    const int column = tile.column + 8 * j + consumer.column0;
    float bias[2 * kPart] = {};
    if constexpr (C::kBias)
      read_row(tag, {row_begin(tag, params.bias, tile.batch * params.bias_stride_batch), params.n, params.wide_bias != 0}, column, bias);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row + 8 * half;
      const bool inside = at < end;
      float values[2 * kPart], added[2 * kPart] = {};
      if constexpr (C::kAddC) {
        const long long begin = tile.batch * params.c_stride_batch + at * params.c_stride_row;
        read_row(tag, {row_begin(tag, params.c, begin), inside ? params.n : 0, params.wide_c != 0}, column, added);
      }
#pragma unroll
      for (int i = 0; i < 2 * kPart; ++i) {
        float value = factor * consumer.sums[4 * (j + i / 2) + 2 * half + i % 2];
        if constexpr (C::kAddC) value = dev::multiply_add(params.beta, added[i], value);
        values[i] = activate<C::kActivation>(value + bias[i]);
      }
      write_d(tag, params, tile.batch * params.d_stride_batch + at * params.d_stride_row, column, inside, values);
    }
  }
}

}  // namespace tj::ops::gemm
