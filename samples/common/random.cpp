// Normal random data; see random.hpp.
#include "common/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <thread>

#include "common/half.hpp"

namespace tj::samples {

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

namespace {

/// Elements [begin, end); begin is even.
void fill_normal(std::vector<std::uint16_t>& values, std::size_t begin, std::size_t end, DType dtype,
                 std::uint64_t seed) {
  for (std::size_t i = begin; i < end; i += 2) {
    const std::uint64_t bits = random_bits(seed, i);
    const float u = (static_cast<float>(bits >> 40) + 1.0f) * 0x1p-24f;  // (0, 1]
    const float angle = static_cast<float>(bits & 0xffffffu) * 0x1p-24f * 2.0f * std::numbers::pi_v<float>;
    const float radius = std::sqrt(-2.0f * std::log(u));
    values[i] = from_float(radius * std::cos(angle), dtype);
    if (i + 1 < end) values[i + 1] = from_float(radius * std::sin(angle), dtype);
  }
}

}  // namespace

std::vector<std::uint16_t> random_normal(std::size_t elements, DType dtype, std::uint64_t seed) {
  constexpr std::size_t kWorthAThread = 1 << 20;
  std::vector<std::uint16_t> values(elements);
  const std::size_t threads =
      std::clamp<std::size_t>(elements / kWorthAThread, 1, std::max(1u, std::thread::hardware_concurrency()));
  const auto begin_of = [&](std::size_t part) {
    return part == threads ? elements : elements / threads * part / 2 * 2;
  };
  std::vector<std::thread> helpers;
  for (std::size_t part = 1; part < threads; ++part)
    helpers.emplace_back([&, part] { fill_normal(values, begin_of(part), begin_of(part + 1), dtype, seed); });
  fill_normal(values, 0, begin_of(1), dtype, seed);
  for (std::thread& helper : helpers) helper.join();
  return values;
}

std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace tj::samples
