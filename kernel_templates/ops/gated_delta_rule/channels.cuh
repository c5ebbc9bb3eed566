// Gates of key channels: a token's decays for the elements of K that a lane holds.
//
// Decides what they are made of, as token.cuh does for a gate of a head. Invariant: a lane reads the gates of its own
// elements alone.
#pragma once

#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/token.cuh"

namespace tj::ops::gated_delta_rule {

/// Neighbouring numbers of q's type or in f32.
template <class Tag, int N>
TJ_DEVICE void load_numbers(Tag tag, const unsigned char* from, bool half, float (&values)[N]) {
  if (half) {
    u32 words[N / 2];
    load_words(from, words);
#pragma unroll
    for (int w = 0; w < N / 2; ++w) dev::unpack(tag, words[w], values[2 * w], values[2 * w + 1]);
    return;
  }
#pragma unroll
  for (int n = 0; n < N; n += 4) {
    float four[4];
    dev::load_global(reinterpret_cast<const float*>(from) + n, four);
#pragma unroll
    for (int e = 0; e < 4; ++e) values[n + e] = four[e];
  }
}

/// The decays of N key channels from `first` on.
template <class C, int N>
TJ_DEVICE void channel_decays(const Params& params, const Position& at, int first, float (&decays)[N]) {
  const typename C::Element tag{};
  const bool half = has(params, kGateHalf), bias_half = has(params, kBiasHalf), raw = has(params, kGateRaw);
  load_numbers(tag, number_of_token(params.gate, at) + first * (half ? 2 : 4), half, decays);
  if (has(params, kGateExp)) return;
  float biases[N] = {}, a_log = 0;
  if (raw) a_log = dev::load_global(params.a_log + at.head);
  if (params.dt_bias != nullptr) {
    const long long number = static_cast<long long>(at.head) * C::kHeadDim + first;
    load_numbers(tag, static_cast<const unsigned char*>(params.dt_bias) + number * (bias_half ? 2 : 4), bias_half,
                 biases);
  }
#pragma unroll
  for (int n = 0; n < N; ++n) decays[n] = exponential(raw ? raw_gate(decays[n], a_log, biases[n]) : decays[n]);
}

}  // namespace tj::ops::gated_delta_rule
