// Queries, keys and values into shared memory, for products of warps: by the copy engine where there is one, else by
// threads. Included by the warps' node bodies.
//
// Decides who brings what, and where it goes. Order, waits and slots come from the emitted unit. Invariant: a tile in
// shared memory is blocks of 64 columns, 128 bytes, swizzled, whoever brings it.
#pragma once

#include "ops/fmha/pages.cuh"
#include "ops/fmha/rows.cuh"
#include "tiles.cuh"

namespace tj::ops::fmha {

inline constexpr u32 kRowBytes = 128;

/// Issues the copies; no state of its own.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    if constexpr (C::kBulkCopies) {
      dev::prefetch_map(&p.q);
      dev::prefetch_map(&p.k);
      dev::prefetch_map(&p.v);
    }
  }
};

/// Copies `Count` rows of one head from `first` on, zeros after row `limit`, by the role's threads. Each copies 16
/// bytes, then 16 bytes as many rows further on.
template <class C, int Columns, int Count>
TJ_DEVICE void copy_by_threads(const Source& source, int batch, int head, int first, int limit, u32 slot) {
  constexpr bool kWholeRows = Columns == 64 || Columns == 128;
  constexpr u32 kThreads = C::kWarps * 32, kPieces = kWholeRows ? Columns / 8 : kThreads / 16,
                kAtOnce = kThreads / kPieces;
  static_assert(kAtOnce % 8 == 0 && Count % kAtOnce == 0, "whole swizzle patterns at once");
  const u32 thread = dev::warp_index() % C::kWarps * 32 + dev::lane_index(), piece = thread % kPieces;
  const int row = static_cast<int>(thread / kPieces);
  const auto* from = static_cast<const unsigned short*>(source.data) + batch * source.stride_batch +
                     head * source.stride_head + (first + row) * source.stride_row + piece * 8;
  const u32 place = dev::piece_address(slot + piece / 8 * (Count * kRowBytes), static_cast<u32>(row), piece % 8);
  // Threads copy sixteen rows of one or two blocks of columns at a time where head dims are others than 64 and 128,
  // with zeros beyond the last column.
#pragma unroll
  for (u32 d = 0; d < Columns; d += kPieces * 8) {
    if (!kWholeRows && d + piece * 8 >= stored_columns(Columns)) continue;
    const bool there = kWholeRows || d + piece * 8 < Columns;
    const auto* some = from + (there ? d : 0);
#pragma unroll
    for (int done = 0; done < Count; done += kAtOnce) {
      dev::copy_async<16>(place + d / kSwizzleColumns * (Count * kRowBytes) + done * kRowBytes, some,
                          there && first + row + done < limit ? 16u : 0u);
      some += kAtOnce * source.stride_row;
    }
  }
}
/// Copies `Count` rows of one head by the copy engine; their rows lie one behind the other.
template <class C, int Columns, int Count>
TJ_DEVICE void copy_boxes(const TensorMap* map, const BoxPlace& box, u32 slot, u32 full) {
#pragma unroll
  for (int d = 0; d < Columns; d += kSwizzleColumns)
    copy_rows<C>(slot + d / kSwizzleColumns * (Count * kRowBytes), map, full, d, box);
}
/// The box of an iteration's keys, or of their values.
template <class C>
TJ_DEVICE BoxPlace key_box(const Params& params, const Tile& tile, int i) {
  const int row = first_key<C>(tile, i);
  return box_place<C, C::kBlockN>(keys_begin<C>(tile), row, mask_of<C>(params, tile).keys - row, key_head(params, tile),
                                  tile.batch);
}
/// Keys in pages by threads, as copy_by_threads().
template <class C, int Columns>
TJ_DEVICE void copy_pages_by_threads(const Source& source, const Params& params, const Tile& tile, int i, u32 slot) {
  constexpr bool kWholeRows = Columns == 64 || Columns == 128;
  constexpr u32 kThreads = C::kWarps * 32, kPieces = kWholeRows ? Columns / 8 : kThreads / 16,
                kAtOnce = kThreads / kPieces;
  constexpr int kCount = C::kBlockN;
  static_assert(kAtOnce % 8 == 0 && kCount % kAtOnce == 0, "whole swizzle patterns at once");
  const u32 thread = dev::warp_index() % C::kWarps * 32 + dev::lane_index(), piece = thread % kPieces;
  const int row = static_cast<int>(thread / kPieces), first = first_key<C>(tile, i) + row;
  const auto* head = static_cast<const unsigned short*>(source.data) + key_head(params, tile) * source.stride_head;
  const u32 place = dev::piece_address(slot + piece / 8 * (kCount * kRowBytes), static_cast<u32>(row), piece % 8);
#pragma unroll
  for (int done = 0; done < kCount; done += kAtOnce) {
    const bool inside = first + done < tile.sequence.keys;
    const PagePlace at = page_place(params, tile.sequence.number, inside ? first + done : 0);
    const auto* from = head + at.page * source.stride_batch + at.row * source.stride_row + piece * 8;
#pragma unroll
    for (u32 d = 0; d < Columns; d += kPieces * 8) {
      if (!kWholeRows && d + piece * 8 >= stored_columns(Columns)) continue;
      const bool there = inside && (kWholeRows || d + piece * 8 < Columns);
      dev::copy_async<16>(place + d / kSwizzleColumns * (kCount * kRowBytes) + done * kRowBytes, from + (there ? d : 0),
                          there ? 16u : 0u);
    }
  }
}
/// Packed queries by threads, as copy_by_threads().
template <class C>
TJ_DEVICE void copy_packed_by_threads(const Params& params, const Tile& tile, u32 slot) {
  constexpr int kColumns = C::kHeadDim, kCount = C::kRowsPerBlock;
  constexpr bool kWholeRows = kColumns == 64 || kColumns == 128;
  constexpr u32 kThreads = C::kWarps * 32, kPieces = kWholeRows ? kColumns / 8 : kThreads / 16,
                kAtOnce = kThreads / kPieces;
  const Source& source = params.q_rows;
  const u32 thread = dev::warp_index() % C::kWarps * 32 + dev::lane_index(), piece = thread % kPieces;
  const int row = static_cast<int>(thread / kPieces), batch = Varlen<C>::kOn ? 0 : tile.batch;
  const u32 place = dev::piece_address(slot + piece / 8 * (kCount * kRowBytes), static_cast<u32>(row), piece % 8);
#pragma unroll
  for (int done = 0; done < kCount; done += kAtOnce) {
    const RowPlace at = row_place<C>(params, tile, tile.row + row + done);
    const auto* from = static_cast<const unsigned short*>(source.data) + batch * source.stride_batch +
                       at.head * source.stride_head +
                       (queries_begin<C>(tile) + (at.inside ? at.query : 0)) * source.stride_row + piece * 8;
#pragma unroll
    for (u32 d = 0; d < kColumns; d += kPieces * 8) {
      if (!kWholeRows && d + piece * 8 >= stored_columns(kColumns)) continue;
      const bool there = at.inside && (kWholeRows || d + piece * 8 < kColumns);
      dev::copy_async<16>(place + d / kSwizzleColumns * (kCount * kRowBytes) + done * kRowBytes, from + (there ? d : 0),
                          there ? 16u : 0u);
    }
  }
}
/// Copies an iteration's keys, or their values, by threads.
template <class C, int Columns>
TJ_DEVICE void copy_keys_by_threads(const Source& source, const Params& params, const Tile& tile, int i, u32 slot) {
  if constexpr (kPaged<C>) return copy_pages_by_threads<C, Columns>(source, params, tile, i, slot);
  const int begin = keys_begin<C>(tile);
  copy_by_threads<C, Columns, C::kBlockN>(source, tile.batch, key_head(params, tile), begin + first_key<C>(tile, i),
                                          begin + mask_of<C>(params, tile).keys, slot);
}

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
  copy_boxes<C, C::kHeadDim, C::kRowsPerBlock>(&params.q, box, slot, full);
}
template <class C>
TJ_DEVICE void load_k(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const Params& params = loader.params;
  if constexpr (kPaged<C>)
    copy_pages<C, C::kHeadDim>(&params.k, params.k_page_rows, params, tile, i, slot, full);
  else
    copy_boxes<C, C::kHeadDim, C::kBlockN>(&params.k, key_box<C>(params, tile, i), slot, full);
}
template <class C>
TJ_DEVICE void load_v(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const Params& params = loader.params;
  if constexpr (kPaged<C>)
    copy_pages<C, kValueDim<C>>(&params.v, params.v_page_rows, params, tile, i, slot, full);
  else
    copy_boxes<C, kValueDim<C>, C::kBlockN>(&params.v, key_box<C>(params, tile, i), slot, full);
}
template <class C>
TJ_DEVICE void load_q(Loader<C>& loader, const Tile& tile, u32 slot) {
  const Params& params = loader.params;
  if constexpr (Packed<C>::kOn) return copy_packed_by_threads<C>(params, tile, slot);
  const int begin = queries_begin<C>(tile);
  copy_by_threads<C, C::kHeadDim, C::kRowsPerBlock>(params.q_rows, tile.batch, tile.head, begin + tile.row,
                                                    begin + mask_of<C>(params, tile).queries, slot);
}
template <class C>
TJ_DEVICE void load_k(Loader<C>& loader, const Tile& tile, int i, u32 slot) {
  copy_keys_by_threads<C, C::kHeadDim>(loader.params.k_rows, loader.params, tile, i, slot);
}
template <class C>
TJ_DEVICE void load_v(Loader<C>& loader, const Tile& tile, int i, u32 slot) {
  copy_keys_by_threads<C, kValueDim<C>>(loader.params.v_rows, loader.params, tile, i, slot);
}

}  // namespace tj::ops::fmha
