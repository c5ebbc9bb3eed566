// Places of a tile's elements in shared memory, and the rows that each lane names to load_matrices. Included by node
// bodies.
//
// Decides addresses only, the same for every arch. Invariant: the places are those of bulk copies with the same
// swizzle, so a body reads a tile alike whoever has brought it.
#pragma once

namespace tj::dev {

/// Swizzles of rows of 128, 64 and 32 bytes. The 16-byte pieces of a row change places by the number of their row, so
/// that the same piece of eight rows lies in different banks. An address counts from a multiple of 1024, 512 or 256
/// bytes. Source: CUDA driver API manual, CUtensorMapSwizzle; PTX ISA 8.7, swizzling modes.
TJ_DEVICE u32 swizzle_128(u32 address) { return address ^ ((address >> 3) & 0x70u); }
TJ_DEVICE u32 swizzle_64(u32 address) { return address ^ ((address >> 3) & 0x30u); }
TJ_DEVICE u32 swizzle_32(u32 address) { return address ^ ((address >> 3) & 0x10u); }

/// Piece `piece` (16 bytes) of row `row` of a tile with rows of 128 bytes, swizzled; the tile begins at a multiple of
/// 1024.
TJ_DEVICE u32 piece_address(u32 tile, u32 row, u32 piece) { return tile + row * 128u + ((piece ^ (row & 7u)) << 4); }

/// The piece of a tile whose rows have RowBytes, 64 or 128; the tile begins at a multiple of eight rows.
template <u32 RowBytes>
TJ_DEVICE u32 piece_address(u32 tile, u32 row, u32 piece) {
  static_assert(RowBytes == 64 || RowBytes == 128, "rows of half a line or a whole one");
  if constexpr (RowBytes == 128)
    return piece_address(tile, row, piece);
  else
    return tile + row * 64u + ((piece ^ (row >> 1 & 3u)) << 4);
}

/// The address of a piece of a row, from the address of piece 0 or 1: `pieces`, an even number, further on in the same
/// 128 bytes. It takes one operation, and the lane's row need not be known any more.
TJ_DEVICE u32 pieces_on(u32 address, u32 pieces) { return address ^ (pieces << 4); }

// Four matrices make the operands of an mma_m16n8k16: rows and pieces are counted from the corner of a block of 16 rows
// of 16 elements. Down: matrices 0 and 1 lie below each other, 2 and 3 beside them. load_matrices gives the left
// operand of rows of k. load_matrices_transposed, from rows of n, gives two right operands: words 0 and 1 of columns 0
// to 7, words 2 and 3 of columns 8 to 15.
TJ_DEVICE u32 down_row() { return lane_index() % 16u; }
TJ_DEVICE u32 down_piece() { return lane_index() / 16u; }
// Across: matrices 0 and 1 lie side by side, 2 and 3 below them. load_matrices gives two right operands of rows of k,
// in the same words. load_matrices_transposed, from rows of m, gives the left operand.
TJ_DEVICE u32 across_row() { return lane_index() % 8u + lane_index() / 16u * 8u; }
TJ_DEVICE u32 across_piece() { return lane_index() / 8u % 2u; }

/// The address that a lane names of the block at the corner of a swizzled tile of 128-byte rows, from the tile's begin.
/// A block whose first row is a multiple of 16 lies so many rows further on.
TJ_DEVICE u32 down_place() { return piece_address(0, down_row(), down_piece()); }
TJ_DEVICE u32 across_place() { return piece_address(0, across_row(), across_piece()); }

/// sums += a b for 16 rows and 16 columns, b as load_matrices has brought it. sums[4h + 2i + e] is row lane / 4 + 8i,
/// column 8h + 2(lane % 4) + e.
template <class Tag>
TJ_DEVICE void multiply_16(Tag tag, float* sums, const u32 (&a)[4], const u32 (&b)[4]) {
  mma_m16n8k16(tag, *reinterpret_cast<float(*)[4]>(sums), a, b[0], b[1]);
  mma_m16n8k16(tag, *reinterpret_cast<float(*)[4]>(sums + 4), a, b[2], b[3]);
}

}  // namespace tj::dev
