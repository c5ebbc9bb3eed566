// The end of a matrix product's tile through shared memory: the bodies stage_rows, put_box and put_rows.
//
// Decides where rows of d lie in a slot. For consumers of kConsumerRows rows, of which their warps have sixteens, in
// order; in swapped tiles a consumer has all rows of kSwizzleColumns columns. Invariant: nothing outside d is written.
#pragma once

#include "ops/gemm/swapped.cuh"

namespace tj::ops::gemm {

/// Brings to d what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  const int copy;  ///< the consumer's
  TJ_DEVICE Writer(const Params& p, int which) : params(p), copy(which) {
    if constexpr (C::kStore == kCopied) dev::prefetch_map(&p.d);
  }
};

/// Rows and columns of d that one consumer hands over, in blocks of kSwizzleColumns columns.
template <class C>
inline constexpr int kStagedRows = kSwapped<C> || C::kBlockM < kConsumerRows<C> ? C::kBlockM : kConsumerRows<C>;
template <class C>
inline constexpr int kStagedColumns = kSwapped<C> ? kSwizzleColumns : kTileColumns<C>;
/// Rows of a box in the map of d.
template <class C>
inline constexpr int kBoxRows = kSwapped<C> || C::kBlockM < kRowsPerConsumer ? C::kBlockM : kRowsPerConsumer;

/// Where the consumer's rows and columns begin.
template <class C>
TJ_DEVICE int staged_row(const Writer<C>& writer, const Tile& tile) {
  return tile.row + (kSwapped<C> ? 0 : writer.copy * kConsumerRows<C>);
}
template <class C>
TJ_DEVICE int staged_column(const Writer<C>& writer, const Tile& tile) {
  return tile.column + (kSwapped<C> ? writer.copy * kSwizzleColumns : 0);
}

/// The address of 8 columns of a row in a slot; `chunk` counts them from the left of the tile.
template <class C>
TJ_DEVICE u32 staged_address(u32 slot, int row, int chunk) {
  return slot + (chunk / 8 * kStagedRows<C> + row) * kSwizzleRowBytes + ((chunk % 8) ^ (row % 8)) * 16;
}

/// The consumer's columns of d, rounded, into shared memory: rows of 128 bytes, as the copy engine wants them.
template <class C>
TJ_DEVICE void stage_swapped(Consumer<C>& consumer, const Tile& tile, u32 slot) {
  const typename C::Output tag{};
  const int lane = consumer.lane, warp = static_cast<int>(dev::warp_index() & 3u);
  const Column<C> columns[2] = {{consumer, tile, 0, 0}, {consumer, tile, 0, 1}};
  SwappedAddends<C> addends;
#pragma unroll
  for (int part = 0; part < Parts<C>::kCount; ++part) {
    addends.load(consumer, tile, 0, part);
    u32 words[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[8];
      finish_swapped(consumer, tile, columns[half], 0, part, half, addends, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[half][i] = dev::pack(tag, values[2 * i], values[2 * i + 1]);
    }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {  // two groups of 8 rows, both halves of the columns
      if (!Parts<C>::has(part, 4 * pair)) break;
      const int row = 32 * part + 16 * pair + lane / 16 * 8 + lane % 8;
      dev::store_matrices_transposed(
          staged_address<C>(slot, row, 2 * warp + lane / 8 % 2),
          {words[0][2 * pair], words[1][2 * pair], words[0][2 * pair + 1], words[1][2 * pair + 1]});
    }
  }
}

/// The consumer's rows of d, rounded, into shared memory as the copy engine wants them.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile& tile, u32 slot) {
  const typename C::Output tag{};
  consumer.finished();
  const int lane = static_cast<int>(dev::lane_index());
  static_assert(!kSwapped<C> || Consumer<C>::kRowBlocks == 1, "a consumer hands over the columns of one product");
  static_assert(!kSliced<C> || kSwapped<C> || kStagedRows<C> == kConsumerRows<C>, "all warps send their sums");
  if (!kSwapped<C> && kStagedRows<C> < kConsumerRows<C> &&
      consumer.row(0) - consumer.copy * kConsumerRows<C> >= kStagedRows<C>)
    return;
  if (!finishes<C>(tile)) return leave_piece(consumer, tile);
  merge_pieces(consumer, tile);
  if constexpr (kSwapped<C>) return stage_swapped(consumer, tile, slot);
  Addends<C> addends(consumer, tile);
#pragma unroll
  for (int part = 0; part < Parts<C>::kCount; ++part) {
    addends.load(consumer, tile, part);
    consumer.bring(part);
    Biases<C> bias;
    read_bias(consumer, tile, part, bias);
#pragma unroll
    for (int block = 0; block < Consumer<C>::kRowBlocks; ++block) {
      u32 words[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float values[8];
        finish_part(consumer, tile, place_of(consumer, tile, block, half), block, part, half, bias, addends, values);
#pragma unroll
        for (int i = 0; i < 4; ++i) words[half][i] = dev::pack(tag, values[2 * i], values[2 * i + 1]);
      }
      const int row = consumer.row(block) - consumer.copy * kConsumerRows<C> + lane % 16;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {  // two groups of 8 columns, both halves of the rows
        const u32 address = staged_address<C>(slot, row, 4 * part + 2 * pair + lane / 16);
        dev::store_matrices(address,
                            {words[0][2 * pair], words[1][2 * pair], words[0][2 * pair + 1], words[1][2 * pair + 1]});
      }
    }
  }
}

/// A box of a kernel with groups, which ends with the group (types.cuh).
template <class C>
TJ_DEVICE void put_rows_before(const Params& params, const Tile& tile, u32 slot, int column, int row) {
  const int rows = min(tile.row_end - row, kBoxRows<C>);
  if (rows > 0) dev::store_box_5d(&params.d, slot, column, kEndRows - rows, row + rows, kEndRows, tile.matrix);
}

/// A consumer's slot to d, by the copy engine: one box for each block of columns.
template <class C>
TJ_DEVICE void put_box(Writer<C>& writer, const Tile& tile, u32 slot) {
  if (!finishes<C>(tile)) return;
  const int first = staged_row(writer, tile), first_column = staged_column(writer, tile);
#pragma unroll 1
  for (int column = first_column; column < first_column + kStagedColumns<C>; column += kSwizzleColumns) {
#pragma unroll
    for (int row = 0; row < kStagedRows<C>; row += kBoxRows<C>, slot += kBoxRows<C> * kSwizzleRowBytes) {
      if constexpr (kGroups<C> != kNoGroups && kGroups<C> != kGroupDepths)
        put_rows_before<C>(writer.params, tile, slot, column, first + row);
      else
        dev::store_box_4d(&writer.params.d, slot, column, first + row, tile.batch, 0);
    }
  }
}

/// A consumer's slot to d by one warp, wherever rows begin: 32 neighbouring columns at a time. All loads of a row come
/// before its first store: a single warp would wait for each otherwise.
template <class C>
TJ_DEVICE void put_rows(Writer<C>& writer, const Tile& tile, u32 slot) {
  if (!finishes<C>(tile)) return;
  constexpr int kSteps = kStagedColumns<C> / 32;
  const Params& params = writer.params;
  const int first = staged_row(writer, tile), first_column = staged_column(writer, tile),
            lane = static_cast<int>(dev::lane_index());
  const int rows = min(rows_end<C>(params, tile) - first, kStagedRows<C>),
            columns = min(params.n - first_column, kStagedColumns<C>) - lane;
  unsigned short* to = static_cast<unsigned short*>(params.d_data) + tile.batch * params.d_stride_batch +
                       first * params.d_stride_row + first_column + lane;
#pragma unroll 1
  for (int row = 0; row < rows; ++row, to += params.d_stride_row) {
    u32 values[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int column = lane + step * 32;
      values[step] = dev::load_shared_u16(staged_address<C>(slot, row, column / 8) + column % 8 * 2);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      if (step * 32 < columns) dev::store_global_u16(to + step * 32, values[step]);
  }
}

}  // namespace tj::ops::gemm
