// A token of the gated delta rule: its numbers as they lie in memory, and what a lane needs of them.
//
// Decides what gates and beta are made of. Invariant: q and k stay packed; what normalises them is a factor of the
// products with them.
#pragma once

#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/state.cuh"

namespace tj::ops::gated_delta_rule {

inline constexpr float kLog2E = 1.44269504088896f, kLn2 = 0.693147180559945f;

/// A number of q's type or in f32, as it lies in memory.
struct Number {
  float wide = 0;
  u32 half = 0;
};
TJ_DEVICE Number load_number(const void* from, long long at, int half) {
  Number number;
  if (half != 0)
    number.half = dev::load_global_u16(static_cast<const unsigned short*>(from) + at);
  else
    number.wide = dev::load_global(static_cast<const float*>(from) + at);
  return number;
}
template <class Tag>
TJ_DEVICE float value_of(Tag tag, const Number& number, int half) {
  float low, high;
  dev::unpack(tag, number.half, low, high);
  return half != 0 ? low : number.wide;
}

/// So many neighbouring elements of 2 bytes.
TJ_DEVICE void load_words(const unsigned short* from, u32 (&words)[2]) { dev::load_global(from, words); }
TJ_DEVICE void load_words(const unsigned short* from, u32 (&words)[4]) { dev::load_global(from, words); }
TJ_DEVICE void load_words(const unsigned short* from, u32 (&words)[8]) {
  u32 low[4], high[4];
  dev::load_global(from, low);
  dev::load_global(from + 8, high);
#pragma unroll
  for (int w = 0; w < 4; ++w) words[w] = low[w], words[w + 4] = high[w];
}

/// A token that is on its way: this lane's part of q and k, its rows of v, the head's gate and beta.
template <class C>
struct Token {
  using L = Layout<C>;
  u32 q[L::kRuns][L::kRun / 2], k[L::kRuns][L::kRun / 2], v[L::kRows / 2];
  Number gate, beta;

  TJ_DEVICE void load(const Params& params, const Place<C>& place, int batch, int token) {
    if (params.gate.data != nullptr) gate = number(params.gate, place.head, batch, token);
    if (params.beta.data != nullptr) beta = number(params.beta, place.head, batch, token);
    const unsigned short* const q_row = row(params.q, divided(place.head, params.by_q), batch, token);
    const unsigned short* const k_row = row(params.k, divided(place.head, params.by_k), batch, token);
#pragma unroll
    for (int r = 0; r < L::kRuns; ++r) {
      load_words(q_row + place.run(r), q[r]);
      load_words(k_row + place.run(r), k[r]);
    }
    load_words(row(params.v, divided(place.head, params.by_v), batch, token) + place.row, v);
  }

 private:
  TJ_DEVICE static Number number(const Numbers& of, int head, int batch, int token) {
    return load_number(of.data, batch * of.batch + token * of.token + head * of.head, of.half);
  }
  TJ_DEVICE static const unsigned short* row(const Tokens& of, int head, int batch, int token) {
    return static_cast<const unsigned short*>(of.data) + batch * of.batch + token * of.token + head * of.head;
  }
};

TJ_DEVICE float exponential(float x) { return dev::exp2_approx(x * kLog2E); }
/// ln(1 + e^x). A small e^x = y takes the series of ln(1 + y), as the logarithm near 1 has but an absolute accuracy.
TJ_DEVICE float softplus(float x) {
  const float y = exponential(-dev::maximum(-x, -20.0f));
  float series = dev::multiply_add(y, -1.0f / 6, 1.0f / 5);
  series = dev::multiply_add(y, series, -1.0f / 4);
  series = dev::multiply_add(y, series, 1.0f / 3);
  series = dev::multiply_add(y, series, -1.0f / 2);
  series = dev::multiply_add(y, series, 1.0f);
  const float soft = y < 0.0625f ? y * series : dev::log2_approx(1.0f + y) * kLn2;
  return x > 20.0f || x != x ? x : soft;
}

/// What a token multiplies by.
template <class C>
struct Factors {
  using L = Layout<C>;
  u32 q[L::kDepth / 2], k[L::kDepth / 2];
  float v[L::kRows];
  float decay, beta;
  float k_factor, q_factor;  ///< what normalises k; what normalises q, times the scale
  float k_with_q;            ///< of k and q as they are

  /// Elements j and j + 1 of k and q.
  TJ_DEVICE void pair(int j, float (&k_pair)[2], float (&q_pair)[2]) const {
    const typename C::Element tag{};
    dev::unpack(tag, k[j / 2], k_pair[0], k_pair[1]);
    dev::unpack(tag, q[j / 2], q_pair[0], q_pair[1]);
  }
  TJ_DEVICE void take(const Params& params, const Place<C>& place, const Token<C>& token) {
    const typename C::Element tag{};
#pragma unroll
    for (int w = 0; w < L::kDepth / 2; ++w) {
      q[w] = token.q[w / (L::kRun / 2)][w % (L::kRun / 2)];
      k[w] = token.k[w / (L::kRun / 2)][w % (L::kRun / 2)];
    }
#pragma unroll
    for (int r = 0; r < L::kRows; r += 2) dev::unpack(tag, token.v[r / 2], v[r], v[r + 1]);
    decay = decay_of(params, place.head, value_of(tag, token.gate, params.gate.half));
    const float b = value_of(tag, token.beta, params.beta.half);
    beta = params.beta.data == nullptr ? 1.0f
           : params.beta_raw != 0      ? dev::divide_approx(1.0f, 1.0f + exponential(-b))
                                       : b;
    products(params);
  }

 private:
  TJ_DEVICE static float decay_of(const Params& params, int head, float gate) {
    if (params.gate.data == nullptr) return 1.0f;
    if (params.gate_form == kExp) return gate;
    if (params.gate_form == kRaw) {
      float bias = 0;
      if (params.dt_bias != nullptr)
        bias =
            value_of(typename C::Element{},
                     load_number(params.dt_bias, head * params.dt_bias_step, params.dt_bias_half), params.dt_bias_half);
      gate = -exponential(dev::load_global(params.a_log + head * params.a_log_step)) * softplus(gate + bias);
    }
    return exponential(gate);
  }
  TJ_DEVICE void products(const Params& params) {
    float kk = 0, qq = 0, kq = 0;
#pragma unroll
    for (int j = 0; j < L::kDepth; j += 2) {
      float k_pair[2], q_pair[2];
      pair(j, k_pair, q_pair);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        kq = dev::multiply_add(k_pair[e], q_pair[e], kq);
        kk = dev::multiply_add(k_pair[e], k_pair[e], kk);
        qq = dev::multiply_add(q_pair[e], q_pair[e], qq);
      }
    }
    k_with_q = sum_shared<C>(kq);
    k_factor = 1.0f;
    q_factor = params.scale;
    if (params.normalise == 0) return;
    k_factor = inverse_root(sum_shared<C>(kk) + 1e-6f);
    q_factor *= inverse_root(sum_shared<C>(qq) + 1e-6f);
  }
  TJ_DEVICE static float inverse_root(float x) { return dev::exp2_approx(dev::log2_approx(x) * -0.5f); }
};

}  // namespace tj::ops::gated_delta_rule
