// Chunks of sequences, and where their records lie. Included by the node bodies of both kernels.
//
// Decides places. Chunk c of a sequence that begins at token b and has number n has record b / 64 + n + c: no two
// chunks share one, and nobody need count chunks. Invariant: whatever lists say, records and tokens are inside, and all
// launches take the same for a sequence.
#pragma once

#include "ops/delta_chunks/params.cuh"
#include "ops/gated_delta_rule/state.cuh"
#include "ops/gated_delta_rule/token.cuh"
#include "tiles.cuh"

namespace tj::ops::delta_chunks {

using dev::u32;
using dev::u64;

inline constexpr int kSwizzleRowBytes = 128;
inline constexpr u32 kSwizzleAtomBytes = 1024;
inline constexpr u32 kBlockBytes = kChunk * kSwizzleRowBytes;  ///< of a chunk's rows, a block of columns
inline constexpr int kMatrixK = 16;

/// A number of the list, inside the tokens.
template <class Rule>
TJ_DEVICE int bound_at(const Rule& rule, int index) {
  const int bound = static_cast<int>(dev::load_global_u32(rule.cu_seqlens + index));
  return max(0, min(bound, rule.tokens));
}

/// Tokens from begin to end - 1. Sequences have such by bounds that rise: the one in the list's middle is taken as it
/// is, those of either half are moved to its side, and so on in each half. Those of a list that rises stay. The two
/// functions below go through the same halves.
struct Span {
  int begin, end;
};
TJ_DEVICE int moved_into(const Span& span, int bound) { return max(span.begin, min(bound, span.end)); }
/// Bounds of the sequence itself, inside of what the halves have left.
TJ_DEVICE void end_search(Span& span, int begin, int end) {
  span.begin = moved_into(span, begin);
  span.end = moved_into(span, end);
}
/// The tokens of a sequence. It is known which half comes next, so four numbers are asked for at once.
template <class Rule>
TJ_DEVICE Span tokens_of(const Rule& rule, int sequences, int sequence) {
  constexpr int kAtOnce = 4;
  Span span{0, rule.tokens};
  const int begin = bound_at(rule, sequence), end = bound_at(rule, sequence + 1);
  for (int low = 0, high = sequences - 1; low < high;) {
    int bounds[kAtOnce];
    bool before[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {  // at the end the sequence's own begin once more, which changes nothing
      const int middle = (low + high + 1) / 2;
      before[i] = middle <= sequence;
      bounds[i] = bound_at(rule, middle);
      if (before[i])
        low = middle;
      else
        high = middle - 1;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int bound = moved_into(span, bounds[i]);
      span.begin = before[i] ? bound : span.begin;
      span.end = before[i] ? span.end : bound;
    }
  }
  end_search(span, begin, end);
  return span;
}
/// The last sequence whose records begin no later, and its tokens.
template <class Rule>
TJ_DEVICE int sequence_of(const Rule& rule, int sequences, int record, Span& span) {
  int low = 0, high = sequences - 1;
  span = {0, rule.tokens};
  while (low < high) {
    const int middle = (low + high + 1) / 2, bound = moved_into(span, bound_at(rule, middle));
    if (bound / kChunk + middle <= record) {
      low = middle;
      span.begin = bound;
    } else {
      high = middle - 1;
      span.end = bound;
    }
  }
  end_search(span, bound_at(rule, low), bound_at(rule, low + 1));
  return low;
}

/// Tokens of a chunk: so many from `token` on.
struct Place {
  int batch, token, rows;
};

/// A chunk's rows into a slot: blocks of 64 columns from `column` on. Rows behind a sequence's end are zeros.
template <class Params>
TJ_DEVICE void copy_chunk(const Params& params, const TensorMap* map, const Place& place, int head, int column,
                          int columns, u32 slot, u32 full) {
#pragma unroll 1
  for (int d = 0; d < columns; d += kSwizzleColumns, slot += kBlockBytes) {
    if (params.rule.cu_seqlens != nullptr)
      dev::copy_box_5d(slot, map, full, column + d, kEndRows - place.rows, place.token + place.rows, kEndRows, head);
    else
      dev::copy_box_4d(slot, map, full, column + d, place.token, head, place.batch);
  }
}

/// Lists of numbers have the eight tokens of a lane's two blocks of columns in 16 bytes: tokens 8j + 2q + e and those
/// eight further on. The byte of a token's number.
TJ_DEVICE int number_place(int token) {
  return (token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2) * 4;
}

}  // namespace tj::ops::delta_chunks
