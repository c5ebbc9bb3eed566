// See random_values.hpp.
#include "tuning/random_values.hpp"

#include <bit>
#include <cstring>
#include <random>

namespace tj {
namespace {

/// An element's bits, rounded to nearest even; values whose exponent the type lacks become 0. mantissa: its stored
/// bits.
std::uint32_t narrow(float value, int mantissa, int bias) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int cut = 23 - mantissa;
  const std::uint32_t sign = bits >> 31, magnitude = bits & 0x7fffffffu;
  const std::uint32_t offset = static_cast<std::uint32_t>(127 - bias) << 23;
  if (magnitude < offset + (1u << 23)) return 0;
  const std::uint32_t rounded = (magnitude + ((1u << (cut - 1)) - 1) + ((magnitude >> cut) & 1u) - offset) >> cut;
  const int exponent_bits = bias == 127 ? 8 : bias == 15 ? 5 : 4;
  return sign << (exponent_bits + mantissa) | rounded;
}

}  // namespace

std::string normal_values(DType dtype, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::string bytes(count * size, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(generator);
    const std::uint32_t bits = dtype == DType::f32    ? std::bit_cast<std::uint32_t>(value)
                               : dtype == DType::bf16 ? narrow(value, 7, 127)
                               : dtype == DType::e4m3 ? narrow(value, 3, 7)
                                                      : narrow(value, 10, 15);
    std::memcpy(bytes.data() + i * size, &bits, size);  // little-endian, as every host that is served
  }
  return bytes;
}

}  // namespace tj
