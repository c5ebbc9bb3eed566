// The one parameter of a chunk_o kernel, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::chunk_o {

inline constexpr int kChunk = 64;           ///< tokens of a chunk
inline constexpr int kWidth = 128;          ///< K and V
inline constexpr int kSwizzleColumns = 64;  ///< 128 bytes of 16-bit elements: the width of a block in shared memory
inline constexpr int kFewRows = 8;          ///< rows of a chunk that one copy brings where it is not whole

/// A division by a number that a launch does not change, as a product: of n from 0 to 2^31 - 1 it is exact.
// By 2^(31 + s) / d rounded up, s = ceil(log2 d): less than d / 2^(31 + s) too much in the factor, less than 1 / d in
// all.
struct Divisor {
  unsigned factor, shift;
};
constexpr Divisor divisor_of(int divisor) {
  unsigned log = 0;
  while ((1ull << log) < static_cast<unsigned long long>(divisor)) ++log;
  return {static_cast<unsigned>(((1ull << (31 + log)) + static_cast<unsigned long long>(divisor) - 1) /
                                static_cast<unsigned long long>(divisor)),
          31 + log};
}
constexpr int divided(int n, const Divisor& by) {
  return static_cast<int>(static_cast<unsigned long long>(static_cast<unsigned>(n)) * by.factor >> by.shift);
}

struct Params {
  /// Rank 4. q, k, o: column, token, head, 1. v: column, row of the chunk, head, chunk, by whole chunks, kFewRows rows
  /// and single ones. h: its contiguous dimension, the other one, head, chunk.
  TensorMap q, k, v, v_few, v_one, h, o;
  void* o_data;  ///< strides in elements
  long long o_stride_token, o_stride_head;
  const float* gates;      ///< read by kernels with kGates
  long long gates_stride;  ///< of a token
  /// Read by kernels with kVariable. Where sequences begin and end: cu_seqlens, and all of it but its first.
  const int *begins, *ends, *chunk_indices, *total_chunks;
  int last_sequence;  ///< of cu_seqlens; 0 where there is none
  int most_chunks;    ///< for which there is memory; without kVariable there are that many
  int tokens;
  int groups;  ///< of value heads that are one item
  Divisor by_groups, by_v_heads_per_head;
  int seq_length, seq_chunks;  ///< of each sequence, without kVariable
  Divisor by_seq_chunks;
  float scale;
};

}  // namespace tj::ops::chunk_o
