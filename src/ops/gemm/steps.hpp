// The launches that serve a matrix product: copies of operands, the product or sums over parts of its K, the sum of
// these.
//
// copies.cpp decides which operands are copied, steps.cpp the order and the scratch memory.
#pragma once

#include <vector>

#include "ops/gemm/gemm.hpp"

namespace tj::ops {

/// Is it an operand that the copy engine cannot read as it is: rows or a base between multiples of 16 bytes?
bool gemm_copied(const Tensor& operand);
/// Bytes that the copies of all such operands take. An operand that a tile's threads read has none.
std::size_t gemm_copy_bytes(const GemmArgs& args, const GemmChoice& choice);
/// Copies those of a and b that must be copied to scratch, and puts the copies in their place; scratch moves on. draws:
/// blocks of these launches draw their tiles.
void copy_gemm_operands(GemmArgs& args, const GemmChoice& choice, std::byte*& scratch, bool draws,
                        const EachStep& each);
/// Do rows of dense operands of these sizes have to be copied first, for this tile?
bool gemm_copies(const GemmConfig& config, const GemmChoice& choice);

bool gemm_in_steps(const GemmArgs& args, const GemmChoice& choice);
std::size_t gemm_scratch_bytes(const GemmArgs& args, const GemmChoice& choice);
void gemm_steps(const GemmArgs& args, const Kernel& kernel, void* scratch, const EachStep& each);

/// The kernels of calls with dense operands that this kernel serves; the product's comes last.
std::vector<NeededKernel> gemm_needed_kernels(const GemmConfig& config, const Kernel& kernel);

}  // namespace tj::ops
