// Checks that products and products of groups share; see ops/common/tensor_checks.hpp.
#pragma once

#include <cstdint>

#include <tilejit/gemm.hpp>

#include "ops/common/tensor_checks.hpp"

namespace tj::ops {

void check_gemm_types(const char* op, DType dtype, DType out, const char* dtype_name, const char* out_name);
void check_gemm_activation(const char* op, Activation activation, const char* name = "activation");
/// Arguments that no product with a gate has are refused, before shapes are looked at. n: rows of b; add_c: beta is not
/// 0.
void check_gemm_gate(const char* op, Activation activation, bool add_c, std::int64_t n);
/// The order of b and its scales, with a gate; all of their shapes are checked.
void check_gemm_gate_operands(const GemmArgs& product, const Named& b);
/// The scales of an operand's blocks, f32 or four exponents in an i32: `rows` of them, or of 128 x 128 elements
/// `blocks`, which are contiguous in K.
void check_block_scales(const char* name, const Tensor& tensor, const Named& operand, std::int64_t rows,
                        std::int64_t blocks, std::int64_t k_blocks, DType type, const Named& d, const Range& d_range);

/// A d of e4m3 has a scale_d and no addend, another has no scale_d: before shapes are looked at.
void check_gemm_quantised(const char* op, const GemmArgs& product);
/// The scale_d of a call whose other tensors are checked, if it has one.
void check_gemm_scale_d(const GemmArgs& product, const Named& d, const Range& d_range);

}  // namespace tj::ops
