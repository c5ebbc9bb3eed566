// Keys and values in pages into shared memory, by bulk copies. Included by the families' loads.
//
// Decides the boxes of a block of keys. Invariant: a box lies in one page, and ends with the sequence.
#pragma once

#include "ops/fmha/tile.cuh"

namespace tj::ops::fmha {

inline constexpr u32 kSwizzleRowBytes = 128;

/// Keys in pages: a box for each kPageRows of them, which never reach beyond a page. page_rows: of the map.
template <class C, int Columns>
TJ_DEVICE void copy_pages(const TensorMap* map, int page_rows, const Params& params, const Tile& tile, int i, u32 slot,
                          u32 full) {
  constexpr int kRows = PageRows<C>::kRows;
  const int first = first_key<C>(tile, i), head = key_head(params, tile);
#pragma unroll 1  // one thread with few registers
  for (int row = 0; row < C::kBlockN; row += kRows) {
    const int left = tile.sequence.keys - first - row;
    const PagePlace place = page_place(params, tile.sequence.number, left > 0 ? first + row : 0);
    const BoxPlace box = box_place<C, kRows>(place.page * page_rows, place.row, left, head, 0);
#pragma unroll
    for (int d = 0; d < Columns; d += kSwizzleColumns)
      copy_rows<C>(slot + (d / kSwizzleColumns * C::kBlockN + row) * kSwizzleRowBytes, map, full, d, box);
  }
}
}  // namespace tj::ops::fmha
