// Keys and values in pages into shared memory, by bulk copies. Included by the families' loads.
//
// Decides the boxes of a block of keys. Invariant: a box lies in one page, and ends with the sequence.
#pragma once

#include "ops/fmha/tile.cuh"

namespace tj::ops::fmha {

inline constexpr u32 kSwizzleRowBytes = 128;

/// Pages that are looked up together: one look takes as long as two. Few boxes are not worth the registers.
template <class C>
inline constexpr int kPagesTogether = C::kBlockN > 4 * PageRows<C>::kRows ? 2 : 1;

/// Keys in pages: a box for each kPageRows of them, which never reach beyond a page. page_rows: of the map.
template <class C, int Columns>
TJ_DEVICE void copy_pages(const TensorMap* map, int page_rows, const Params& params, const Tile& tile, int i, u32 slot,
                          u32 full) {
  constexpr int kRows = PageRows<C>::kRows, kTogether = kPagesTogether<C>, kBoxes = C::kBlockN / kRows;
  const int first = first_key<C>(tile, i), head = key_head(params, tile);
#pragma unroll 1  // one thread with few registers
  for (int box = 0; box < kBoxes; box += kTogether) {
    int rows[kTogether];  // of the map, where each box begins
#pragma unroll
    for (int at = 0; at < kTogether; ++at) {
      const int key = first + (box + at) * kRows;
      const PagePlace place = page_place(params, tile.sequence.number, key < tile.sequence.keys ? key : 0);
      rows[at] = place.page * page_rows + place.row;
    }
#pragma unroll
    for (int at = 0; at < kTogether; ++at) {
      if (kBoxes % kTogether != 0 && box + at >= kBoxes) break;
      const int row = (box + at) * kRows;
      const BoxPlace to = box_place<C, kRows>(rows[at], 0, tile.sequence.keys - first - row, head, 0);
#pragma unroll
      for (int d = 0; d < Columns; d += kSwizzleColumns)
        copy_rows<C>(slot + (d / kSwizzleColumns * C::kBlockN + row) * kSwizzleRowBytes, map, full, d, to);
    }
  }
}
}  // namespace tj::ops::fmha
