// An item's q, k, states and values into shared memory by threads, where no copy engine does it. The places are those
// of bulk copies. Included by the warps' node bodies.
//
// Decides which thread brings which 16 bytes. Order, waits and slots come from the emitted unit. Invariant: no row
// without a token is read; zeros come in its place.
#pragma once

#include "ops/chunk_o/load.cuh"
#include "tiles.cuh"

namespace tj::ops::chunk_o {

/// Copies `Rows` rows of kWidth elements, zeros from row `limit` on, by the role's threads. Each copies 16 bytes, then
/// 16 bytes as many rows further on.
template <class C, int Rows>
TJ_DEVICE void copy_by_threads(const unsigned short* from, long long stride, int limit, u32 slot) {
  constexpr u32 kPieces = kWidth / 8, kAtOnce = C::kCopyingWarps * 32 / kPieces;
  static_assert(kAtOnce % 4 == 0 && Rows % kAtOnce == 0, "whole rows of all threads");
  const u32 thread = dev::warp_index() % C::kCopyingWarps * 32 + dev::lane_index(), piece = thread % kPieces,
            first = thread / kPieces;
  const u32 block = slot + piece / 8 * (Rows * kSwizzleRowBytes);
  const unsigned short* some = from + first * stride + piece * 8;
#pragma unroll 4
  for (u32 row = first; row < Rows; row += kAtOnce, some += kAtOnce * stride)
    dev::copy_async<16>(dev::piece_address(block, row, piece % 8), some, static_cast<int>(row) < limit ? 16u : 0u);
}
/// The first element of a head's rows.
TJ_DEVICE const unsigned short* rows_of(const Source& source, long long row, int head) {
  return static_cast<const unsigned short*>(source.data) + row * source.stride_row + head * source.stride_head;
}

/// q, then k.
template <class C>
TJ_DEVICE void load_qk(TokenLoader<C>& loader, const Tile&, int i, u32 slot) {
  const Params& params = loader.params;
  const Place place = loader.places.at(params, i);
  const int head = divided(item_at<C>(params, i).head, params.by_v_heads_per_head);
  copy_by_threads<C, kChunk>(rows_of(params.q_rows, place.token, head), params.q_rows.stride_row, place.rows, slot);
  copy_by_threads<C, kChunk>(rows_of(params.k_rows, place.token, head), params.k_rows.stride_row, place.rows,
                             slot + 2 * kChunkBlockBytes);
}
template <class C>
TJ_DEVICE void load_h(StateLoader<C>& loader, const Tile&, int i, u32 slot) {
  const Source& source = loader.params.h_rows;
  const Item item = item_at<C>(loader.params, i);
  copy_by_threads<C, kWidth>(rows_of(source, 0, item.head + loader.copy) + item.chunk * source.stride_chunk,
                             source.stride_row, kWidth, slot);
}
template <class C>
TJ_DEVICE void load_v(ValueLoader<C>& loader, const Tile&, int i, u32 slot) {
  const Source& source = loader.params.v_rows;
  const int rows = loader.places.at(loader.params, i).rows;
  const Item item = item_at<C>(loader.params, i);
  copy_by_threads<C, kChunk>(rows_of(source, static_cast<long long>(item.chunk) * kChunk, item.head + loader.copy),
                             source.stride_row, rows, slot);
}

}  // namespace tj::ops::chunk_o
