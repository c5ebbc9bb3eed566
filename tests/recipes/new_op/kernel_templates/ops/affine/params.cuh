// The one parameter of an affine kernel, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::affine {

struct Params {
  TensorMap x;  ///< rank 4: C, R, 1, 1
  float* y;
  long long y_stride_row;  ///< in elements
  int rows, columns;
  float a, b;
};

}  // namespace tj::ops::affine
