// The one parameter of the kernel, by value: written by main.cpp, read by the node bodies. The including side declares
// tj::TensorMap: <tilejit/custom.hpp> on the host, the library's own device code in the kernel.
#pragma once

namespace sample::rmsnorm_gemm {

struct Params {
  tj::TensorMap x_map, w_map;  ///< of x and w, where the arch has a copy engine
  const void* x;               ///< f16 [M, K]
  const void* w;               ///< f16 [N, K], the norm's weights in its columns
  const void* residual;        ///< f16 [M, N]
  void* d;                     ///< f16 [M, N]
  int m, n, k;                 ///< n and k are multiples of 8
  float one_over_k, epsilon;
  int row_blocks;  ///< tiles on top of each other
  int tiles;
};

}  // namespace sample::rmsnorm_gemm
