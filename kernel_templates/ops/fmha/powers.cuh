// Powers of two by arithmetic, for the part of attention's exponentials that special functions are too slow for.
//
// Decides one formula; which weights it serves is the graph's choice. Invariant: no branch, no table; what is far below
// 1 becomes exactly 0.
#pragma once

#include "types.cuh"

namespace tj::ops::fmha {

/// 2^x = 2^n 2^f with n the nearest whole number and -1/2 <= f <= 1/2, where 2^f is a polynomial of degree 3 that is 1
/// at 0. Its coefficients make the largest relative error least: 1.02e-4, a fifth of what rounding a weight to f16 may
/// change it by. The argument is y = (x + 127) / 256, cut to [0, 1]: what is below 2^-127 gives n = -127, f = 0, whose
/// exponent and fraction are all 0. Of x, y keeps 2^-17, 5.3e-6 of a weight. For x up to 64; a NaN counts as -infinity.
TJ_DEVICE float exp2_polynomial(float y) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: sums of this magnitude are whole numbers
  constexpr float kC1 = 0x1.62f5fap-1f, kC2 = 0x1.f00c54p-3f, kC3 = 0x1.c2a222p-5f;
  const float whole = dev::multiply_add(y, 256.0f, kRound - 127.0f);
  const float f = dev::multiply_add(y, 256.0f, (kRound - 127.0f) - whole);
  const float power = dev::multiply_add(f, dev::multiply_add(f, dev::multiply_add(f, kC3, kC2), kC1), 1.0f);
  return dev::scaled_by_bits(power, dev::bits_of(whole));
}

/// y of a value that is multiplied by `scale` and added to `offset` first.
struct PolynomialArgument {
  float scale, offset;
  TJ_DEVICE PolynomialArgument(float scale_of_x, float offset_of_x)
      : scale(scale_of_x * (1.0f / 256.0f)), offset((offset_of_x + 127.0f) * (1.0f / 256.0f)) {}
  TJ_DEVICE float operator()(float value) const { return dev::multiply_add_saturated(value, scale, offset); }
};

}  // namespace tj::ops::fmha
