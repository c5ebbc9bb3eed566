// Output of the gated delta rule, chunk by chunk.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/chunk_indices.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct ChunkOConfig;

/// Output of the gated delta rule, chunk by chunk: the last step of its forward pass. Sums in f32.
///
/// A chunk is kChunkTokens tokens of a sequence; the last one may be shorter. Each chunk and value head has
///   o_i = scale * (e^g_i h q_i + sum over j <= i of bf16((q_i k_j) e^(g_i - g_j)) v_j)
/// Here h is the state before the chunk, as V x K. Shapes, of T tokens of all sequences together:
///   q, k [T, H, 128]; o [T, Hv, 128]; g_cu [T, Hv]; v_new [R, Hv, 128]; h [C, Hv, 128, 128].
/// Hv is a multiple of H; value head s belongs to key head s / (Hv / H). Chunk c, counted over all sequences, has row c
/// of h and the rows of v_new from 64 c on; rows of v_new behind a chunk's tokens may hold anything. Tensors are bf16,
/// but g_cu is f32 (natural logarithms, summed up inside each chunk) and the three lists are i32. All are on one
/// device; sizes are up to 2^30, T, B and sequences from 0. The last dimension is contiguous; the other strides and the
/// addresses of q, k, v_new, h and o are multiples of 16 bytes. o's memory meets no other tensor's.
///
/// Sequences of any lengths: cu_seqlens, chunk_indices and total_chunks as chunk_indices() makes them, each contiguous
/// (rows of chunk_indices with gaps, which chunk_indices() can write, are refused). They are read on the device:
/// nothing waits for the host. Chunks that total_chunks counts beyond the rows of chunk_indices, C or R / 64 are left
/// out. Without these three lists, all sequences have seq_length tokens, and T is a multiple of it.
///
/// Legal values: those of cu_seqlens are 0 to T, none below the one before it; total_chunks is 0 or more. Each row that
/// is counted names a sequence from 0 to N - 1 and a chunk that it has, no chunk twice. With other values in the lists,
/// still no memory but these tensors' is read or written. A row is ignored, and writes nothing of o, in three
/// cases. There is no such sequence; the sequence begins below 0 or from T on; it has no such chunk. An end
/// behind T counts as T, a total_chunks below 0 as 0. A token that several rows cover gets the result of one of them,
/// each element from any. TJ_CHECK=1 refuses the call, and names the first bad entry.
struct ChunkOArgs {
  static constexpr const char* kOp = "chunk_o";
  using Config = ChunkOConfig;
  Tensor q, k, v_new, h, o;
  std::optional<Tensor> g_cu;           ///< 0 everywhere when absent
  std::optional<Tensor> cu_seqlens;     ///< [N + 1]
  std::optional<Tensor> chunk_indices;  ///< [n, 2]
  std::optional<Tensor> total_chunks;   ///< [1]
  std::int64_t seq_length = 0;          ///< tokens of each sequence, when the three lists are absent; else 0
  std::optional<float> scale;           ///< any finite value; 128^-1/2 when absent
  bool h_transposed = false;            ///< h's matrices are stored [K, V] instead of [V, K]
  /// Multiprocessors that the call's launches may fill: their blocks are at most those that fit on so many at once. 0,
  /// or as many as the device has: all.
  int max_sms = 0;
  /// Slots of each ring that copies fill: so many chunks are in shared memory at once. 0: as many as fit. Two fit with
  /// one value head an item in 164 KB and more; one with more heads, in 99 KB, on AMD. What does not fit is refused.
  int num_stages = 0;
  /// L2 lets go of the lines of h and v_new first, as one block alone reads them. Refused where threads copy: on sm_80,
  /// sm_86, sm_89 and AMD.
  bool evict_first = false;
};

/// The fields that choose a chunk_o kernel, without any memory: for prepare() and warm().
struct ChunkOConfig {
  using Args = ChunkOArgs;
  int v_heads_per_head = 2;     ///< Hv / H
  bool gated = true;            ///< g_cu is given
  bool variable_length = true;  ///< the three lists are given
  bool h_transposed = false;    ///< as ChunkOArgs::h_transposed
  int num_stages = 0;           ///< as ChunkOArgs::num_stages
  bool evict_first = false;     ///< as ChunkOArgs::evict_first
};

/// Runs the call on Runtime::instance().
inline void chunk_o(const ChunkOArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
