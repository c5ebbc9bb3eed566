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
  for (int j = 0; j < kOutputs<C> / 8; j += 4) {
    u32 words[4];
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const float* pair = &rows.output[4 * (j + b) + 2 * static_cast<int>(row_half)];
      words[b] = dev::pack(typename C::Element{}, pair[0], pair[1]);
    }
    dev::transpose_quad(words);
    unsigned short* eight = destination + 8 * j + 8 * static_cast<int>(dev::lane_index() & 3u);
    if (!inside) continue;
    if (kValueDim<C> % 32 != 0 && j + static_cast<int>(dev::lane_index() & 3u) >= kValueDim<C> / 8) continue;
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

/// The same in f32.
template <class C>
TJ_DEVICE void store_row(const Rows<C>& rows, const Params&, u32 row_half, float* destination, bool inside) {
#pragma unroll
  for (int j = 0; j < kOutputs<C> / 8; ++j) {
    if (!inside || 8 * j >= kValueDim<C>) continue;
    const float* pair = &rows.output[4 * j + 2 * static_cast<int>(row_half)];
    float* const two = destination + 8 * j + 2 * static_cast<int>(dev::lane_index() & 3u);
    dev::store_global(two, pair[0]);
    dev::store_global(two + 1, pair[1]);
  }
}

/// Normalises one of the thread's two rows.
template <class Division, class C>
TJ_DEVICE void normalise(Rows<C>& rows, int half, const RowEnd<Division>& end) {
#pragma unroll
  for (int j = 0; j < kOutputs<C> / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& out = rows.output[4 * j + 2 * half + e];
      out = end.output(out);
    }
  }
}
/// The sum of one of the thread's two rows: four threads share it.
template <class C>
TJ_DEVICE float whole_sum(const Rows<C>& rows, int half) {
  float sum = rows.row_sum[half];
  sum += dev::shuffle_xor(sum, 1);
  return sum + dev::shuffle_xor(sum, 2);
}
template <class Division, class C>
TJ_DEVICE float lse_of(const Rows<C>& rows, int half, const RowEnd<Division>& end, const Sink<C>& sink, float sum,
                       const Params& params) {
  return sink.lse(end.lse(params, rows.row_max[half], sum), sum);
}
template <class Division, class C>
TJ_DEVICE void store_lse_of(const Rows<C>& rows, int half, const RowEnd<Division>& end, const Sink<C>& sink, float sum,
                            const Params& params, const Tile& tile, int row) {
  if (params.lse != nullptr && row_place<C>(params, tile, row).inside && (dev::lane_index() & 3u) == 0)
    store_lse<C>(params, tile, row, lse_of(rows, half, end, sink, sum, params));
}

/// `first_row` is the thread's first.
template <class Division = ByReciprocal, class C>
TJ_DEVICE void store(Rows<C>& rows, const Params& params, const Tile& tile, int first_row) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + half * 8;
    const Sink<C> sink(params, tile, row);
    const float sum = sink.added(params, rows.row_max[half], whole_sum(rows, half));
    const RowEnd<Division> end(sum);
    normalise(rows, half, end);
    bool stored = row_place<C>(params, tile, row).inside;
    // A part that weighs nothing leaves its log-sum-exp alone. One with a sink and no key weighs, and is 0.
    if constexpr (Packed<C>::kOn)
      stored = stored && (params.parts == 1 || lse_of(rows, half, end, sink, sum, params) != dev::minus_infinity());
    store_row(rows, params, static_cast<u32>(half), output_row<C>(params, tile, row), stored);
    store_lse_of(rows, half, end, sink, sum, params, tile, row);
  }
}

}  // namespace tj::ops::fmha
