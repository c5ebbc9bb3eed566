// The one parameter of delta_chunks' kernels, by value: written by the host, read by the device.
#pragma once

#include "ops/chunks/params.cuh"
#include "ops/gated_delta_rule/params.cuh"
#include "types.cuh"

namespace tj::ops::delta_chunks {

using chunks::kChunk;
inline constexpr int kSwizzleColumns = 64;  ///< 128 bytes of 16-bit elements: the width of a block in shared memory
inline constexpr int kSolveWarps = 4;
inline constexpr int kFirstPairs = 1;                      ///< steps of sixteen tokens that change states first
inline constexpr int kCarryWarps = 4, kCarryRows = 8;      ///< of a block of the step that carries states
inline constexpr int kBlockRows = 16, kBlockTerms = 1024;  ///< of a block of T: rows, and bytes in shared memory

/// A record is what the states' kernel reads of a chunk and head, in rows of 64 elements of 16 bits: the solved matrix
/// A, the weights B, then lists of f32, a number for each token in the order of number_place(), in two rows each. The
/// rest of their rows is nothing. With gates of key channels three matrices of faded rows follow, each of tokens by K
/// in blocks of 64 columns (channels.cuh). Without the delta nothing is solved, and states are read for results alone:
/// rows of A are left out, and so is the first of those three matrices.
inline constexpr int kNumberRows = 16, kRecordRows = 2 * kChunk + kNumberRows;
inline constexpr int kRowBytes = 128, kRecordBytes = kRecordRows * kRowBytes;
inline constexpr int kFadedMatrices = 3;
inline constexpr int kCopiedStates = 2;   ///< slots of a head where the caller's states are copied: one is used
inline constexpr int kMostBoxRows = 256;  ///< of a copy

/// Rows of a record that are left out, the first ones.
constexpr int rows_left_out(bool delta) { return delta ? 0 : kChunk; }
/// Matrices of faded rows that are left out, the first ones.
constexpr int matrices_left_out(bool delta) { return delta ? 0 : 1; }
/// Rows of a record. `channels`: with gates of key channels; `width`: K.
constexpr int record_rows(int width, bool channels, bool delta) {
  return kRecordRows - rows_left_out(delta) + (channels ? (kFadedMatrices - matrices_left_out(delta)) * width : 0);
}
/// The first of them, which a step of states copies. `maps`: the step that maps segments, which reads no queries.
constexpr int copied_rows(int width, bool channels, bool delta, bool maps) {
  return record_rows(width, channels, delta) - (channels && maps ? width : 0);
}
/// Boxes of as many rows each that bring so many.
constexpr int boxes_of(int rows) { return (rows + kMostBoxRows - 1) / kMostBoxRows; }
/// A chunk in shared memory: rows of k and of q, unless the record has them faded; the record; 64 rows of V for each
/// consumer.
constexpr int chunk_bytes(int width, bool channels, bool delta, bool maps, int consumers) {
  constexpr int kRowsOfV = 64, kElementBytes = 2;
  const int tokens = channels ? 0 : (maps ? 1 : 2) * width;
  return copied_rows(width, channels, delta, maps) * kRowBytes +
         kChunk * kElementBytes * (tokens + kRowsOfV * consumers);
}
static_assert(record_rows(64, false, true) * kRowBytes == 18 << 10 &&
              record_rows(64, false, false) * kRowBytes == 10 << 10);
static_assert(record_rows(64, true, true) * kRowBytes == 42 << 10 &&
              record_rows(128, true, true) * kRowBytes == 66 << 10);
/// Boxes bring all rows that are copied, and begin at a multiple of eight of them, as swizzles do.
constexpr bool boxes_are_whole(int width, bool channels, bool delta, bool maps) {
  const int rows = copied_rows(width, channels, delta, maps);
  return rows % (8 * boxes_of(rows)) == 0;
}
constexpr bool boxes_are_whole(bool channels, bool delta) {
  return boxes_are_whole(64, channels, delta, false) && boxes_are_whole(128, channels, delta, false) &&
         boxes_are_whole(64, channels, delta, true) && boxes_are_whole(128, channels, delta, true);
}
static_assert(boxes_are_whole(false, true) && boxes_are_whole(true, true));
static_assert(boxes_are_whole(false, false) && boxes_are_whole(true, false));
enum Number : int {
  kFade,    ///< of the state before the chunk as a token's key reads it, times beta
  kBeta,    ///< of a token's value
  kKeep,    ///< of a token's change in the state behind the chunk
  kOut,     ///< of the state before the chunk in a token's result
  kTotal,   ///< the first one: of the state before the chunk in that behind it
  kTotals,  ///< with gates of key channels in its place: a number for each of them
};

/// Places of sequences and of their records.
struct Records {
  unsigned char* data;
  int heads, sequences;
  int chunks;        ///< of a sequence, without lists
  int first, count;  ///< chunks of each sequence that the launch does, or of a segment; 0: all, of sequences by a list
  int parts;         ///< tiles of a head's chunks
  int segments;      ///< of a sequence, one behind the other; 1: it is not cut
  int units;         ///< of a head: its segments, or what they are mapped by
  Divisor by_heads, by_count, by_parts, by_units;
};

/// Maps of tokens have rank 4: column, token, head, batch; with lists rank 5, boxes end with a sequence (types.cuh).
struct SolveParams {
  TensorMap q, k, record_rows;  ///< the last one: column, row
  gated_delta_rule::Params rule;
  Records records;
  int tiles;
};

/// Facts of a call for the states' kernel.
struct StateRule {
  gated_delta_rule::States initial, final;
  gated_delta_rule::TokenStates each;  ///< by chunks
  const int* cu_seqlens;
  int tokens;
  int unused;  ///< as in States
  Divisor by_q, by_k, by_v;
};
/// record_rows: column, row.
struct StateParams {
  TensorMap q, k, v, o, record_rows;
  StateRule rule;
  Records records;
  float* states;  ///< between launches; of segments, those before each
  float* maps;    ///< of segments; of the step that makes them
  int tiles;
  /// Above 0: segments begin from zeros, so many chunks ahead that decays leave at most this share of the state.
  float negligible;
};
/// map_rows: column, row.
struct CarryParams {
  TensorMap map_rows;
  float *states, *maps;
  int segments, parts, tiles;
  Divisor by_parts;
};

}  // namespace tj::ops::delta_chunks
