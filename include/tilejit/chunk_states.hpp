// States before each chunk, and values that change them: the fourth stage of the gated delta rule in chunks.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct ChunkStatesConfig;

/// For each sequence and head, from chunk to chunk of kChunkTokens tokens, with S the state before a chunk, V x K:
///   h = S;  v_new_i = u_i - S w_i;  S becomes e^g_last S + sum over i of e^(g_last - g_i) v_new_i k_i^T.
/// w and u are those of chunk_wu(). S is f32; products take it, and v_new times its weight, rounded to k's type.
///
/// Shapes, of T tokens: k [T, Hk, K], w [T, H, K], u [T, H, V], g_cu [T, H], h [C, H, V, K], v_new [R, H, V], states
/// [N, H, V, K]. With state_transposed matrices of h and of states are stored [K, V]. H is a multiple of Hk; head s
/// takes k's head s / (H / Hk). K = V, 64 or 128. With a leading B, of k, w, u and g_cu alone, these are B sequences of
/// T tokens. Without it they are one sequence, or with cu_seqlens [N + 1] on the device N of any lengths, as
/// chunk_cumsum() says.
///
/// Chunks are counted over all sequences, as chunk_indices() lists them. Chunk c has row c of h, and 64 rows of v_new
/// from 64 c on; rows behind its tokens are zeros. chunk_o() reads both. With values_by_tokens v_new is [T,
/// H, V], or [B, T, H, V], and token t has row t. Chunks for which h or v_new have no row are left out there; rows of
/// no chunk, and of no token, keep what they held. A sequence without tokens leaves its state as it is.
///
/// Types: k, w, u, h and v_new f16 or bf16, the same; g_cu f32, natural logarithms; states both f32, both bf16 or both
/// f16; lists i32. All are on one device; sizes are up to 2^30, T at most 2^28 - 64; T, B and sequences from 0. Last
/// dimensions are contiguous but for g_cu; other strides and addresses of k, w, u, h, v_new and states are multiples of
/// 16 bytes. Lists are contiguous. Memory that is written meets no other tensor's.
///
/// Family sm90 alone has kernels: other targets are refused by name. Bounds that are bad count as chunk_cumsum() says.
/// Chunks before a sequence are counted by bounds that are not moved, so rows of h and of v_new may then be left out,
/// and none is another chunk's. TJ_CHECK=1 refuses the call, and names the first bad entry. Equal calls give equal
/// bits. Errors are tj::Error, naming the argument. Thread safe.
struct ChunkStatesArgs {
  static constexpr const char* kOp = "chunk_states";
  using Config = ChunkStatesConfig;
  Tensor k, w, u, h;
  std::optional<Tensor> v_new;          ///< not written when absent
  std::optional<Tensor> g_cu;           ///< 0 when absent
  std::optional<Tensor> initial_state;  ///< zeros when absent
  std::optional<Tensor> final_state;    ///< not written when absent
  std::optional<Tensor> cu_seqlens;     ///< [N + 1]
  bool state_transposed = false;        ///< matrices of h and of states are stored [K, V] instead of [V, K]
  bool values_by_tokens = false;        ///< v_new has a row for each token, as u
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a kernel, without any memory: for prepare() and warm().
struct ChunkStatesConfig {
  using Args = ChunkStatesArgs;
  DType dtype = DType::bf16;       ///< of k
  DType state_dtype = DType::f32;  ///< of states; f32 for calls without any
  int head_dim = 128;              ///< K
  bool state_transposed = false;
};

/// Runs the call on Runtime::instance().
inline void chunk_states(const ChunkStatesArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
