// Parameters of listing chunks, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::chunk_indices {

struct Params {
  const int* cu_seqlens;
  int* indices;  ///< pairs; each at a multiple of 8 bytes
  int* total;
  long long row_stride;  ///< from one pair to the next, in elements
  int capacity;          ///< pairs that there is room for
  int sequences;
  int tiles;  ///< blocks of sequences, at least 1
};

}  // namespace tj::ops::chunk_indices
