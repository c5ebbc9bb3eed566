// The end of an attention tile: normalise, store the output, store the log-sum-exp. Included by the family's node
// bodies.
//
// Decides how sixteen rows' accumulator fragments become rows in memory. Invariant: rows past the last query are not
// written.
#pragma once

#include "fragments.cuh"
#include "ops/fmha/rows.cuh"

namespace tj::ops::fmha {

template <class C>
TJ_DEVICE void store_row(const Rows<C>& rows, const Params& params, u32 row_half, unsigned short* destination,
                         bool inside) {
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 8; j += 4) {
    u32 words[4];
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const float* pair = &rows.output[4 * (j + b) + 2 * static_cast<int>(row_half)];
      words[b] = dev::pack(typename C::Element{}, pair[0], pair[1]);
    }
    dev::transpose_quad(words);
    unsigned short* eight = destination + 8 * j + 8 * static_cast<int>(dev::lane_index() & 3u);
    if (!inside) continue;
    if (params.wide_stores) {
      dev::store_global(eight, words[0], words[1], words[2], words[3]);
    } else {
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        dev::store_global_u16(eight + 2 * b, words[b] & 0xffffu);
        dev::store_global_u16(eight + 2 * b + 1, words[b] >> 16);
      }
    }
  }
}

/// Outputs divided by their row's sum: multiplied by its reciprocal.
struct ByReciprocal {
  float factor;
  TJ_DEVICE explicit ByReciprocal(float sum) : factor(1.0f / sum) {}
  TJ_DEVICE float operator()(float output) const { return output * factor; }
};

/// `first_row` is the thread's first. o = output / sum, lse = reference * scale + ln(sum); a row without keys gives 0
/// and -inf, one with a NaN gives NaN.
template <class Division = ByReciprocal, class C>
TJ_DEVICE void store(Rows<C>& rows, const Params& params, const Tile& tile, int first_row) {
  constexpr float kLn2 = 0.693147180559945f;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = rows.row_sum[half];
    sum += dev::shuffle_xor(sum, 1);
    sum += dev::shuffle_xor(sum, 2);
    const bool any_key = sum != 0.0f;
    const Division divided(any_key ? sum : 1.0f);
#pragma unroll
    for (int j = 0; j < C::kHeadDim / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        // Selected, not multiplied: 0 times what an infinite value left behind would be NaN.
        float& out = rows.output[4 * j + 2 * half + e];
        out = any_key ? divided(out) : 0.0f;
      }
    }
    const int row = first_row + half * 8;
    const bool inside = row < params.queries;
    unsigned short* base = static_cast<unsigned short*>(params.o) + tile.batch * params.o_stride_batch +
                           tile.head * params.o_stride_head + row * params.o_stride_row;
    store_row(rows, params, static_cast<u32>(half), base, inside);
    if (params.lse != nullptr && inside && (dev::lane_index() & 3u) == 0) {
      const float reference = rows.row_max[half] * params.scale;
      dev::store_global(params.lse + tile.batch * params.lse_stride_batch + tile.head * params.lse_stride_head +
                            row * params.lse_stride_row,
                        any_key ? reference + kLn2 * dev::log2_approx(sum) : dev::minus_infinity());
    }
  }
}

}  // namespace tj::ops::fmha
