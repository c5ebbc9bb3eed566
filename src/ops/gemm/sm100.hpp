// A matrix product on the matrix unit that works in tensor memory: what the other files of gemm ask of sm100.cpp.
#pragma once

#include "ops/gemm/gemm.hpp"

namespace tj::ops {

/// Is the arch one whose products leave their sums in tensor memory?
bool gemm_in_tensor_memory(const arch::Arch& arch);
const arch::Needs& gemm_tensor_needs();
bool gemm_tensor_serves(const GemmTile& tile, const arch::Arch& arch);
/// Rows of one product.
int gemm_tensor_rows(const GemmTile& tile);
/// Are a tile's sums stored under the next one's loop? Tensor memory has room for a second set of them then.
bool gemm_tensor_stores_beside(const GemmTile& tile, const arch::Arch& arch);
/// Do two blocks of the same columns multiply as one (Graph::pairs)? Then b is in shared memory once for both, half in
/// each.
bool gemm_in_pairs(const GemmKernel& kernel, const arch::Arch& arch);
/// Of an iteration, on the unit.
double gemm_tensor_cycles(const GemmTile& tile, const arch::Arch& arch);
graph::Graph gemm_tensor_graph(const GemmKernel& kernel, const arch::Arch& arch);

}  // namespace tj::ops
