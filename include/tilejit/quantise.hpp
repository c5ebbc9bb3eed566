// Elements of 8 bits with scales of blocks, as products take them.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/gemm.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct QuantiseConfig;

/// Quantises to e4m3: q = x / scale of its block, rounded to nearest even, so that x is about q times the scale.
///
/// A scale is max(largest magnitude of its block, 1e-4) / 448. A block is 128 elements of K of a row, or of 128 rows.
/// With powers_of_two it is rounded up to one, and scales may be i32 [.., ceil(K / 512)], four exponents of 8 bits in
/// each (UE8M0): 2^(e - 127), the first block's in its lowest bits, 0 behind the last block's. With a gate, x has two
/// halves of K columns each, and what is quantised is activation(first half) * second half: silu makes SwiGLU, gelu and
/// gelu_tanh GeGLU.
///
/// Shapes: x [M, K], or [M, 2 K] with a gate; q [M, K]; scales [M, ceil(K / 128)] for blocks of a row,
/// [ceil(M / 128), ceil(K / 128)] for blocks of 128 rows. With a batch, all have a leading B. M and B * M are 0 to
/// 2^30. Types: x is f16, bf16 or f32, q e4m3, scales f32 or i32. All are on one device. Memory: the last dimension of
/// x and q is contiguous. Scales lie in any order; contiguous in M, gemm() reads them faster. Rows of x and q at
/// multiples of 16 and 8 bytes take less time. Outputs overlap nothing.
///
/// With row_indices, i32 [M] in device memory without gaps, row m of q is made of row row_indices[m] of x [X, K], and
/// of zeros where that is -1. Any other number that is no row of x counts as -1; TJ_CHECK=1 refuses the call and names
/// the first. There is no batch then.
///
/// With `transposed` q is [K, M], contiguous in M, and scales are [K, ceil(M / 128)], or i32 [K, ceil(M / 512)]: a
/// block is 128 rows of a column of x. So products along M, such as gradients of weights, read q. x is f16 or bf16
/// then, and there are neither a gate nor row_indices. Rows of q at multiples of 16 bytes take less time.
///
/// NaN in x gives a NaN in q at its place, and is no part of a scale. With infinity in a block the scale is infinity,
/// and q NaN there and 0 elsewhere. Equal calls give equal bits. Kernels exist on the archs where gemm() has e4m3.
/// Errors are tj::Error, naming the argument. Thread safe.
struct QuantiseArgs {
  static constexpr const char* kOp = "quantise";
  using Config = QuantiseConfig;
  Tensor x, q, scales;
  std::optional<Tensor> row_indices;
  Activation gate = Activation::none;
  bool powers_of_two = false;
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
  bool transposed = false;  ///< q [K, M], scales [K, ceil(M / 128)]
};

/// The fields that choose a quantise kernel, without any memory: for prepare() and warm().
struct QuantiseConfig {
  using Args = QuantiseArgs;
  DType dtype = DType::bf16;  ///< of x
  Activation gate = Activation::none;
  bool row_indices = false;  ///< does a list name rows of x?
  bool transposed = false;
  bool tall = false;  ///< do scales serve blocks of 128 rows?
};

/// Runs the call on Runtime::instance().
inline void quantise(const QuantiseArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
