// The one parameter of a chunk_o kernel, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "types.cuh"

namespace tj::ops::chunk_o {

inline constexpr int kChunk = 64;           ///< tokens of a chunk
inline constexpr int kWidth = 128;          ///< K and V
inline constexpr int kSwizzleColumns = 64;  ///< 128 bytes of 16-bit elements: the width of a block in shared memory
inline constexpr int kFewRows = 8;          ///< rows of a chunk that one copy brings where it is not whole

/// A tensor that threads read; strides in elements. stride_row: of a token, of a row of v_new, of a row of h's
/// matrices.
struct Source {
  const void* data;
  long long stride_row, stride_head, stride_chunk;
};

struct Params {
  /// Maps where copies are the copy engine's, of rank 4. q, k, o: column, token, head, 1. v: column, row of the chunk,
  /// head, chunk, by whole chunks, kFewRows rows and single ones. h: its contiguous dimension, the other one, head,
  /// chunk. Where threads copy, rows stand in their place.
  union {
    TensorMap q;
    Source q_rows;
  };
  union {
    TensorMap k;
    Source k_rows;
  };
  union {
    TensorMap v;
    Source v_rows;
  };
  union {
    TensorMap h;
    Source h_rows;
  };
  TensorMap v_few, v_one, o;
  void* o_data;  ///< strides in elements
  long long o_stride_token, o_stride_head;
  const float* gates;      ///< read by kernels with kGates
  long long gates_stride;  ///< of a token
  /// Read by kernels with kVariable. Where sequences begin and end: cu_seqlens, and all of it but its first.
  const int *begins, *ends, *chunk_indices, *total_chunks;
  int last_sequence;  ///< of cu_seqlens; 0 where there is none
  int most_chunks;    ///< for which there is memory; without kVariable there are that many
  int tokens;
  int blocks;  ///< of the grid
  int groups;  ///< of value heads that are one item; or parts of one head
  Divisor by_groups, by_v_heads_per_head;
  int seq_length, seq_chunks;  ///< of each sequence, without kVariable
  Divisor by_seq_chunks;
  float scale;
};

}  // namespace tj::ops::chunk_o
