// Pieces of 16 bytes, eight 16-bit elements, on their way from registers to rows in shared memory. Included by node
// bodies of archs whose copies pass through registers.
//
// Decides how a piece is stored where rows begin at multiples of 8 bytes alone, and how pieces of rows become words of
// columns.
#pragma once

namespace tj::dev {

/// Stores 16 bytes of a row. Rows that lie RowPadding bytes more than a multiple of 16 apart take two stores.
template <int RowPadding>
TJ_DEVICE void put_piece(u32 place, const u32 (&words)[4]) {
  if constexpr (RowPadding % 16 == 0) {
    store_shared(place, words);
  } else {
    const u32 first[2] = {words[0], words[1]}, second[2] = {words[2], words[3]};
    store_shared(place, first);
    store_shared(place + 8, second);
  }
}

/// Element `e` of two rows side by side: a word of a column.
TJ_DEVICE u32 column_of(const u32 (&above)[4], const u32 (&below)[4], int e) {
  return e % 2 == 0 ? low_halves(above[e / 2], below[e / 2]) : high_halves(above[e / 2], below[e / 2]);
}

}  // namespace tj::dev
