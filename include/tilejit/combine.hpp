// Weighted sums of rows that a list names: how the rows of a layer's experts come back to their tokens.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct CombineConfig;

/// Combines rows: d[t, :] = sum over j of weights[t, j] * y[slots[t, j], :], plus residual[t, :] where there is one.
///
/// Shapes: y [S, H]; slots and weights [T, J]; residual and d [T, H]. T * ceil(H / 256) is at most 2^30. Types: y and d
/// are f16, bf16 or f32, each as it likes; the residual has d's; slots are i32, weights f32, without them all are 1.
/// All are on one device; the device reads the slots when the call runs. Memory: the last dimension of each is
/// contiguous. Rows of y, d and the residual at multiples of 16 bytes take less time. d overlaps nothing else.
///
/// A slot of -1 is skipped, and so is its weight, whatever it is. Any other slot outside of y counts as -1; TJ_CHECK=1
/// refuses the call and names the first. Rows of y that no slot names are not read. Sums are f32, in the order of j,
/// and the residual comes last. Equal calls give equal bits. Errors are tj::Error, naming the argument. Thread safe.
struct CombineArgs {
  static constexpr const char* kOp = "combine";
  using Config = CombineConfig;
  Tensor y, d, slots;
  std::optional<Tensor> weights, residual;
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a kernel, without any memory: for prepare() and warm().
struct CombineConfig {
  using Args = CombineArgs;
  DType dtype = DType::bf16;  ///< of y
  DType out = DType::bf16;    ///< of d
};

/// Runs the call on Runtime::instance().
inline void combine(const CombineArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
