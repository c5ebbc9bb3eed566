// Normal random data; see random.hpp.
#include "common/random.hpp"

#include <cmath>
#include <numbers>
#include <random>

#include "common/half.hpp"

namespace tj::samples {

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::vector<std::uint16_t> random_normal(std::size_t elements, DType dtype, std::uint64_t seed) {
  std::vector<std::uint16_t> values(elements);
  for (std::size_t i = 0; i < elements; i += 2) {
    const std::uint64_t bits = random_bits(seed, i);
    const float u = (static_cast<float>(bits >> 40) + 1.0f) * 0x1p-24f;  // (0, 1]
    const float angle = static_cast<float>(bits & 0xffffffu) * 0x1p-24f * 2.0f * std::numbers::pi_v<float>;
    const float radius = std::sqrt(-2.0f * std::log(u));
    values[i] = from_float(radius * std::cos(angle), dtype);
    if (i + 1 < elements) values[i + 1] = from_float(radius * std::sin(angle), dtype);
  }
  return values;
}

std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace tj::samples
