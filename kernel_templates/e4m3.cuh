// Elements of e4m3 where no instruction knows them: arithmetic on bits. Included by the files of the archs, behind
// bits_of, number_of and unpack of f16.
//
// Decides how numbers are rounded. Invariant: the same bits as the instructions of GPUs that have them.
#pragma once

namespace tj::dev::detail {

/// Bits of |value| are its exponent and fraction: rounded to three bits of fraction they are e4m3's but for the bias. A
/// subnormal is a number of 2^-9, which a sum with 2^14 rounds to.
TJ_DEVICE u32 e4m3(float value) {
  const u32 bits = bits_of(value), sign = bits >> 24 & 0x80u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7fu;
  if (size >= 0x43e00000u) return sign | 0x7eu;                                               // 448
  if (size < 0x3c800000u) return sign | (bits_of(number_of(size) + 16384.0f) - 0x46800000u);  // 2^-6
  return sign | (((size + 0x7ffffu + (size >> 20 & 1u)) >> 20) - (120u << 3));
}

/// An element's bits as those of an f16 are its number times 2^-8, but for NaN.
TJ_DEVICE void unpack_e4m3(u32 both, float& low, float& high) {
  unpack(F16{}, (both & 0x7fu) << 7 | (both & 0x80u) << 8 | (both & 0x7f00u) << 15 | (both & 0x8000u) << 16, low, high);
  low = (both & 0x7fu) == 0x7fu ? number_of(0x7fffffffu) : low * 256.0f;
  high = (both & 0x7f00u) == 0x7f00u ? number_of(0x7fffffffu) : high * 256.0f;
}

}  // namespace tj::dev::detail
