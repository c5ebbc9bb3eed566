// Activations, which are applied to a result before it is rounded: for every op that finishes matrix products.
//
// Decides how each is computed. Invariant: a NaN stays a NaN.
#pragma once

namespace tj::ops {

/// The activations by number.
enum Activation : int { kNone = 0, kRelu = 1, kGelu = 2, kSilu = 3 };

/// x times the normal distribution function. The tail by Abramowitz and Stegun 7.1.26, erfc within 1.5e-7, without a
/// branch and without a difference of two numbers near 1.
TJ_DEVICE float gelu(float x) {
  constexpr float kHalfLog2E = 0.721347520444482f, kScale = 0.3275911f * 0.707106781186548f;
  const float t = dev::divide_approx(1.0f, dev::multiply_add(kScale, x < 0.0f ? -x : x, 1.0f));
  float tail = dev::multiply_add(t, 1.061405429f, -1.453152027f);
  tail = dev::multiply_add(t, tail, 1.421413741f);
  tail = dev::multiply_add(t, tail, -0.284496736f);
  tail = dev::multiply_add(t, tail, 0.254829592f) * t * 0.5f * dev::exp2_approx(-kHalfLog2E * x * x);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

template <int Kind>
TJ_DEVICE float activate(float x) {
  constexpr float kLog2E = 1.44269504088896f;
  if constexpr (Kind == kRelu)
    return x < 0.0f ? 0.0f : x;
  else if constexpr (Kind == kGelu)
    return gelu(x);
  else if constexpr (Kind == kSilu)
    return dev::divide_approx(x, 1.0f + dev::exp2_approx(-x * kLog2E));
  else
    return x;
}

}  // namespace tj::ops
