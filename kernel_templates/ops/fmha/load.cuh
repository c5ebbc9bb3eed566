// Queries, keys and values into shared memory by bulk copies, swizzled as matrix instructions that read shared memory
// have them. Included by the families' node bodies.
//
// Decides boxes and places. Order, waits and slots come from the emitted unit. Invariant: a slot holds blocks of
// kSwizzleColumns columns, each with all of its rows, one behind the other.
#pragma once

#include "ops/fmha/pages.cuh"

namespace tj::ops::fmha {

inline constexpr u32 kSwizzleAtomBytes = 1024;

/// Issues the copies; no state of its own.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.q);
    dev::prefetch_map(&p.k);
    dev::prefetch_map(&p.v);
  }
};

template <class C>
TJ_DEVICE void load_q(Loader<C>& loader, const Tile& tile, u32 slot, u32 full) {
  const Params& params = loader.params;
  if constexpr (Packed<C>::kOn) {
    const int query = queries_begin<C>(tile) + (tile.row >> params.group_shift),
              batch = Varlen<C>::kOn ? 0 : tile.batch;
#pragma unroll
    for (int d = 0; d < C::kHeadDim; d += kSwizzleColumns)
      copy_packed<C>(params, slot + d / kSwizzleColumns * (C::kRowsPerBlock * kSwizzleRowBytes), full, d, query,
                     tile.head, batch);
    return;
  }
  const BoxPlace box = box_place<C, C::kRowsPerBlock>(
      queries_begin<C>(tile), tile.row, mask_of<C>(params, tile).queries - tile.row, tile.head, tile.batch);
#pragma unroll
  for (int d = 0; d < C::kHeadDim; d += kSwizzleColumns) {
    copy_rows<C>(slot + d / kSwizzleColumns * C::kRowsPerBlock * kSwizzleRowBytes, &params.q, full, d, box);
  }
}
template <class C, int Columns>
TJ_DEVICE void load_keys_or_values(const TensorMap* map, const Params& params, const Tile& tile, int i, u32 slot,
                                   u32 full) {
  const int row = first_key<C>(tile, i);
  const BoxPlace box = box_place<C, C::kBlockN>(keys_begin<C>(tile), row, mask_of<C>(params, tile).keys - row,
                                                key_head(params, tile), tile.batch);
#pragma unroll
  for (int d = 0; d < Columns; d += kSwizzleColumns) {
    copy_rows<C>(slot + d / kSwizzleColumns * C::kBlockN * kSwizzleRowBytes, map, full, d, box);
  }
}
template <class C>
TJ_DEVICE void load_k(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const Params& params = loader.params;
  if constexpr (kPaged<C>)
    copy_pages<C, C::kHeadDim>(&params.k, params.k_page_rows, params, tile, i, slot, full);
  else
    load_keys_or_values<C, C::kHeadDim>(&params.k, params, tile, i, slot, full);
}
template <class C>
TJ_DEVICE void load_v(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const Params& params = loader.params;
  if constexpr (kPaged<C>)
    copy_pages<C, kValueDim<C>>(&params.v, params.v_page_rows, params, tile, i, slot, full);
  else
    load_keys_or_values<C, kValueDim<C>>(&params.v, params, tile, i, slot, full);
}

}  // namespace tj::ops::fmha
