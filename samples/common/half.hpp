// f16 and bf16 bit patterns to and from float.
//
// Decides nothing: round to nearest, ties to even, subnormals kept, as the hardware converts.
#pragma once

#include <bit>
#include <cstdint>

#include <tilejit/tensor.hpp>

namespace tj::samples {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  // The exponent is 112 too small as it stands; a multiplication also normalises subnormals.
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) * 0x1p112f);
  const std::uint32_t bits = rest >= (0x7c00u << 13) ? (rest | 0x7f800000u) : finite;
  return std::bit_cast<float>(sign | bits);
}

inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);  // NaN stays NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// For f16 and bf16.
inline float to_float(std::uint16_t bits, DType dtype) {
  return dtype == DType::bf16 ? bf16_to_float(bits) : half_to_float(bits);
}
inline std::uint16_t from_float(float value, DType dtype) {
  return dtype == DType::bf16 ? float_to_bf16(value) : float_to_half(value);
}

}  // namespace tj::samples
