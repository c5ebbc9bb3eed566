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
TJ_DEVICE u32 load_number(const void* from, int half) {
  return half != 0 ? dev::load_global_u16(from) : dev::load_global_u32(from);
}
template <class Tag>
TJ_DEVICE float value_of(Tag tag, u32 number, int half) {
  float low, high;
  dev::unpack(tag, number, low, high);
  return half != 0 ? low : dev::number_of(number);
}

/// So many neighbouring elements of 2 bytes.
TJ_DEVICE void load_words(const unsigned char* from, u32 (&words)[2]) { dev::load_global(from, words); }
TJ_DEVICE void load_words(const unsigned char* from, u32 (&words)[4]) { dev::load_global(from, words); }
TJ_DEVICE void load_words(const unsigned char* from, u32 (&words)[8]) {
  u32 low[4], high[4];
  dev::load_global(from, low);
  dev::load_global(from + 16, high);
#pragma unroll
  for (int w = 0; w < 4; ++w) words[w] = low[w], words[w + 4] = high[w];
}

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

/// Where a lane finds what it needs of a token, and where it leaves the results.
template <class C>
struct Places {
  using L = Layout<C>;
  const unsigned char *q, *k, *v, *gate, *beta;
  unsigned char* o;

  TJ_DEVICE void begin(const Params& params, const Place<C>& place, int batch, int token) {
    q = first(params.q, divided(place.head, params.by_q), batch, token) + place.run(0) * 2;
    k = first(params.k, divided(place.head, params.by_k), batch, token) + place.run(0) * 2;
    v = first(params.v, divided(place.head, params.by_v), batch, token) + place.row * 2;
    o = first(params.o, place.head, batch, token) + place.row * 2;
    gate = first(params.gate, place.head, batch, token);
    beta = first(params.beta, place.head, batch, token);
  }
  /// To the next token, of what is read.
  TJ_DEVICE void next(const Params& params) {
    q += params.q.token;
    k += params.k.token;
    v += params.v.token;
    gate += params.gate.token;
    beta += params.beta.token;
  }

 private:
  template <class Of>
  TJ_DEVICE static auto first(const Of& of, int head, int batch, int token) {
    return bytes(of.data) + (batch * of.batch + token * of.token + head * of.head);
  }
  TJ_DEVICE static unsigned char* bytes(void* data) { return static_cast<unsigned char*>(data); }
  TJ_DEVICE static const unsigned char* bytes(const void* data) { return static_cast<const unsigned char*>(data); }
};

/// A token on its way: this lane's part of q and k, its rows of v, the head's gate and beta as they lie in memory.
template <class C>
struct Token {
  using L = Layout<C>;
  u32 q[L::kRuns][L::kRun / 2], k[L::kRuns][L::kRun / 2], v[L::kRows / 2];
  u32 gate, beta;

  TJ_DEVICE void load(const Params& params, const Places<C>& from) {
    gate = params.gate.data != nullptr ? load_number(from.gate, params.gate.half) : 0;
    beta = params.beta.data != nullptr ? load_number(from.beta, params.beta.half) : 0;
#pragma unroll
    for (int r = 0; r < L::kRuns; ++r) {
      load_words(from.q + r * (L::kLanes * L::kRun * 2), q[r]);
      load_words(from.k + r * (L::kLanes * L::kRun * 2), k[r]);
    }
    load_words(from.v, v);
  }
};

/// What a token multiplies by.
template <class C>
struct Factors {
  using L = Layout<C>;
  u32 q[L::kDepth / 2], k[L::kDepth / 2], v[L::kRows / 2];
  float decay, beta;
  float k_factor, q_factor;  ///< what normalises k; what normalises q, times the scale
  float k_with_q;            ///< of k and q as they are

  /// Elements j and j + 1 of k and q.
  TJ_DEVICE void pair(int j, float (&k_pair)[2], float (&q_pair)[2]) const {
    const typename C::Element tag{};
    dev::unpack(tag, k[j / 2], k_pair[0], k_pair[1]);
    dev::unpack(tag, q[j / 2], q_pair[0], q_pair[1]);
  }
  /// Elements r and r + 1 of v.
  TJ_DEVICE void v_pair(int r, float (&pair)[2]) const {
    dev::unpack(typename C::Element{}, v[r / 2], pair[0], pair[1]);
  }
  TJ_DEVICE void take(const Params& params, int head, const Token<C>& token) {
    const typename C::Element tag{};
#pragma unroll
    for (int w = 0; w < L::kDepth / 2; ++w) {
      q[w] = token.q[w / (L::kRun / 2)][w % (L::kRun / 2)];
      k[w] = token.k[w / (L::kRun / 2)][w % (L::kRun / 2)];
    }
#pragma unroll
    for (int w = 0; w < L::kRows / 2; ++w) v[w] = token.v[w];
    decay = decay_of(params, head, value_of(tag, token.gate, params.gate.half));
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
        bias = value_of(typename C::Element{},
                        load_number(static_cast<const unsigned char*>(params.dt_bias) + head * params.dt_bias_step,
                                    params.dt_bias_half),
                        params.dt_bias_half);
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
