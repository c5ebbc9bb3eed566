// Gates of a chunk's tokens: running sums of what is left. Included by node bodies.
//
// Decides in which order gates are added: halves of a chunk, each by doubling distances. Invariant: a token behind a
// sequence's end has gate 0 and beta 0.
#pragma once

#include "ops/delta_chunks/chunks.cuh"

namespace tj::ops::delta_chunks {

using gated_delta_rule::has;

/// A number of a token in a list in shared memory.
TJ_DEVICE u32 token_number(u32 list, int token) { return list + static_cast<u32>(token) * 4u; }
/// Gates are sums of tokens, then beta. With gates of key channels the sums lie elsewhere, and beta is all.
template <class C>
TJ_DEVICE u32 beta_list(u32 gates) {
  return C::kChannelGate ? gates : token_number(gates, kChunk);
}
template <class C>
TJ_DEVICE float sum_of(u32 gates, int token) {
  return C::kChannelGate ? 0.0f : dev::load_shared<float>(token_number(gates, token));
}
/// The decay between two tokens' sums; of channels it is in the products already.
template <class C>
TJ_DEVICE float fade_between(float later, float earlier) {
  return C::kChannelGate ? 1.0f : dev::exp2_approx(later - earlier);
}
/// Numbers of a lane's tokens as they lie in memory, and of a head. All are asked for before the first one is used, as
/// memory answers after a thousand cycles.
struct Numbers {
  u32 gate[2], beta[2], bias;
  float a_log;
};
template <class C>
TJ_DEVICE Numbers load_numbers(const gated_delta_rule::Params& rule, const Place& place, int head) {
  const int lane = static_cast<int>(dev::lane_index());
  const auto position = [&](int half) {  // of no token: the last one's
    return gated_delta_rule::Position{place.batch, place.token + min(lane + 32 * half, place.rows - 1), head};
  };
  const gated_delta_rule::Position at[2] = {position(0), position(1)};
  Numbers numbers = {};
  if (!C::kChannelGate && rule.gate.data != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      numbers.gate[half] = gated_delta_rule::load_number(gated_delta_rule::number_of_token(rule.gate, at[half]),
                                                         has(rule, gated_delta_rule::kGateHalf));
  }
  if (rule.beta.data != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      numbers.beta[half] = gated_delta_rule::load_number(gated_delta_rule::number_of_token(rule.beta, at[half]),
                                                         has(rule, gated_delta_rule::kBetaHalf));
  }
  if (!C::kChannelGate && rule.gate.data != nullptr && has(rule, gated_delta_rule::kGateRaw)) {
    numbers.a_log = dev::load_global(rule.a_log + at[0].head);
    if (rule.dt_bias != nullptr) numbers.bias = gated_delta_rule::load_bias(rule, at[0].head);
  }
  return numbers;
}

/// The logarithm of a token's decay, to the base 2. A decay of 0 is one that nothing is left of in f32.
template <class C>
TJ_DEVICE float log_decay(const gated_delta_rule::Params& rule, const Numbers& numbers, u32 number) {
  constexpr float kNothing = -150.0f;
  const typename C::Element tag{};
  if (rule.gate.data == nullptr) return 0.0f;
  float gate = gated_delta_rule::value_of(tag, number, has(rule, gated_delta_rule::kGateHalf));
  if (has(rule, gated_delta_rule::kGateExp))
    gate = dev::log2_approx(gate);
  else if (has(rule, gated_delta_rule::kGateRaw))
    gate = gated_delta_rule::raw_gate(gate, numbers.a_log, gated_delta_rule::bias_of(tag, rule, numbers.bias)) *
           gated_delta_rule::kLog2E;
  else
    gate *= gated_delta_rule::kLog2E;
  return gate < kNothing ? kNothing : gate;
}

/// G in powers of two, then beta, of all tokens of a chunk: a warp does it, a lane two tokens.
template <class C>
TJ_DEVICE void sum_gates(const gated_delta_rule::Params& rule, const Numbers& numbers, const Place& place, u32 gates) {
  const typename C::Element tag{};
  const int lane = static_cast<int>(dev::lane_index());
  float sums[2], beta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool inside = lane + 32 * half < place.rows;
    const float decay = C::kChannelGate ? 0.0f : log_decay<C>(rule, numbers, numbers.gate[half]),
                strength = gated_delta_rule::beta_value(
                    rule, gated_delta_rule::value_of(tag, numbers.beta[half], has(rule, gated_delta_rule::kBetaHalf)));
    sums[half] = inside ? decay : 0.0f;
    beta[half] = inside ? strength : 0.0f;
  }
  if constexpr (!C::kChannelGate) chunks::add_up(sums, lane, 0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (!C::kChannelGate) dev::store_shared(token_number(gates, lane + 32 * half), sums[half]);
    dev::store_shared(token_number(beta_list<C>(gates), lane + 32 * half), beta[half]);
  }
}

}  // namespace tj::ops::delta_chunks
