// Parameters of combining rows, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "types.cuh"

namespace tj::ops::combine {

inline constexpr int kWarps = 4;                    ///< of a block; few, so that few tokens are spread over many SMs
inline constexpr int kColumns = 8;                  ///< of a lane, next to each other
inline constexpr int kUnitColumns = 32 * kColumns;  ///< of a row of d: a unit, that 32 lanes finish

/// The rows of y that a lane has under way, by their elements' bytes: 128 bytes of them.
constexpr int rows_ahead(int element_bytes) { return 16 / element_bytes; }

struct Params {
  const void* y;
  void* d;
  const void* residual;  ///< null: none
  const int* slots;
  const float* weights;                                          ///< null: all are 1
  long long y_row, d_row, residual_row, slots_row, weights_row;  ///< in elements; rows are contiguous
  int rows;                                                      ///< of y
  int columns, choices;                                          ///< of d and of slots
  int row_units, units;                                          ///< of a row, of all rows of d
  int tiles;                                                     ///< blocks of kWarps units
  int wide_y, wide_d, wide_residual;                             ///< rows may be accessed 16 bytes at a time
  Divisor by_row_units;
};

}  // namespace tj::ops::combine
