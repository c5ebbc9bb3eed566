// A token of the gated delta rule: its numbers as they lie in memory, and what a lane needs of them.
//
// Decides what gates and beta are made of. Invariant: q and k stay packed; what normalises them is a factor of the
// products with them.
#pragma once

#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/state.cuh"

namespace tj::ops::gated_delta_rule {

inline constexpr float kLog2E = 1.44269504088896f, kLn2 = 0.693147180559945f;
inline constexpr float kNormaliseEpsilon = 1e-6f;  ///< beside the squares of a row of q or k

TJ_DEVICE bool has(const Params& params, Option option) { return (params.options & option) != 0; }

/// A number of q's type or in f32, as it lies in memory.
TJ_DEVICE u32 load_number(const void* from, bool half) {
  return half ? dev::load_global_u16(from) : dev::load_global_u32(from);
}
template <class Tag>
TJ_DEVICE float value_of(Tag tag, u32 number, bool half) {
  float low, high;
  dev::unpack(tag, number, low, high);
  return half ? low : dev::number_of(number);
}

/// Neighbouring elements of 2 bytes, so many.
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

/// A token of a sequence, and a head. They are one value in all lanes of a warp, so that the compiler keeps what
/// follows from them out of the lanes' registers.
struct Position {
  int batch, token, head;
};
TJ_DEVICE unsigned char* row_of(const Tokens& of, const Position& at, int head) {
  return static_cast<unsigned char*>(of.data) + (at.batch * of.batch + at.token * of.token + head * of.head);
}
TJ_DEVICE const unsigned char* number_of_token(const Numbers& of, const Position& at) {
  return static_cast<const unsigned char*>(of.data) + (at.batch * of.batch + at.token * of.token + at.head * of.head);
}

/// A head's bias of raw gates, as it lies in memory.
TJ_DEVICE u32 load_bias(const Params& params, int head) {
  const bool half = has(params, kBiasHalf);
  return load_number(static_cast<const unsigned char*>(params.dt_bias) + head * (half ? 2 : 4), half);
}
template <class Tag>
TJ_DEVICE float bias_of(Tag tag, const Params& params, u32 number) {
  return value_of(tag, number, has(params, kBiasHalf));
}
/// The logarithm of a decay that a raw gate stands for.
TJ_DEVICE float raw_gate(float gate, float a_log, float bias) { return -exponential(a_log) * softplus(gate + bias); }
TJ_DEVICE float beta_value(const Params& params, float b) {
  return params.beta.data == nullptr ? 1.0f
         : has(params, kBetaRaw)     ? dev::divide_approx(1.0f, 1.0f + exponential(-b))
                                     : b;
}
TJ_DEVICE float inverse_root(float x) { return dev::exp2_approx(dev::log2_approx(x) * -0.5f); }

/// Asks for what a token will load. Lanes that share nothing ask for a run each.
template <class C>
TJ_DEVICE void prefetch_token(const Params& params, const Place<C>& place, const Position& at) {
  using L = Layout<C>;
  const int run = static_cast<int>(dev::lane_index()) / L::kLanes % L::kRuns, first = 2 * place.run(run);
  dev::prefetch_near(row_of(params.q, at, divided(at.head, params.by_q)) + first);
  dev::prefetch_near(row_of(params.k, at, divided(at.head, params.by_k)) + first);
  dev::prefetch_near(row_of(params.v, at, divided(at.head, params.by_v)) + 2 * place.row);
  if (params.gate.data != nullptr)
    dev::prefetch_near(number_of_token(params.gate, at) +
                       (C::kChannelGate ? first * (has(params, kGateHalf) ? 1 : 2) : 0));
  if (params.beta.data != nullptr) dev::prefetch_near(number_of_token(params.beta, at));
}

/// A token: this lane's part of q and k, its rows of v, and what they are multiplied by.
template <class C>
struct Token {
  using L = Layout<C>;
  u32 q[L::kRuns][L::kRun / 2], k[L::kRuns][L::kRun / 2], v[L::kRows / 2];
  float decay, beta;
  float k_factor, q_factor;  ///< what normalises k; what normalises q, times the scale
  float k_with_q;            ///< of k and q as they are

  /// Elements j and j + 1 of k and q.
  TJ_DEVICE void pair(int j, float (&k_pair)[2], float (&q_pair)[2]) const {
    const typename C::Element tag{};
    dev::unpack(tag, k[j / L::kRun][j % L::kRun / 2], k_pair[0], k_pair[1]);
    dev::unpack(tag, q[j / L::kRun][j % L::kRun / 2], q_pair[0], q_pair[1]);
  }
  /// Elements `first` to first + 3 of v.
  TJ_DEVICE void rows(int first, float (&values)[4]) const {
    const typename C::Element tag{};
    dev::unpack(tag, v[first / 2], values[0], values[1]);
    dev::unpack(tag, v[first / 2 + 1], values[2], values[3]);
  }
  TJ_DEVICE void take(const Params& params, const Place<C>& place, const Position& at) {
    const typename C::Element tag{};
    const u32 gate = !C::kChannelGate && params.gate.data != nullptr
                         ? load_number(number_of_token(params.gate, at), has(params, kGateHalf))
                         : 0,
              strength = params.beta.data != nullptr
                             ? load_number(number_of_token(params.beta, at), has(params, kBetaHalf))
                             : 0;
    const unsigned char *const q_row = row_of(params.q, at, divided(at.head, params.by_q)), *const k_row = row_of(
                                                                                                params.k, at,
                                                                                                divided(at.head,
                                                                                                        params.by_k));
#pragma unroll
    for (int r = 0; r < L::kRuns; ++r) {
      load_words(q_row + 2 * place.run(r), q[r]);
      load_words(k_row + 2 * place.run(r), k[r]);
    }
    load_words(row_of(params.v, at, divided(at.head, params.by_v)) + 2 * place.row, v);
    products(params);
    decay = decay_of(params, at.head, value_of(tag, gate, has(params, kGateHalf)));
    beta = beta_value(params, value_of(tag, strength, has(params, kBetaHalf)));
  }

 private:
  TJ_DEVICE static float decay_of(const Params& params, int head, float gate) {
    if (C::kChannelGate || params.gate.data == nullptr) return 1.0f;  // fade_state has the gates of channels
    if (has(params, kGateExp)) return gate;
    if (has(params, kGateRaw)) {
      const u32 bias = params.dt_bias != nullptr ? load_bias(params, head) : 0;
      gate = raw_gate(gate, dev::load_global(params.a_log + head), bias_of(typename C::Element{}, params, bias));
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
    if (!has(params, kNormalise)) return;
    k_factor = inverse_root(sum_shared<C>(kk) + kNormaliseEpsilon);
    q_factor *= inverse_root(sum_shared<C>(qq) + kNormaliseEpsilon);
  }
};

}  // namespace tj::ops::gated_delta_rule
