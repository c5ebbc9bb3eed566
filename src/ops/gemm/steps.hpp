// The launches that serve a matrix product: copies of operands, the product or sums over parts of its K, the sum of
// these.
//
// copies.cpp decides which operands are copied, steps.cpp the order and the scratch memory.
#pragma once

#include <vector>

#include "ops/common/needed_kernel.hpp"
#include "ops/gemm/gemm.hpp"

namespace tj::ops {

/// Operands that the copy engine cannot read as they are: rows or a base between multiples of 16 bytes.
std::size_t gemm_copy_bytes(const GemmArgs& args);
/// Copies a and b there where they must be, and puts the copies in their place; scratch moves on.
void copy_gemm_operands(GemmArgs& args, std::byte*& scratch, const Step& step);
/// Do rows of dense operands of these sizes have to be copied first?
bool gemm_copies(const GemmConfig& config);

bool gemm_in_steps(const GemmArgs& args, const GemmChoice& choice);
std::size_t gemm_scratch_bytes(const GemmArgs& args, const GemmChoice& choice);
void gemm_steps(const GemmArgs& args, const GemmChoice& choice, void* scratch, const Step& step);

/// Of calls with dense operands, the product's last.
std::vector<NeededKernel> gemm_needed_kernels(const GemmConfig& config, const GemmChoice& choice);
/// measured: a choice, or kNoChoice for the one that is predicted.
std::vector<NeededKernel> gemm_needed_kernels(const GemmConfig& config, int measured, const arch::Arch& arch);

/// Sums over parts of K by kernels of gemm's own: an op that is launched only as a step. product: its d has f32
/// matrices [parts x batch, M, N] in scratch memory, alpha 1 and no epilogue.
struct GemmPartsArgs {
  GemmArgs product;
  GemmChoice choice;
};
const Op& gemm_parts_op();

}  // namespace tj::ops
