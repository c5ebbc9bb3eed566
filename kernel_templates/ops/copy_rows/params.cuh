// Parameters of copying rows, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::copy_rows {

struct Params {
  const void* source;
  void* destination;                               ///< at a multiple of 16 bytes, as is every row of it
  long long source_batch_bytes, source_row_bytes;  ///< from one to the next
  long long row_pitch;                             ///< of the destination, whose matrices follow each other
  long long row_bytes;                             ///< to be copied of each row
  int rows, all_rows;                              ///< of a matrix, of the batch
  int tiles, parts;                                ///< parts of blocks of rows; of one such block
};

}  // namespace tj::ops::copy_rows
