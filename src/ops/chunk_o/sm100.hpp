// Chunk outputs on the matrix unit that works in tensor memory: what the other files of chunk_o ask of
// sm100.cpp.
#pragma once

#include "ops/chunk_o/chunk_o.hpp"

namespace tj::ops {

/// Is the arch one whose products leave their sums in tensor memory?
bool chunk_o_in_tensor_memory(const arch::Arch& arch);
const arch::Needs& chunk_o_tensor_needs();
/// Value heads that an item may have there.
bool chunk_o_tensor_serves(int heads);
graph::Graph chunk_o_tensor_graph(const ChunkOKernel& kernel, int heads, const arch::Arch& arch);

}  // namespace tj::ops
