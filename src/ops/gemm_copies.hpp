// Operands of a matrix product that the copy engine cannot read as they are: rows or a base between multiples of 16 bytes.
#pragma once

#include "ops/gemm.hpp"

namespace tj::ops {

/// Device memory for copies of them; 0 where both can be read as they are.
std::size_t gemm_scratch_bytes(const GemmArgs& args);
/// The copies, then the product of them.
void gemm_steps(const GemmArgs& args, void* scratch, const Op::Step& step);

}  // namespace tj::ops
