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

/// `Count` rows of a thread, which lie below each other, as eight rows of so many elements: the thread's part of eight
/// columns. column: the place of the first; the next ones lie `stride` bytes further on.
template <int RowPadding, int Count>
TJ_DEVICE void put_columns(u32 column, u32 stride, const u32 (&rows)[Count][4]) {
  constexpr int kWords = Count / 2, kAtOnce = kWords % 4 == 0 && RowPadding % 16 == 0 ? 4 : kWords % 2 == 0 ? 2 : 1;
  static_assert(Count % 2 == 0, "columns of whole words");
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const u32 place = column + static_cast<u32>(e) * stride;
#pragma unroll
    for (int first = 0; first < kWords; first += kAtOnce) {
      u32 words[kAtOnce];
#pragma unroll
      for (int w = 0; w < kAtOnce; ++w) words[w] = column_of(rows[2 * (first + w)], rows[2 * (first + w) + 1], e);
      store_shared(place + static_cast<u32>(first) * 4, words);
    }
  }
}

/// The address at which block `block` of sixteen elements begins in rows 16 * sixteen and on. Each Blocks of them, a
/// power of two, change places, so that threads which put columns of neighbouring rows meet in fewer banks.
template <u32 Blocks>
TJ_DEVICE u32 column_place(u32 slot, u32 stride, u32 sixteen, u32 block) {
  return slot + sixteen * 16u * stride + (block ^ sixteen % Blocks) * 32u;
}

/// An address that others differ from by numbers: so that they do in the instructions, and need no registers.
TJ_DEVICE u32 one_address(u32 address) {
  hold(address);
  return address;
}

}  // namespace tj::dev
