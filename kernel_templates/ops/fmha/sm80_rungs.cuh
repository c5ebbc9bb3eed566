// Node bodies that only rungs of attention's ladder have: what its first kernels do in the place of the bodies of
// sm80.cuh.
//
// Decides what one such node computes. Order, waits, slots and roles come from the emitted unit, as for all others.
// Invariant: each body takes and leaves what the one in whose place it stands does, but for the copy of the keys that
// it reads.
#pragma once

#include "ops/fmha/rungs.cuh"
#include "ops/fmha/sm80.cuh"

namespace tj::ops::fmha {

/// Rows of keys become columns: the second place has kHeadDim rows of kBlockN keys, in blocks of 64 keys, swizzled as
/// the first.
template <class C>
TJ_DEVICE void transpose_k(Consumer<C>&, const Tile&, int, u32 k, u32 k_columns) {
  static_assert(C::kBlockN % kSwizzleColumns == 0, "whole rows of 128 bytes");
  constexpr u32 kWide = C::kHeadDim / kMatrix, kSquares = C::kBlockN / kMatrix * kWide;
  static_assert(kSquares % C::kWarps == 0, "as many squares a warp");
#pragma unroll
  for (u32 done = 0; done < kSquares; done += C::kWarps) {
    const u32 square = done + dev::warp_index() % C::kWarps, n = square / kWide,
              d = square % kWide;  // sixteen keys, sixteen columns
    u32 words[4];
    dev::load_matrices_transposed(dev::piece_address(k + d / 4 * (C::kBlockN * kRowBytes),
                                                     n * kMatrix + dev::down_row(), d % 4 * 2 + dev::down_piece()),
                                  words);
    dev::store_matrices(dev::piece_address(k_columns + n / 4 * (C::kHeadDim * kRowBytes),
                                           d * kMatrix + dev::across_row(), n % 4 * 2 + dev::across_piece()),
                        words);
  }
}

/// scores = q k^T, k in columns.
template <class C>
TJ_DEVICE void qk_columns(Consumer<C>& consumer, const Tile&, int, u32 k_columns) {
  clear_scores(consumer);
#pragma unroll
  for (int step = 0; step < C::kHeadDim / kMatrix; ++step) {
#pragma unroll
    for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
      u32 right[4];
      dev::load_matrices_transposed(dev::piece_address(k_columns + n / 4 * (C::kHeadDim * kRowBytes),
                                                       step * kMatrix + dev::down_row(), n % 4 * 2 + dev::down_piece()),
                                    right);
#pragma unroll
      for (int r = 0; r < C::kRowBlocks; ++r)
        dev::multiply_16(typename C::Element{}, &consumer.rows[r].scores[8 * n], consumer.queries[step][r], right);
    }
  }
}

template <class C, class Variant>
TJ_DEVICE void row_max_natural(Consumer<C>& consumer, const Tile& tile, int i, Variant variant) {
  row_max_by<NaturalPowers>(consumer, tile, i, variant);
}
template <class C>
TJ_DEVICE void row_max_natural(Consumer<C>& consumer, const Tile& tile, int i) {
  row_max_natural(consumer, tile, i, dev::General{});
}
template <class C>
TJ_DEVICE void pv_natural(Consumer<C>& consumer, const Tile&, int, u32 v) {
  pv_by<NaturalPowers>(consumer, v);
}

template <class C>
TJ_DEVICE void store_divided(Consumer<C>& consumer, const Tile& tile) {
  store_by<OneByOne>(consumer, tile);
}
template <class C>
TJ_DEVICE void store_approximated(Consumer<C>& consumer, const Tile& tile) {
  store_by<ByApproximation>(consumer, tile);
}

}  // namespace tj::ops::fmha
