// Products of each chunk's solved matrix with keys and values: the third stage of the gated delta rule in chunks.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct ChunkWuConfig;

/// For each chunk of kChunkTokens tokens and each head, with A as chunk_solve() gives it:
///   w_i = sum over j <= i of A_ij beta_j e^g_j k_j;   u_i = sum over j <= i of A_ij beta_j v_j.
/// Sums in f32, rounded once. A key or a value that is NaN or infinite may reach all rows of its chunk. On sm_90a with
/// f16 each A_ij beta_j e^g_j and A_ij beta_j counts in steps of 2^-24 below 2^-13, and overflows from 65520 on; other
/// archs have them in f32.
///
/// Shapes, of T tokens: k [T, Hk, K], v [T, Hv, V], a [T, H, 64], beta and g_cu [T, H], w [T, H, K], u [T, H, V]. H is
/// a multiple of Hk and Hv; head s takes k's head s / (H / Hk), and v's likewise. K = V, 64 or 128. Elements of a above
/// the diagonal are not looked at. With a leading B these are B sequences of T tokens. Without it they are one
/// sequence, or with cu_seqlens [N + 1] on the device N of any lengths, as chunk_cumsum() says. Tokens of no sequence
/// keep what w and u held. Types: k, v, a, w and u f16 or bf16, the same; beta f32 or k's type; g_cu f32, natural
/// logarithms; lists i32. All are on one device; sizes are up to 2^30, T at most 2^28 - 64; T, B and sequences from 0.
/// Last dimensions of k, v, a, w and u are contiguous; their other strides and addresses are multiples of 16 bytes.
/// Lists are contiguous. w and u meet no other tensor's memory.
///
/// Bounds that are bad count as chunk_cumsum() says. TJ_CHECK=1 refuses the call, and names the first bad entry. Equal
/// calls give equal bits. Errors are tj::Error, naming the argument. Thread safe.
struct ChunkWuArgs {
  static constexpr const char* kOp = "chunk_wu";
  using Config = ChunkWuConfig;
  Tensor k, v, a, w, u;
  std::optional<Tensor> beta;        ///< 1 when absent
  std::optional<Tensor> g_cu;        ///< 0 when absent
  std::optional<Tensor> cu_seqlens;  ///< [N + 1]
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a kernel, without any memory: for prepare() and warm().
struct ChunkWuConfig {
  using Args = ChunkWuArgs;
  DType dtype = DType::bf16;  ///< of k
  int head_dim = 128;         ///< K
};

/// Runs the call on Runtime::instance().
inline void chunk_wu(const ChunkWuArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
