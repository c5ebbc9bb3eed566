// The gated delta rule, token after token, and its neighbours without a gate or without the delta.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct GatedDeltaRuleConfig;

/// The meaning of a gate's numbers.
enum class GateForm : std::int32_t {
  log = 0,  ///< the natural logarithm of the decay
  exp = 1,  ///< the decay
  raw = 2,  ///< a: the decay's logarithm is -exp(a_log) * softplus(a + dt_bias)
};

/// The gated delta rule: each sequence's tokens change its states one after the other. Sums in f32.
///
/// For a token t and a head, S is V x K, the state before it:
///   S' = decay_t S;  d = beta_t (v_t - S' k_t);  S = S' + d k_t^T;  o_t = scale * S q_t.
/// Without a gate the decay is 1, which is the delta rule. Without beta it is 1. Without delta, d is beta_t v_t: gated
/// linear attention, and the state of Mamba-2. A gate may have a number for each key channel: column j of S' is
/// decay_t[j] times that of S. Kimi Delta Attention (KDA) has such a gate; without delta this is gated linear attention
/// (GLA).
///
/// Shapes, of T tokens: q [T, Hq, K], k [T, Hk, K], v [T, Hv, V], o [T, H, V]; gate [T, H] or
/// [T, H, K]; beta [T, H]; a_log [H]; dt_bias [H], or [H, K] with such a gate, one row behind the other. H is a
/// multiple of Hq, Hk and Hv; head s takes q's head s / (H / Hq), and k's and v's likewise. K = V, 64 or 128. With a
/// leading B these are B sequences of T tokens. Without it they are one sequence, or with cu_seqlens [N + 1] on the
/// device N of any lengths: sequence n has the tokens from cu_seqlens[n] to cu_seqlens[n + 1] - 1. A sequence without
/// tokens leaves its state as it is, but for e4m3 (below).
///
/// States are [slots, H, V, K], or [slots, H, K, V] with state_transposed. Sequence n begins with that of slot
/// read_slots[n] of initial_state, and leaves its last state at slot write_slots[n] of final_state. Without the list
/// the slot is n, and there are as many slots as sequences. A read of slot -1 gives zeros; a write there does nothing.
/// final_state may be initial_state itself: same address, shape and strides. A slot that one sequence writes is then
/// read by no other. token_states [N, L, H, V, K] takes L states of each sequence. Place l has the state after
/// token_every (l + 1) tokens, by default after l + 1. Places without such a token stay as they are. Checkpoints of a
/// prompt have token_every of a multiple of 64, which chunks serve.
///
/// States of e4m3 have a scale in f32 for each row of V: initial_scales and final_scales [slots, H, V], token_scales
/// [N, L, H, V]. The state is element times scale. A row that is written has the scale largest magnitude / 448. Each
/// element is then within 1/16 of its size, or 1/1024 of the scale. Largest magnitudes below 1e-30 count as that. A
/// state that a call only passes on is rounded again. States in place have scales in place. See src/ops/NUMERICS.md
/// for calls that follow.
///
/// Types: q, k, v, o are all f16 or all bf16. gate, beta and dt_bias are f32 or q's type, a_log is f32. States are all
/// f32, all bf16, all f16 or all e4m3; between a call's tokens they are f32. Lists are i32. All are on one device;
/// sizes are up to 2^30; T, B and sequences from 0. The last dimension is contiguous, but for gates [T, H] and beta.
/// Other strides and addresses of q, k, v, o, states and what has key channels are multiples of 16 bytes. Memory that
/// is written meets no other tensor's.
///
/// Lists never lead out of these tensors: bounds outside of 0 to T count as the nearest, an end before its beginning as
/// no tokens, a slot that there is not as -1. By bounds that fall, sequences may share tokens, whose o is that of
/// any. In chunks they share none: bounds are moved so that none falls (src/ops/delta_chunks/README.md). Slots that two
/// sequences write hold either's state, each element and scale from any. The CPU model may report either race.
/// TJ_CHECK=1 refuses the call, and names the first bad entry.
///
/// Few tokens a sequence are taken one after the other: reading and writing states bounds the time. On sm_90a many are
/// taken in chunks of 64, in two launches a range of chunks. The workspace is 18 KB for a chunk and head, and with
/// several ranges a state in f32 for each sequence and head. States and what tokens change are rounded to q's type for
/// products then, states once a chunk. Calls with token_states of another token_every are never taken so. With gates of
/// key channels the workspace is 66 KB for a chunk and head where K is 128, and 42 KB where it is 64. A token's decay
/// of a channel below 2^-26 counts as 2^-26 then. Any decay from 0 to 1 is right: nothing overflows. Equal calls give
/// equal bits. Errors are tj::Error, naming the argument. Thread safe.
struct GatedDeltaRuleArgs {
  static constexpr const char* kOp = "gated_delta_rule";
  using Config = GatedDeltaRuleConfig;
  Tensor q, k, v, o;
  std::optional<Tensor> gate;  ///< [.., T, H], or [.., T, H, K]
  GateForm gate_form = GateForm::log;
  std::optional<Tensor> a_log;    ///< [H], with a raw gate
  std::optional<Tensor> dt_bias;  ///< [H], with a raw gate, or [H, K]; 0 when absent
  std::optional<Tensor> beta;     ///< [.., T, H]
  bool beta_raw = false;          ///< beta is 1 / (1 + exp(-b)) of what is given
  bool delta = true;
  bool normalise = false;               ///< q and k are divided by sqrt(their sum of squares + 1e-6) first
  std::optional<Tensor> initial_state;  ///< zeros when absent
  std::optional<Tensor> final_state;    ///< not written when absent
  std::optional<Tensor> token_states;
  int token_every = 1;  ///< tokens from one of token_states to the next
  /// Above 0 and below 1: an approximate result of a long sequence in chunks, where that is faster. Segments of the
  /// sequence then begin from zeros, so many chunks ahead that decays leave at most this share of the state before
  /// them; from the caller's state where they never do. With keys of length 1 at most and beta from 0 to 1, the state
  /// before a token lacks at most so much of an earlier one. It needs a gate of [.., T, H]. Calls that are not cut into
  /// segments, as lists of several sequences, are exact. 0: all are.
  float negligible = 0;
  /// [slots, H, V] and [N, L, H, V], of the states above where these are e4m3.
  std::optional<Tensor> initial_scales, final_scales, token_scales;
  std::optional<Tensor> read_slots, write_slots;  ///< [N]
  std::optional<Tensor> cu_seqlens;               ///< [N + 1]
  bool state_transposed = false;                  ///< matrices of states are stored [K, V] instead of [V, K]
  std::optional<float> scale;                     ///< any finite value; K^-1/2 when absent
  /// Multiprocessors that the call's launches may fill, as GemmArgs::max_sms.
  int max_sms = 0;
};

/// The fields that choose a gated_delta_rule kernel, without any memory: for prepare() and warm(). They make the kernel
/// that takes tokens one by one, and on sm_90a those of chunks. `tj-warm --op gated_delta_rule` makes the first alone,
/// `--op delta_chunks` the others.
struct GatedDeltaRuleConfig {
  using Args = GatedDeltaRuleArgs;
  DType dtype = DType::bf16;       ///< of q
  DType state_dtype = DType::f32;  ///< of states; f32 for calls without any
  int head_dim = 128;              ///< K
  bool state_transposed = false;
  bool channel_gate = false;  ///< the gate is [.., T, H, K]
  bool checkpoints = false;   ///< calls have token_states of token_every 64, 128, ...: their chunks' kernels are others
  bool delta = true;          ///< as of the calls: chunks have other kernels without it
};

/// Runs the call on Runtime::instance().
inline void gated_delta_rule(const GatedDeltaRuleArgs& args, Stream stream = {}) {
  Runtime::instance().run(args, stream);
}

}  // namespace tj
