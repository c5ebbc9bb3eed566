// The solved matrix of each chunk: the second stage of the gated delta rule in chunks.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct ChunkSolveConfig;

/// For each chunk of kChunkTokens tokens and each head, A = (I + M)^-1 with
///   M_ij = beta_i (k_i k_j) e^(g_i - g_j) for j < i, else 0.
/// Token i of a chunk has row i of A: a[t, h, j] is A_ij for the chunk of t, and 0 for j > i. Products of tokens are
/// summed in f32; the inverse is taken in f32, and rounded once.
///
/// Shapes, of T tokens: k [T, Hk, K], beta and g_cu [T, H], a [T, H, 64]. H is a multiple of Hk; head s takes k's head
/// s / (H / Hk). K is 64 or 128. With a leading B these are B sequences of T tokens. Without it they are one sequence,
/// or with cu_seqlens [N + 1] on the device N of any lengths, as chunk_cumsum() says. Tokens of no sequence keep what a
/// held. Types: k and a f16 or bf16, the same; beta f32 or k's type; g_cu f32, natural logarithms; lists i32. All are
/// on one device; sizes are up to 2^30, T at most 2^28 - 64; T, B and sequences from 0. Dimensions of K and of 64 are
/// contiguous; other strides and addresses of k and a are multiples of 16 bytes. Lists are contiguous. a meets no other
/// tensor's memory.
///
/// Family sm90 alone has kernels: other targets are refused by name. Bounds that are bad count as chunk_cumsum() says.
/// TJ_CHECK=1 refuses the call, and names the first bad entry. Equal calls give equal bits. Errors are tj::Error,
/// naming the argument. Thread safe.
struct ChunkSolveArgs {
  static constexpr const char* kOp = "chunk_solve";
  using Config = ChunkSolveConfig;
  Tensor k, a;
  std::optional<Tensor> beta;        ///< 1 when absent
  std::optional<Tensor> g_cu;        ///< 0 when absent
  std::optional<Tensor> cu_seqlens;  ///< [N + 1]
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a kernel, without any memory: for prepare() and warm().
struct ChunkSolveConfig {
  using Args = ChunkSolveArgs;
  DType dtype = DType::bf16;  ///< of k
  int head_dim = 128;         ///< K
};

/// Runs the call on Runtime::instance().
inline void chunk_solve(const ChunkSolveArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
