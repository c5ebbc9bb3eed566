// See random_values.hpp.
#include "support/random_values.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tj {
namespace {

/// The layout of a float: stored bits of its mantissa, and what is added to its exponent.
struct Layout {
  int exponent, mantissa, bias;
};
Layout layout_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {5, 10, 15};
    case DType::bf16:
      return {8, 7, 127};
    case DType::e4m3:
      return {4, 3, 7};
    case DType::f32:
    case DType::i32:
      break;
  }
  return {8, 23, 127};
}

std::uint32_t narrow(float value, const Layout& layout) {
  const auto [exponent_bits, mantissa, bias] = layout;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int cut = 23 - mantissa;
  const std::uint32_t sign = bits >> 31, magnitude = bits & 0x7fffffffu;
  const std::uint32_t offset = static_cast<std::uint32_t>(127 - bias) << 23;
  if (magnitude < offset + (1u << 23)) return 0;
  const std::uint32_t rounded = (magnitude + ((1u << (cut - 1)) - 1) + ((magnitude >> cut) & 1u) - offset) >> cut;
  return sign << (exponent_bits + mantissa) | rounded;
}

}  // namespace

std::string normal_values(DType dtype, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::string bytes(count * size, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(dtype, normal(generator));
    std::memcpy(bytes.data() + i * size, &bits, size);  // little-endian, as every host that is served
  }
  return bytes;
}

double most_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::e4m3:
      return 448;
    case DType::i32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::bf16:
    case DType::f32:
      break;
  }
  return 3e38;  // what both have, whichever way it is rounded
}

std::uint32_t bits_of(DType dtype, double value) {
  if (dtype == DType::i32) return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::floor(value)));
  const auto single = static_cast<float>(value);
  return dtype == DType::f32 ? std::bit_cast<std::uint32_t>(single) : narrow(single, layout_of(dtype));
}

double value_of(DType dtype, const void* element) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(size_of(dtype)));
  if (dtype == DType::i32) return static_cast<std::int32_t>(bits);
  if (dtype == DType::f32) return std::bit_cast<float>(bits);
  const auto [exponent_bits, mantissa, bias] = layout_of(dtype);
  const std::uint32_t most = (1u << exponent_bits) - 1, exponent = (bits >> mantissa) & most;
  const std::uint32_t fraction = bits & ((1u << mantissa) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa)) & 1u;
  double value = 0;
  if (dtype == DType::e4m3 && (bits & 0x7fu) == 0x7fu)
    value = std::numeric_limits<double>::quiet_NaN();
  else if (dtype != DType::e4m3 && exponent == most)
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else
    value = std::ldexp(fraction + (exponent != 0 ? 1u << mantissa : 0u),
                       static_cast<int>(exponent != 0 ? exponent : 1u) - bias - mantissa);
  return negative ? -value : value;
}

}  // namespace tj
