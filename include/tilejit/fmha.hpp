// Attention forward.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/device_text.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct FmhaConfig;

/// Keys before and behind its place that a query sees. -1: all.
struct FmhaWindow {
  static constexpr std::int64_t kAll = -1;
  std::int64_t left = kAll, right = kAll;
};

/// Attention forward, o = softmax(scale * q k^T [masked]) v, accumulated in f32.
///
/// Shapes (logical order is always [B, H, S, D]; [B, S, H, D] memory is expressed through strides):
///   q [B, H, Sq, D]; k [B, Hkv, Sk, D]; v [B, Hkv, Sk, Dv]; o [B, H, Sq, Dv]; lse f32 [B, H, Sq]; D and Dv are
///   multiples of 8 up to 256; H is a multiple of Hkv; B, Sq, Sk are 0 to 2^30, others from 1. A GPU whose registers or
///   shared memory do not hold a tile of such rows refuses the call and says so: src/ops/fmha/README.md has which.
/// q, k, v and o share one dtype, f16 or bf16, and one device; o may be f32 instead.
/// The last dimension is contiguous; the other strides and the base addresses of q, k and v are multiples of 16 bytes,
/// on the model as on GPUs. max_sms leaves multiprocessors to other work, such as communication. Blocks draw their
/// tiles from a counter, which takes workspace, in calls with max_sms on AMD, and in causal ones on sm_90a with many
/// tiles or max_sms. Masks: query r stands at key r + Sk - Sq, so that the last of both meet (bottom-right aligned).
/// With top_left, it stands at key r. causal: it sees no key behind its place. window: it sees at most window.left keys
/// before its place and window.right behind it. A row with no key gives o = 0 and lse = -inf, with sinks the sink.
/// Sequences of different lengths: with cu_seqlens_q, an i32 list on the device, rows of all sequences lie one behind
/// the other. q and o are [T, H, D], lse is [H, T]. Sequence n has rows cu_seqlens_q[n] to cu_seqlens_q[n + 1], none
/// where they are equal. k and v are [Tk, Hkv, D], by cu_seqlens_k. seqused_k counts the keys of each that are there.
/// Masks are each sequence's own. Rows of no sequence are neither read nor written. Lists are read when the kernel
/// runs: a recorded launch serves other lengths, as long as T and the number of sequences stay. There is no longest
/// length to tell. A number outside of what it may be counts as the nearest that may be, and a sequence that ends
/// before it begins is empty. Where cu_seqlens_q falls, sequences may share rows: o and lse then have either's.
/// The CPU model may report that race. TJ_CHECK=1 refuses a call with any such entry. Pages: with block_table, k and v
/// are [pages, page size, Hkv, D]. Key j of sequence n is row j % page size of page block_table[n][j / page size].
/// Lengths are seqused_k, or else those of cu_seqlens_k. Scores: x = scale * q k^T; softcap c makes it c tanh(x / c).
/// Then alibi_slopes adds -slope |place of r - j|, and the mask hides. sinks has a logit for each head, which joins the
/// sum of a row's exponentials and has no value.
///
/// Scores of one's own, in this order behind softcap and slopes: x + bias; then score_mod, a text of device code, gives
/// the score; then mask_mod, another one, says whether the query sees the key. src/ops/fmha/README.md has what texts
/// may use. score_mod is the body of float f(score, b, h, q, k, params), mask_mod of bool f(b, h, q, k, params): b is
/// the batch or the sequence's number, h the query's head, k the key in its sequence, q the place of the query among
/// the keys, which is r + Sk - Sq, with top_left r. Both may be asked for pairs that other masks hide. params.i32(n)
/// and params.f32(n) are numbers of mod_params; a place outside of it counts as the last. key_range bounds the keys
/// that queries see, so that blocks of others are never loaded: the body of void f(b, h, q0, q1, params, k0, k1, all0,
/// all1) for queries [q0, q1). It may set k0 and k1, which are 0 and Sk before: no query sees a key outside of [k0,
/// k1), as mask_mod or score_mod says, too. It may set all0 and all1: mask_mod hides none of [all0, all1) from any of
/// them, and is not asked there. A text that does not compile is an Error(compile), which names the text and its line.
///
/// Ladder (ladder.hpp): rungs 1 basic, 2 exp2, 3 transposed_k, 4 latency, 5 occupancy and 6 division. They run on
/// architectures whose products are a warp's or a wave's (sm_80, sm_120a, gfx1100, ...), with tiles of 64 queries.
/// Example: samples/04_fmha_ladder.
struct FmhaArgs {
  static constexpr const char* kOp = "fmha";
  using Config = FmhaConfig;
  Tensor q, k, v, o;
  std::optional<Tensor> lse;   ///< natural-log sum of exponentials of the scaled scores
  std::optional<float> scale;  ///< any finite value; D^-1/2 when absent. src/ops/NUMERICS.md has the bound of scores
  bool causal = false;
  /// Multiprocessors that the call's launches may fill: their blocks are at most those that fit on so many at once. 0,
  /// or as many as the device has: all.
  int max_sms = 0;
  FmhaWindow window;
  bool top_left = false;               ///< which place a query has in causal masks, windows and ALiBi
  float softcap = 0;                   ///< at least 0, finite; 0: off
  std::optional<Tensor> alibi_slopes;  ///< f32 [H] or [B, H], finite
  std::optional<Tensor> sinks;         ///< f32 [H]; -infinity: none for the head
  // Lists of B sequences, i32, contiguous, on q's device.
  std::optional<Tensor> cu_seqlens_q, cu_seqlens_k;  ///< [B + 1]: where each begins; rising, the first at least 0
  std::optional<Tensor> seqused_k;                   ///< [B]
  std::optional<Tensor> block_table;                 ///< [B, pages of a sequence], its rows may have a stride
  DeviceText score_mod, mask_mod, key_range;         ///< up to 2048 characters each
  std::optional<Tensor> mod_params;                  ///< i32 or f32 [N], what texts read
  /// f32 or q's type, [B or 1, H or 1, Sq or 1, Sk or 1] with any strides; -infinity hides a key. With cu_seqlens_q, B
  /// counts sequences, and rows and keys behind the last that it has count as the last.
  std::optional<Tensor> bias;
};

/// The type of a bias, as a configuration says it: of none, f32, that of q.
enum class FmhaBias : std::uint8_t { none, f32, same };

/// The fields that choose an attention kernel, without any memory: for prepare() and warm(). A call whose sizes were
/// measured (tune.hpp) may take another kernel: prepare it by its arguments.
struct FmhaConfig {
  using Args = FmhaArgs;
  DType dtype = DType::f16;
  int head_dim = 128;  ///< of queries and keys
  bool causal = false;
  /// False: the scale of calls is 1e-6 to 1, as the default D^-1/2 is; the faster kernel. True: any finite scale.
  /// It asks for the same of calls with a softcap: false where that is 1e-6 to 1024, whatever the scale.
  bool general_scale = false;
  bool windowed = false;  ///< calls with window.left of 0 or more, or window.right of 1 or more without causal
  bool softcap = false;   ///< calls whose softcap is not 0
  bool alibi = false, sinks = false;  ///< calls with alibi_slopes, with sinks
  int value_dim = 0;                  ///< of values and o; 0: head_dim
  bool varlen = false;                ///< calls with cu_seqlens_q
  /// Calls with block_table: the size of their pages. Sizes with the same largest power of two in them, up to 64, have
  /// one kernel. 0: calls without.
  int page_size = 0;
  bool out_f32 = false;  ///< calls whose o is f32
  /// Only kernels of calls with few queries of each sequence, such as decode, which take them by their sizes. Without
  /// it, a configuration has these kernels and all others.
  bool packed = false;
  DeviceText score_mod = {}, mask_mod = {}, key_range = {};  ///< calls with these texts
  FmhaBias bias = FmhaBias::none;                            ///< calls with a bias
};

/// Runs the call on Runtime::instance().
inline void fmha(const FmhaArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
