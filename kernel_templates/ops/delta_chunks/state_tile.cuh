// Tiles of the states' kernel, what its loads bring and its stores take away; see state.cuh.
//
// Decides which chunks a tile does of a sequence, and how a chunk's slot is laid out. Invariant: a launch's chunks of a
// sequence follow those of the launch before it.
//
// A sequence may be cut into segments that blocks do side by side. With S before a segment, the state behind it is
// S M + N: N comes of a state of zeros, and M of the identity where values are zeros. One step makes N and M of each
// segment, carry.cuh goes from segment to segment, and states and results begin anew from there. A call may allow
// segments to forget (StateParams::negligible): they need no map then. The caller's states are copied first, as the
// last segment may overwrite them.
#pragma once

#include "ops/delta_chunks/chunks.cuh"

namespace tj::ops::delta_chunks {

inline constexpr int kRows = 64;  ///< of V, of a consumer

/// Places of the state before a tile's first chunk and of that behind its last, beside slots between launches.
enum Between : int {
  kOfCaller = -1,  ///< the caller's initial or final state
  kZeros = -2,
  kIdentity = -3,
  kNowhere = -4,
};
inline constexpr int kNoHead = 1 << 30;  ///< outside of every tensor: copies of it are zeros

/// Rows of V of a sequence's head; an iteration is a chunk.
struct Tile {
  int index;
  bool valid;
  int trip_count;
  int sequence, head, part;
  int batch, first, end;  ///< tokens
  int record;             ///< of the first chunk
  int chunk;              ///< the first one's number in its sequence
  int from, to;           ///< slots, or of Between
  int ahead;              ///< chunks of them that only the state behind them is wanted of
};
/// The decay of a chunk's tokens together, with gates of heads.
template <class C>
TJ_DEVICE float total_of(const StateParams& params, int record, int head) {
  constexpr int kBytes = kRowsOfRecord<C> * kRowBytes;
  const unsigned char* const first =
      params.records.data + (static_cast<long long>(record) * params.records.heads + head) * kBytes;
  return dev::load_global(reinterpret_cast<const float*>(first + (2 * (kChunk + kTotal) - kFirstRow<C>)*kRowBytes));
}
/// A segment that begins without the state before it: the first chunk from which decays leave so little that it counts
/// for nothing. `record`: of the sequence's first chunk.
template <class C>
TJ_DEVICE int begin_ahead(const StateParams& params, int record, int head, int segment) {
  float left = 1.0f;
  int chunk = segment;
#pragma unroll 1
  while (chunk > 0 && !(left <= params.negligible)) left *= total_of<C>(params, record + --chunk, head);
  return chunk;
}
/// The tile's unit of its head: a segment, or what maps one.
template <class C>
TJ_DEVICE void take_unit(Tile& tile, const StateParams& params, int head, int unit, int chunks) {
  const Records& records = params.records;
  int segment = unit;
  if constexpr (C::kMaps) {
    const bool identity = unit >= records.segments - 1;
    if (identity) segment -= records.segments - 2;
    tile.from = identity ? kIdentity : segment == 0 ? kOfCaller : kZeros;
    tile.to = head * records.units + unit;
  } else if (records.segments > 1) {
    tile.from = head * records.segments + segment;
    tile.to = segment + 1 < records.segments ? kNowhere : kOfCaller;
  } else {
    tile.from = records.first == 0 ? kOfCaller : head;
    tile.to = kOfCaller;
  }
  int first = records.first + segment * records.count;
  const int behind = records.count > 0 ? min(chunks, first + records.count) : chunks;
  if (!C::kMaps && records.segments == 1) {
    if (behind < chunks) tile.to = head;
    if (first > 0 && first >= chunks) tile.from = tile.to = kNowhere;  // launches before this one have done all
  }
  if constexpr (!C::kMaps && !C::kChannelGate)
    if (params.negligible > 0 && records.segments > 1 && (first < chunks || tile.to == kOfCaller)) {
      const int segment_begin = min(first, chunks);
      first = begin_ahead<C>(params, tile.record, tile.head, segment_begin);
      tile.ahead = segment_begin - first;
      tile.from = first > 0 || params.rule.initial.data == nullptr ? kZeros : head * kCopiedStates;
    } else if (params.negligible > 0) {
      tile.from = kNowhere;  // behind the sequence's end
    }
  tile.trip_count = max(0, behind - first);
  tile.first += first * kChunk;
  tile.record += first;
  tile.chunk = first;
}
template <class C>
TJ_DEVICE Tile tile_at(const StateParams& params, int index) {
  Tile tile{index, index < params.tiles, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  if (!tile.valid) return tile;
  const StateRule& rule = params.rule;
  const int units = divided(index, params.records.by_parts), head = divided(units, params.records.by_units);
  tile.part = index - units * params.records.parts;
  tile.sequence = divided(head, params.records.by_heads);
  tile.head = head - tile.sequence * params.records.heads;
  if (rule.cu_seqlens == nullptr) {
    tile.batch = tile.sequence;
    tile.end = rule.tokens;
    tile.record = tile.sequence * params.records.chunks;
  } else {
    const chunks::Span tokens =
        chunks::tokens_of(rule.cu_seqlens, rule.tokens, params.records.sequences, tile.sequence);
    tile.first = tokens.begin;
    tile.end = tokens.end;
    tile.record = tile.first / kChunk + tile.sequence;
  }
  take_unit<C>(tile, params, head, units - head * params.records.units, (tile.end - tile.first + kChunk - 1) / kChunk);
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
/// A chunk's slot: rows of k, of q where there are results, the record, rows of v. With gates of key channels rows of k
/// and q are the record's faded ones, behind its numbers: k as it reads the state, k as it is kept, q. kRecord and
/// kKeys count from rows that a record without delta has not.
template <class C>
struct Slot {
  static constexpr u32 kTokenBytes = C::kHeadDim / kSwizzleColumns * kBlockBytes, kTokens = C::kMaps ? 1 : 2;
  static constexpr int kCopiedRows = copied_rows(C::kHeadDim, C::kChannelGate, C::kDelta, C::kMaps),
                       kBoxes = boxes_of(kCopiedRows), kBoxRows = kCopiedRows / kBoxes;
  static constexpr u32 kCopied = C::kChannelGate ? 0 : kTokens * kTokenBytes,
                       kRecord = kCopied - kFirstRow<C> * kRowBytes,
                       kKeys =
                           C::kChannelGate ? kRecord + kRecordBytes - matrices_left_out(C::kDelta) * kTokenBytes : 0,
                       kKept = C::kChannelGate ? kKeys + kTokenBytes : 0, kQueries = kKept + kTokenBytes,
                       kValues = kCopied + kCopiedRows * kRowBytes;
  static_assert(kValues + C::kConsumers * kBlockBytes ==
                    chunk_bytes(C::kHeadDim, C::kChannelGate, C::kDelta, C::kMaps, C::kConsumers),
                "the host's slot is this one");
};

template <class C>
TJ_DEVICE void load_chunk(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const StateParams& params = loader.params;
  const Place place = place_of(tile, i);
  if constexpr (!C::kChannelGate)
    copy_chunk(params, &params.k, place, divided(tile.head, params.rule.by_k), 0, C::kHeadDim, slot, full);
  const int record = (tile.record + i) * params.records.heads + tile.head;
#pragma unroll
  for (int box = 0; box < Slot<C>::kBoxes; ++box)
    dev::copy_box_4d(slot + Slot<C>::kCopied + static_cast<u32>(box * Slot<C>::kBoxRows * kRowBytes),
                     &params.record_rows, full, 0, record * kRowsOfRecord<C> + box * Slot<C>::kBoxRows, 0, 0);
  const int values = tile.from == kIdentity ? kNoHead : divided(tile.head, params.rule.by_v);
  copy_chunk(params, &params.v, place, values, first_column<C>(tile), C::kConsumers * kRows, slot + Slot<C>::kValues,
             full);
  if constexpr (C::kMaps || C::kChannelGate) return;
  copy_chunk(params, &params.q, place, divided(tile.head, params.rule.by_q), 0, C::kHeadDim, slot + Slot<C>::kQueries,
             full);
}

/// Brings to o what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const StateParams& params;
  const int copy;  ///< the consumer's
  TJ_DEVICE Writer(const StateParams& p, int which) : params(p), copy(which) {}
};
template <class C>
TJ_DEVICE void put_rows(Writer<C>& writer, const Tile& tile, int i, u32 slot) {
  if (i < tile.ahead) return;
  const StateParams& params = writer.params;
  const Place place = place_of(tile, i);
  const int column = first_column<C>(tile) + writer.copy * kRows;
  store_rows(params.rule.cu_seqlens != nullptr, &params.o, place, tile.head, column, slot);
}

}  // namespace tj::ops::delta_chunks
