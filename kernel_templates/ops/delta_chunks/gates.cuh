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
/// The logarithm of a token's decay, to the base 2. A decay of 0 is one that nothing is left of in f32.
template <class C>
TJ_DEVICE float log_decay(const gated_delta_rule::Params& rule, const gated_delta_rule::Position& at) {
  constexpr float kNothing = -150.0f;
  const typename C::Element tag{};
  if (rule.gate.data == nullptr) return 0.0f;
  const bool half = has(rule, gated_delta_rule::kGateHalf);
  float gate = gated_delta_rule::value_of(
      tag, gated_delta_rule::load_number(gated_delta_rule::number_of_token(rule.gate, at), half), half);
  if (has(rule, gated_delta_rule::kGateExp))
    gate = dev::log2_approx(gate);
  else if (has(rule, gated_delta_rule::kGateRaw))
    gate = gated_delta_rule::raw_gate<typename C::Element>(rule, at.head, gate) * gated_delta_rule::kLog2E;
  else
    gate *= gated_delta_rule::kLog2E;
  return gate < kNothing ? kNothing : gate;
}

/// G in powers of two, then beta, of all tokens of a chunk: a warp does it, a lane two tokens.
template <class C>
TJ_DEVICE void sum_gates(const gated_delta_rule::Params& rule, const Place& place, int head, u32 gates) {
  const int lane = static_cast<int>(dev::lane_index());
  float sums[2], beta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = lane + 32 * half;
    const gated_delta_rule::Position at{place.batch, place.token + token, head};
    sums[half] = beta[half] = 0.0f;
    if (token < place.rows) {
      sums[half] = log_decay<C>(rule, at);
      beta[half] = gated_delta_rule::beta_of<typename C::Element>(rule, at);
    }
  }
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = dev::shuffle_from(sums[half], lane < apart ? lane : lane - apart);
      sums[half] += lane < apart ? 0.0f : before;
    }
  }
  sums[1] += dev::shuffle_from(sums[0], 31);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    dev::store_shared(token_number(gates, lane + 32 * half), sums[half]);
    dev::store_shared(token_number(gates, kChunk + lane + 32 * half), beta[half]);
  }
}

}  // namespace tj::ops::delta_chunks
