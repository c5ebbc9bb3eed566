// The one parameter of the kernel, by value: written by main.cpp, read by the node bodies. The including side declares
// tj::TensorMap: <tilejit/custom.hpp> on the host, the library's own device code in the kernel.
#pragma once

namespace sample::gemm_gelu {

struct Params {
  tj::TensorMap a;    ///< 1, 1, M, K
  tj::TensorMap b;    ///< 1, 1, N, K
  const float* bias;  ///< N
  void* d;            ///< f16, M rows of N
  int m, n, k;
  int row_blocks;  ///< tiles on top of each other
  int tiles;
};

}  // namespace sample::gemm_gelu
