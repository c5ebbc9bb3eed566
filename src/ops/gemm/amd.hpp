// A matrix product where what is copied passes through registers: what sm80.cpp asks of amd.cpp.
//
// Decides nothing that gemm.hpp does not say. Invariant: asked for archs alone of which gemm_through_registers is true.
#pragma once

#include "ops/gemm/gemm.hpp"

namespace tj::ops {

/// Is the arch one of those?
bool gemm_through_registers(const arch::Arch& arch);
/// Blocks with this tile side by side on an SM, at most `most`; 0: the arch does not serve it.
int gemm_register_blocks(const GemmTile& tile, const arch::Arch& arch, int most);
Candidate gemm_register_candidate(const GemmKernel& kernel, const arch::Arch& arch, double iterations);

}  // namespace tj::ops
