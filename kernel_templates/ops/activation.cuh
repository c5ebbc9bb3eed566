// Activations, which are applied to a result before it is rounded: for every op that finishes matrix products.
//
// Decides how each is computed. Invariant: a NaN stays a NaN.
#pragma once

namespace tj::ops {

/// The activations by number.
enum Activation : int { kNone = 0, kRelu = 1, kGelu = 2, kSilu = 3, kGeluTanh = 4 };

/// x times the normal distribution function P: max(x, 0) - |x| P(-|x|), which subtracts no two numbers near 1. log2
/// P(s) is a polynomial for s from -13.5 to 0, and P counts as 0 below -12.95. The result is within 5e-7. Below 0 it is
/// also within 2.5e-4 of itself, and from -12.95 to -5.8 within 3e-3.
TJ_DEVICE float gelu(float x) {
  const float s = dev::maximum(-dev::magnitude(x), -13.5f);
  float tail = dev::multiply_add(s, -9.803583500556101e-10f, -5.3185175374892424e-08f);
  tail = dev::multiply_add(s, tail, -1.1327613265166292e-06f);
  tail = dev::multiply_add(s, tail, -1.1094590263382997e-05f);
  tail = dev::multiply_add(s, tail, -2.506358578102663e-05f);
  tail = dev::multiply_add(s, tail, 0.0005856839125044644f);
  tail = dev::multiply_add(s, tail, 0.007718977052718401f);
  tail = dev::multiply_add(s, tail, 0.052987463772296906f);
  tail = dev::multiply_add(s, tail, -0.4590378701686859f);
  tail = dev::multiply_add(s, tail, 1.1511263847351074f);
  tail = dev::multiply_add(s, tail, -0.9999995827674866f);
  return dev::multiply_add(s, dev::exp2_approx(tail), dev::maximum_or_nan(x, 0.0f));
}

/// x / (1 + exp(-y)).
TJ_DEVICE float gated(float x, float y) {
  constexpr float kLog2E = 1.44269504088896f;
  return dev::divide_approx(x, 1.0f + dev::exp2_approx(-y * kLog2E));
}
/// x / 2 * (1 + tanh(y / 2)) with y = sqrt(8 / pi) * (x + 0.044715 x^3), which is x / (1 + exp(-y)).
TJ_DEVICE float gelu_tanh(float x) {
  constexpr float kLinear = 1.59576912160573f;
  return gated(x, x * dev::multiply_add(kLinear * 0.044715f, x * x, kLinear));
}

template <int Kind>
TJ_DEVICE float activate(float x) {
  if constexpr (Kind == kRelu)
    return dev::maximum_or_nan(x, 0.0f);
  else if constexpr (Kind == kGelu)
    return gelu(x);
  else if constexpr (Kind == kSilu)
    return gated(x, x);
  else if constexpr (Kind == kGeluTanh)
    return gelu_tanh(x);
  else
    return x;
}

}  // namespace tj::ops
