// Merging partial outputs of attention.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct MergeStatesConfig;

/// Merges the outputs of attention over parts of the keys into the output over all of them.
///
/// Example: two calls of fmha() over the keys of a shared prefix and over the other keys leave two outputs and two
/// log-sum-exps. State n weighs e^(lse_states[n] - the largest): o is the weighted mean, lse the logarithm of the sum
/// of all e^lse_states[n].
///
/// Shapes: states [N, ..., D], lse_states [N, ...], o [..., D], lse [...]; "..." is one to three dimensions, in the
/// same order in all of them: strides express [H, T] beside [T, H, D]. N is 1 to 2^30, the product of all rows from 0.
/// Types: states and o are f16, bf16 or f32 each, lse_states and lse f32. All are on one device. Memory: the last
/// dimension of states and o is contiguous. Rows at multiples of 4 elements take less time. Outputs overlap nothing.
///
/// A state whose lse is -inf has seen no key; its output may hold anything. A row of such states alone gives 0 and
/// -inf. A NaN in an lse, and infinity there, give NaN. States are added in their order, in f32: equal calls give equal
/// bits. Errors are tj::Error, naming the argument. Thread safe.
struct MergeStatesArgs {
  static constexpr const char* kOp = "merge_states";
  using Config = MergeStatesConfig;
  Tensor states, lse_states, o;
  std::optional<Tensor> lse;  ///< natural logarithm
  /// i32 [B + 1], on the device: rows of the last of "..." before its first number and from its last one on are neither
  /// read nor written, as those of no sequence in FmhaArgs. Legal numbers are 0 to those rows, none below the one
  /// before it; TJ_CHECK=1 refuses the call and names the first bad one.
  std::optional<Tensor> cu_seqlens;
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a kernel, without any memory: for prepare() and warm().
struct MergeStatesConfig {
  using Args = MergeStatesArgs;
  DType dtype = DType::f32;  ///< of states
  DType out = DType::f16;    ///< of o
};

/// Runs the call on Runtime::instance().
inline void merge_states(const MergeStatesArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
