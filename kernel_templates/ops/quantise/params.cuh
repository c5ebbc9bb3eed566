// Parameters of quantising, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "ops/scales/params.cuh"
#include "types.cuh"

namespace tj::ops::quantise {

inline constexpr int kBlock = kScaleBlock;  ///< elements of K of a row, and rows, that a scale serves
inline constexpr int kWarps = 8;            ///< units of a tile
inline constexpr int kAhead = 4;            ///< pairs of rows that a warp loads in one go
inline constexpr int kStepRows = 2 * kAhead;
inline constexpr int kHeld = kBlock / kWarps / kStepRows;  ///< of those, what a warp holds of a block of 128 rows

// A lane of a transposed q has 16 rows of 8 columns: its elements of a column are neighbours in q.
inline constexpr int kLaneRows = 16;     ///< of the 128 of a unit
inline constexpr int kUnitColumns = 32;  ///< of a unit

struct Params {
  const void* x;
  unsigned char* q;
  BlockScales scales;
  const int* row_indices;                    ///< the row of x that is quantised, for each of q; null: its own
  long long x_batch, x_row, q_batch, q_row;  ///< in elements
  int rows, columns;                         ///< of q, in a matrix; of x where q is transposed
  int x_rows;                                ///< of x, with row_indices
  int wide;    ///< 8 elements of x and of q may be accessed at a time; of x where q is transposed
  int wide_q;  ///< 16 elements of q may be; read where q is transposed
  int blocks, row_units,
      units;  ///< blocks of K, or units of 32 columns; units of one of them in a matrix; all
  int tiles;
  Divisor by_blocks, by_row_units;
};

}  // namespace tj::ops::quantise
