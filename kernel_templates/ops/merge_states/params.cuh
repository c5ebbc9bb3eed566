// Parameters of merging partial outputs of attention, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "types.cuh"

namespace tj::ops::merge_states {

inline constexpr int kWarps = 4;          ///< of a block; no more, so that few rows are spread over many SMs
inline constexpr int kThreadColumns = 4;  ///< next to each other
inline constexpr int kUnitColumns = 32 * kThreadColumns;  ///< of a row: a unit, that a warp merges
inline constexpr int kAhead = 8;                          ///< states that a thread has under way

/// Strides of rows [B, H, S], in elements; those of a dimension of size 1 are 0.
struct RowStrides {
  long long batch, head, row;
};

struct Params {
  const void* states;
  const float* lse_states;
  void* o;
  float* lse;         ///< may be null
  const int* bounds;  ///< of the rows that are merged: its first number and that at last_bound; may be null
  int last_bound;
  long long next_state, next_lse;  ///< elements from a state to the next
  RowStrides of_states, of_lse_states, of_o, of_lse;
  Divisor by_row_units, by_rows, by_heads;
  int rows, heads;
  int columns, count;       ///< elements of a row; states
  int row_units, units;     ///< of a row; of all
  int tiles;                ///< blocks of kWarps units
  int wide_states, wide_o;  ///< rows may be accessed kThreadColumns elements at a time
};

}  // namespace tj::ops::merge_states
