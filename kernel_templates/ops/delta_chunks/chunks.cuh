// Chunks of sequences, and where their records lie. Included by the node bodies of both kernels.
//
// Decides places. Chunk c of a sequence that begins at token b and has number n has record b / 64 + n + c: no two
// chunks share one, and nobody need count chunks. Invariant: whatever lists say, records and tokens are inside, and all
// launches take the same for a sequence.
#pragma once

#include "ops/chunks/places.cuh"
#include "ops/delta_chunks/params.cuh"
#include "ops/gated_delta_rule/state.cuh"
#include "ops/gated_delta_rule/token.cuh"
#include "tiles.cuh"

namespace tj::ops::delta_chunks {

using chunks::Place;
using dev::u32;
using dev::u64;

inline constexpr int kSwizzleRowBytes = kRowBytes;
inline constexpr u32 kSwizzleAtomBytes = 1024;
inline constexpr u32 kBlockBytes = kChunk * kSwizzleRowBytes;  ///< of a chunk's rows, a block of columns
inline constexpr int kMatrixK = 16;
/// Rows of a record, and the number of the first one that is there.
template <class C>
inline constexpr int kRowsOfRecord = record_rows(C::kHeadDim, C::kChannelGate, C::kDelta);
template <class C>
inline constexpr int kFirstRow = rows_left_out(C::kDelta);

/// The warp's number in a consumer.
TJ_DEVICE int group_warp() { return static_cast<int>(dev::warp_index() & 3u); }

/// A number of the list, inside the tokens.
template <class Rule>
TJ_DEVICE int bound_at(const Rule& rule, int index) {
  return chunks::bound_at(rule.cu_seqlens, rule.tokens, index);
}

/// A chunk's rows into a slot: blocks of 64 columns from `column` on. Rows behind a sequence's end are zeros.
TJ_DEVICE void copy_rows(bool listed, const TensorMap* map, const Place& place, int head, int column, int columns,
                         u32 slot, u32 full) {
#pragma unroll 1
  for (int d = 0; d < columns; d += kSwizzleColumns, slot += kBlockBytes) {
    if (listed)
      dev::copy_box_5d(slot, map, full, column + d, kEndRows - place.rows, place.token + place.rows, kEndRows, head);
    else
      dev::copy_box_4d(slot, map, full, column + d, place.token, head, place.batch);
  }
}
template <class Params>
TJ_DEVICE void copy_chunk(const Params& params, const TensorMap* map, const Place& place, int head, int column,
                          int columns, u32 slot, u32 full) {
  copy_rows(params.rule.cu_seqlens != nullptr, map, place, head, column, columns, slot, full);
}
/// A block of 64 columns of a chunk's rows goes to memory; those of no token stay.
TJ_DEVICE void store_rows(bool listed, const TensorMap* map, const Place& place, int head, int column, u32 slot) {
  if (listed)
    dev::store_box_5d(map, slot, column, kEndRows - place.rows, place.token + place.rows, kEndRows, head);
  else
    dev::store_box_4d(map, slot, column, place.token, head, place.batch);
}

/// Lists of numbers have the eight tokens of a lane's two blocks of columns in 16 bytes: tokens 8j + 2q + e and those
/// eight further on. The byte of a token's number.
TJ_DEVICE int number_place(int token) {
  return (token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2) * 4;
}

}  // namespace tj::ops::delta_chunks
