// What a user can ask for: one descriptor per op.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/tensor.hpp>

namespace tj {

/// Attention forward, o = softmax(scale * q k^T [masked]) v, accumulated in f32.
///
/// Shapes (logical order is always [B, H, S, D]; [B, S, H, D] memory is expressed through strides):
///   q, o [B, H, Sq, D]; k, v [B, Hkv, Sk, D]; lse f32 [B, H, Sq]; D is 64 or 128; H is a multiple of Hkv; sizes are 1
///   to 2^30.
/// q, k, v and o share one dtype, f16 or bf16, and one device. The last dimension is contiguous; the other
/// strides and the base addresses of q, k and v are multiples of 16 bytes, on the model as on GPUs.
/// causal: query r sees keys j <= r + Sk - Sq (bottom-right aligned); a row with no key gives o = 0 and lse = -inf.
struct FmhaArgs {
  Tensor q, k, v, o;
  std::optional<Tensor> lse;   ///< natural-log sum of exponentials of the scaled scores
  std::optional<float> scale;  ///< any finite value; D^-1/2 when absent
  bool causal = false;
};

/// What decides which fmha kernel is needed, without any memory: for prepare() and tj-warm.
struct FmhaConfig {
  DType dtype = DType::f16;
  int head_dim = 128;
  bool causal = false;
  /// False: 1e-6 <= scale <= 1, the fast form. True: any finite scale.
  bool general_scale = false;
};

/// gemm applies an activation to a result before it is rounded: relu is max(x, 0), gelu is x times the normal
/// distribution function of x (through the error function), silu is x / (1 + exp(-x)).
enum class Activation : std::int32_t { none = 0, relu = 1, gelu = 2, silu = 3 };

/// Matrix product, d = activation(alpha * a b^T + beta * c + bias), accumulated in f32.
///
/// Shapes: a [M, K], b [N, K], c and d [M, N], bias [N]; sizes are 1 to 2^30. With a batch, d is [B, M, N], and each of
/// the others has a leading B too or, one rank lower, serves the whole batch. a and b share a dtype, f16, bf16 or e4m3;
/// d is f16, bf16 or f32, and c and bias are as d. All are on one device. One of the last two dimensions of a, and of
/// b, is contiguous: K, or M (N) for a matrix that is stored transposed. Where its other strides or its address are not
/// multiples of 16 bytes it is copied first, to memory from a pool of the library's own that keeps at most 128 MB
/// between calls (inside a graph capture to memory of the graph). The last dimension of c, d and bias is contiguous. d
/// may be c (same address and strides); else its memory meets no other tensor's. Where M and N give few tiles and K is
/// long, sums over parts of K are stored to memory of the same pool (at most 70 MB) and added by a second launch, in
/// their order: equal calls on one kind of device give equal bits.
///
/// e4m3: K is contiguous in a and in b (the matrix unit takes no other order of 8-bit elements), and the product may be
/// scaled: d = activation(alpha * scale_a * scale_b * a b^T + beta * c + bias). A scale is one f32 in the device's
/// memory, which the kernel reads: nothing waits for it on the host. The matrix unit sums 128 products with 14 bits;
/// such sums are added in f32. Against exact products, an f32 d has a relative error of about 1.3e-4 for normal data,
/// 5e-4 where all products are positive, whatever K is.
struct GemmArgs {
  Tensor a, b, d;
  std::optional<Tensor> c;  ///< needed when beta is not 0; else neither read nor looked at
  std::optional<Tensor> bias;
  float alpha = 1, beta = 0;  ///< finite; alpha 0: neither a nor b is read
  Activation activation = Activation::none;
  std::optional<Tensor> scale_a, scale_b;  ///< f32 [1] or of rank 0; with e4m3 only; 1 when absent
};

/// Sizes, types and flags decide which gemm kernels are needed, without any memory: for prepare() and warm(). Sizes
/// decide the tile, and whether K is cut.
struct GemmConfig {
  std::int64_t m = 4096, n = 4096, k = 4096, batch = 1;
  DType dtype = DType::f16;          ///< of a and b; e4m3: K is contiguous in both
  DType out = DType::f16;            ///< of c, d and bias
  bool a_transposed = false;         ///< M is contiguous in a instead of K
  bool b_transposed = false;         ///< N is contiguous in b instead of K
  bool bias = false, add_c = false;  ///< add_c: beta is not 0
  Activation activation = Activation::none;
};

/// Tokens of a chunk in every op over chunks.
inline constexpr int kChunkTokens = 64;

/// The list of all chunks of N sequences that follow each other: what ops over chunks walk along. Made on the device:
/// nothing waits for the host, and the call may stand in a graph capture.
///
/// Sequence s is tokens cu_seqlens[s] to cu_seqlens[s + 1] - 1, and has one chunk for each kChunkTokens tokens begun;
/// none when its end is not behind its beginning. Chunks are listed in the order of their tokens, a row each: the
/// sequence, and which chunk of it (from 0). There are never more than T / kChunkTokens + N of T tokens. total_chunks
/// is how many there are, whether or not chunk_indices has room for them: rows from C on are then left out, nothing is
/// written behind. Rows behind the last chunk keep what they held. N may be 0. All are i32 on one device; cu_seqlens is
/// contiguous, rows of chunk_indices begin at multiples of 8 bytes. Legal values of cu_seqlens are 0 to T, none below
/// the one before it. Whatever else it holds, no memory but these tensors' is read or written; chunks are listed as the
/// numbers say, and total_chunks is right below 2^32 of them (as bits, without a sign).
struct ChunkIndicesArgs {
  Tensor cu_seqlens;     ///< [N + 1], N of 0 to 2^30 - 1
  Tensor chunk_indices;  ///< [C, 2], written
  Tensor total_chunks;   ///< [1], written
};

/// Output of the gated delta rule, chunk by chunk: the last step of its forward pass. Sums in f32.
///
/// For each chunk of kChunkTokens tokens (the last of a sequence may be shorter) and each value head,
///   o_i = scale * (e^g_i h q_i + sum over j <= i of bf16((q_i k_j) e^(g_i - g_j)) v_j)
/// with h the state before the chunk, as V x K. Shapes, of T tokens of all sequences together:
///   q, k [T, H, 128]; o [T, Hv, 128]; g_cu [T, Hv]; v_new [R, Hv, 128]; h [C, Hv, 128, 128].
/// Hv is a multiple of H; value head s belongs to key head s / (Hv / H). Chunk c of all is row c of h and rows 64 c on
/// of v_new; rows of v_new behind a chunk's tokens may hold anything. Tensors are bf16, but g_cu f32 (natural
/// logarithm, summed up inside each chunk) and the three lists i32. All are on one device; sizes are 1 to 2^30. The
/// last dimension is contiguous; the other strides and the addresses of q, k, v_new, h and o are multiples of 16 bytes.
/// o's memory meets no other tensor's.
///
/// Sequences of any lengths: cu_seqlens, chunk_indices and total_chunks as chunk_indices() makes them, each contiguous
/// (rows of chunk_indices with gaps, which chunk_indices() can write, are refused). They are read on the device:
/// nothing waits for the host. What total_chunks counts beyond the rows of chunk_indices, C or R / 64 is left out.
/// Without these three, all sequences have seq_length tokens, and T is a multiple of it. Legal values: cu_seqlens from
/// 0 to T, none below the one before it; in each row that is counted a sequence from 0 to N - 1 and a chunk that it
/// has, no chunk twice. Whatever the lists hold instead, no memory but these tensors' is read or written. A row is
/// ignored, and nothing of o is written for it, when there is no such sequence, the sequence begins below 0 or at T or
/// behind, or it has no such chunk. An end behind T counts as T, a total_chunks below 0 as 0. A token that several rows
/// cover gets the result of one of them, each element from any.
struct ChunkOArgs {
  Tensor q, k, v_new, h, o;
  std::optional<Tensor> g_cu;           ///< 0 everywhere when absent
  std::optional<Tensor> cu_seqlens;     ///< [N + 1]
  std::optional<Tensor> chunk_indices;  ///< [n, 2]
  std::optional<Tensor> total_chunks;   ///< [1]
  std::int64_t seq_length = 0;          ///< looked at without the three above; else 0
  std::optional<float> scale;           ///< any finite value; 128^-1/2 when absent
  bool h_transposed = false;            ///< h's matrices are stored [K, V] instead of [V, K]
};

/// What decides which chunk_o kernel is needed, without any memory: for prepare() and warm().
struct ChunkOConfig {
  int v_heads_per_head = 2;     ///< Hv / H
  bool gated = true;            ///< g_cu is given
  bool variable_length = true;  ///< the three lists are given
  bool h_transposed = false;    ///< as ChunkOArgs::h_transposed
};

/// One kernel serves all chunk_indices calls: for prepare() and warm().
struct ChunkIndicesConfig {};

}  // namespace tj
