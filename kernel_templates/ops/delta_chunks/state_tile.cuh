// Tiles of the states' kernel, and what its loads bring; see state.cuh.
//
// Decides which chunks a launch does of a sequence, and how a chunk's slot is laid out. Invariant: a launch's chunks of
// a sequence follow those of the launch before it.
#pragma once

#include "ops/delta_chunks/chunks.cuh"

namespace tj::ops::delta_chunks {

inline constexpr int kRows = 64;  ///< of V, of a consumer

/// Rows of V of a sequence's head; an iteration is a chunk.
struct Tile {
  int index;
  bool valid;
  int trip_count;
  int sequence, head, part;
  int batch, first, end;  ///< tokens
  int record;             ///< of the first chunk
  bool begins, goes_on;   ///< with the sequence's first chunk; behind the launch's last one
  bool empty;             ///< launches before this one have done the sequence's last chunk
};
template <class C>
TJ_DEVICE Tile tile_at(const StateParams& params, int index) {
  Tile tile{index, index < params.tiles, 0, 0, 0, 0, 0, 0, 0, 0, true, false, false};
  if (!tile.valid) return tile;
  const StateRule& rule = params.rule;
  const int heads = divided(index, params.records.by_parts);
  tile.part = index - heads * params.records.parts;
  tile.sequence = divided(heads, params.records.by_heads);
  tile.head = heads - tile.sequence * params.records.heads;
  if (rule.cu_seqlens == nullptr) {
    tile.batch = tile.sequence;
    tile.end = rule.tokens;
    tile.record = tile.sequence * params.records.chunks;
  } else {
    tile.first = bound_at(rule, tile.sequence);
    tile.end = max(tile.first, bound_at(rule, tile.sequence + 1));
    tile.record = tile.first / kChunk + tile.sequence;
  }
  const int chunks = (tile.end - tile.first + kChunk - 1) / kChunk, first = params.records.first;
  const int behind = params.records.count > 0 ? min(chunks, first + params.records.count) : chunks;
  tile.begins = first == 0;
  tile.goes_on = behind < chunks;
  tile.empty = first > 0 && first >= chunks;
  tile.trip_count = max(0, behind - first);
  tile.first += first * kChunk;
  tile.record += first;
  return tile;
}
TJ_DEVICE Place place_of(const Tile& tile, int i) {
  const int token = tile.first + i * kChunk;
  return {tile.batch, token, min(kChunk, tile.end - token)};
}
template <class C>
TJ_DEVICE int first_column(const Tile& tile) {
  return tile.part * C::kConsumers * kRows;
}

template <class C_>
struct Loader {
  using C = C_;
  const StateParams& params;
  TJ_DEVICE Loader(const StateParams& p, int) : params(p) {}
};
/// A chunk's slot: rows of k, of q, the record, rows of v.
template <class C>
struct Slot {
  static constexpr u32 kTokenBytes = C::kHeadDim / kSwizzleColumns * kBlockBytes;
  static constexpr u32 kQueries = kTokenBytes, kRecord = 2 * kTokenBytes, kValues = kRecord + kRecordBytes;
};

template <class C>
TJ_DEVICE void load_chunk(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const StateParams& params = loader.params;
  const Place place = place_of(tile, i);
  copy_chunk(params, &params.k, place, divided(tile.head, params.rule.by_k), 0, C::kHeadDim, slot, full);
  const int record = (tile.record + i) * params.records.heads + tile.head;
  dev::copy_box_4d(slot + Slot<C>::kRecord, &params.record_rows, full, 0, record * kRecordRows, 0, 0);
  copy_chunk(params, &params.v, place, divided(tile.head, params.rule.by_v), first_column<C>(tile),
             C::kConsumers * kRows, slot + Slot<C>::kValues, full);
  copy_chunk(params, &params.q, place, divided(tile.head, params.rule.by_q), 0, C::kHeadDim, slot + Slot<C>::kQueries,
             full);
}

}  // namespace tj::ops::delta_chunks
