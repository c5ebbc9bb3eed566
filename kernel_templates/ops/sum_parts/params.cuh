// Parameters of adding a matrix product's parts, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::sum_parts {

inline constexpr int kWarps = 4;                    ///< of a block; no more, so that few rows are spread over many SMs
inline constexpr int kColumns = 4;                  ///< of a thread, next to each other
inline constexpr int kUnitColumns = 32 * kColumns;  ///< of a row: a unit, that a warp finishes
inline constexpr int kPartsAhead = 16;              ///< that a thread has under way

struct Params {
  const float* sums;                ///< rows at multiples of 16 bytes
  long long row_pitch, part_pitch;  ///< in elements; a part's rows follow each other through the batch
  void* d;                          ///< strides below in elements; rows are contiguous
  const void *c, *bias;             ///< null: none
  long long d_stride_batch, d_stride_row;
  long long c_stride_batch, c_stride_row;
  long long bias_stride_batch;
  int m, n;
  int parts;
  int row_units, units;           ///< of a row, of all rows of the batch
  int tiles;                      ///< blocks of kWarps units
  int wide_d, wide_c, wide_bias;  ///< rows may be accessed kColumns elements at a time
  int activation;                 ///< gemm's
  float alpha, beta;
  const float *scale_a, *scale_b;  ///< further factors of the sums; null: none
  const unsigned* end_params;      ///< numbers that a user's text reads, and the place of the last of them
  unsigned last_end_param;
  int c_f32;  ///< c is f32, whatever d is
};

}  // namespace tj::ops::sum_parts
