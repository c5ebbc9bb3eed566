// Node bodies that only rungs of attention's ladder have on AMD: what its first kernels do in the place of the bodies
// of amd.cuh.
//
// Decides what one such node computes. Order, barriers and slots come from the emitted unit, as for all others.
// Invariant: each body takes and leaves what the one in whose place it stands does, but for the copy of the keys that
// it reads.
#pragma once

#include "ops/fmha/amd.cuh"
#include "ops/fmha/rungs.cuh"

namespace tj::ops::fmha {

struct BiasedNaturalPowers : NaturalPowers {
  template <class C>
  TJ_DEVICE static float weight(const Params& params, float score, float reference, float) {
    return of(params, score - reference) * static_cast<float>(1 << C::kWeightBias);
  }
};

/// Rows of keys become columns: the second place has a row for each column of the head dim, with the block's keys in
/// it. A thread makes two words of two keys and two columns.
template <class C>
TJ_DEVICE void transpose_k(Consumer<C>&, const Tile&, int, u32 k, u32 k_columns) {
  constexpr u32 kPairs = kKeyColumns<C> / 2, kAll = C::kBlockN / 2 * kPairs;
#pragma unroll
  for (u32 first = 0; first < kAll; first += kThreads<C>) {
    const u32 at = first + dev::thread_index(), key = at / kPairs * 2, column = at % kPairs * 2;
    const u32 from = k + key * kKeyStride<C> + column * 2, to = k_columns + column * kValueStride<C> + key * 2;
    const u32 upper = dev::load_shared<u32>(from), lower = dev::load_shared<u32>(from + kKeyStride<C>);
    dev::store_shared(to, dev::low_halves(upper, lower));
    dev::store_shared(to + kValueStride<C>, dev::high_halves(upper, lower));
  }
}

/// scores = k q^T, k in columns: an operand is gathered element by element.
template <class C>
TJ_DEVICE void qk_columns(Consumer<C>& consumer, const Tile&, int, u32 k_columns) {
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
    const u32 key = k_columns + (static_cast<u32>(n) * kMatrix + dev::operand_row()) * 2u;
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) {
#pragma unroll
      for (int s = 0; s < dev::kSums; ++s) consumer.queries[r].scores[n][s] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < kDepth<C> / kMatrix; ++d) {
      u32 left[dev::kOperandWords];
#pragma unroll
      for (int w = 0; w < dev::kOperandWords; ++w) {
        const u32 column = static_cast<u32>(d) * kMatrix + dev::operand_k() + 2u * static_cast<u32>(w);
        const u32 place = key + column * kValueStride<C>;
        left[w] = dev::load_shared_u16(place) | dev::load_shared_u16(place + kValueStride<C>) << 16;
      }
#pragma unroll
      for (int r = 0; r < C::kRowBlocks; ++r)
        dev::mma_m16n16k16(typename C::Element{}, consumer.queries[r].scores[n], left, consumer.queries[r].operand[d]);
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
  pv_by<BiasedNaturalPowers>(consumer, v);
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
