// States of e4m3: elements times a scale for each row of V.
//
// Decides the scale of a row that is written, and how elements are rounded. Invariant: a row's scale is written by the
// unit that writes the row, and read by it before.
#pragma once

#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/state.cuh"

namespace tj::ops::gated_delta_rule {

inline constexpr float kLargestElement = 448.0f;
inline constexpr float kLeastRow = 1e-30f;  ///< rows below it are rounded as if their largest element were that

/// Four elements in f32, rounded, as they lie in memory.
TJ_DEVICE u32 packed_four(const float* values, const float* factors) {
  return dev::pack_e4m3(values[0] * factors[0], values[1] * factors[1]) |
         dev::pack_e4m3(values[2] * factors[2], values[3] * factors[3]) << 16;
}

/// The scales of a lane's rows; `scales` is the begin of a head's.
template <class C>
TJ_DEVICE void load_scales(const Place<C>& place, const float* scales, float (&rows)[Layout<C>::kRows]) {
#pragma unroll
  for (int r = 0; r < Layout<C>::kRows; r += 4) {
    float four[4];
    dev::load_global(scales + place.row + r, four);
#pragma unroll
    for (int e = 0; e < 4; ++e) rows[r + e] = four[e];
  }
}

template <class C>
TJ_DEVICE void unpack_scaled(const Stored<C>& stored, State<C>& state) {
  using L = Layout<C>;
#pragma unroll
  for (int l = 0; l < L::kLoads; ++l)
#pragma unroll
    for (int w = 0; w < 4; ++w)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = 4 * w + 2 * half;
        float low, high;
        dev::unpack_e4m3(stored.words[l][w] >> 16 * half & 0xffffu, low, high);
        state.at(l, e) = low * stored.scales[L::row_of(l, e)];
        state.at(l, e + 1) = high * stored.scales[L::row_of(l, e + 1)];
      }
}

/// The largest magnitude of each of a lane's rows, over all lanes that share them. NaN where the row has one.
template <class C>
TJ_DEVICE void largest_of_rows(const State<C>& state, float (&largest)[Layout<C>::kRows]) {
  using L = Layout<C>;
#pragma unroll
  for (int r = 0; r < L::kRows; ++r) {
    float most = kLeastRow;
#pragma unroll
    for (int j = 0; j < L::kDepth; ++j) most = dev::maximum_or_nan(most, dev::magnitude(state.s[r][j]));
#pragma unroll
    for (int lanes = 1; lanes < L::kLanes; lanes *= 2)
      most = dev::maximum_or_nan(most, dev::shuffle_xor(most, lanes * L::kMask));
    largest[r] = most;
  }
}

/// Memory is a head's, with its stored rows so many bytes apart, and its scales.
template <class C>
TJ_DEVICE void store_scaled(const Place<C>& place, unsigned char* head, long long row_bytes, float* scales,
                            State<C>& state) {
  using L = Layout<C>;
  float factors[L::kRows];
  largest_of_rows<C>(state, factors);
  dev::warp_sync();  // other lanes have read the scales of these rows, which may lie in the same place
#pragma unroll
  for (int r = 0; r < L::kRows; r += 4) {
    float four[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      four[e] = factors[r + e] * (1.0f / kLargestElement);
      factors[r + e] = dev::divide_approx(kLargestElement, factors[r + e]);
    }
    if (place.share == 0) dev::store_global(scales + place.row + r, four);
  }
  head += place.first(row_bytes);
#pragma unroll
  for (int l = 0; l < L::kLoads; head += place.step(l, row_bytes), ++l) {
    u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      float values[4], of_rows[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        values[e] = state.at(l, 4 * w + e);
        of_rows[e] = factors[L::row_of(l, 4 * w + e)];
      }
      words[w] = packed_four(values, of_rows);
    }
    dev::store_global(head, words[0], words[1], words[2], words[3]);
  }
}

}  // namespace tj::ops::gated_delta_rule
