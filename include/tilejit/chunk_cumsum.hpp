// Running sums of gates inside chunks: the first stage of the gated delta rule in chunks.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/gated_delta_rule.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct ChunkCumsumConfig;

/// g_cu[t, h] = sum of the decays' logarithms from the first token of t's chunk to t. A chunk is kChunkTokens tokens of
/// a sequence; the last one may be shorter. Sums in f32, natural logarithms.
///
/// The stages of the gated delta rule in chunks are chunk_cumsum(), chunk_solve(), chunk_wu(), chunk_states() and
/// chunk_o(). They give what gated_delta_rule() gives, with their results in memory.
///
/// Shapes: gate and g_cu [T, H]; a_log and dt_bias [H]. With a leading B these are B sequences of T tokens. Without it
/// they are one sequence, or with cu_seqlens [N + 1] on the device N of any lengths: sequence n has the tokens from
/// cu_seqlens[n] to cu_seqlens[n + 1] - 1. Tokens of no sequence keep what g_cu held. A decay of 0,
/// which is -infinity with GateForm::log, counts as 2^-150. Types: gate f32, f16 or bf16; dt_bias f32 or the gate's;
/// a_log and g_cu f32; lists i32. All are on one device; sizes are up to 2^30, T, B and sequences from 0. a_log,
/// dt_bias and lists are contiguous. g_cu meets no other tensor's memory.
///
/// Lists never lead out of these tensors: bounds outside of 0 to T count as the nearest. Bounds that fall are moved so
/// that none does (src/ops/delta_chunks/README.md), in all stages alike. TJ_CHECK=1 refuses the call, and names the
/// first bad entry. Equal calls give equal bits. Errors are tj::Error, naming the argument. Thread safe.
struct ChunkCumsumArgs {
  static constexpr const char* kOp = "chunk_cumsum";
  using Config = ChunkCumsumConfig;
  Tensor gate, g_cu;
  GateForm gate_form = GateForm::log;
  std::optional<Tensor> a_log;       ///< [H], with a raw gate
  std::optional<Tensor> dt_bias;     ///< [H], with a raw gate; 0 when absent
  std::optional<Tensor> cu_seqlens;  ///< [N + 1]
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a kernel, without any memory: for prepare() and warm().
struct ChunkCumsumConfig {
  using Args = ChunkCumsumArgs;
  DType dtype = DType::bf16;  ///< of gates in 16 bits; bf16 for those in f32
};

/// Runs the call on Runtime::instance().
inline void chunk_cumsum(const ChunkCumsumArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
