// See gemm_reference.hpp.
#include "common/gemm_reference.hpp"

#include <algorithm>
#include <cmath>

#include "common/half.hpp"
#include "common/random.hpp"

namespace tj::samples {
namespace {

constexpr double kMaxProducts = 1 << 28;  // some tenths of a second

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<float> to_floats(const std::uint16_t* begin, std::size_t count, DType dtype) {
  std::vector<float> values(count);
  std::transform(begin, begin + count, values.begin(), [dtype](std::uint16_t bits) { return to_float(bits, dtype); });
  return values;
}

}  // namespace

GemmReference gemm_reference(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, std::int64_t m,
                             std::int64_t n, std::int64_t k, DType dtype, std::uint64_t seed) {
  GemmReference reference{m, n, k, {}, {}};
  const auto rows = static_cast<std::int64_t>(
      std::clamp(kMaxProducts / (static_cast<double>(n) * static_cast<double>(k)), 1.0, static_cast<double>(m)));
  const std::vector<float> right = to_floats(b.data(), at(n * k), dtype);
  reference.values.reserve(at(rows * n));
  for (std::int64_t r = 0; r < rows; ++r) {
    // One of each stretch: evenly spread ones would all lie at the same place of a tile.
    const std::int64_t begin = r * m / rows, end = (r + 1) * m / rows;
    const std::int64_t row = begin + static_cast<std::int64_t>(random_bits(seed, static_cast<std::uint64_t>(r)) %
                                                               static_cast<std::uint64_t>(end - begin));
    reference.rows.push_back(row);
    const std::vector<float> left = to_floats(a.data() + row * k, at(k), dtype);
    for (std::int64_t column = 0; column < n; ++column) {
      const float* other = right.data() + column * k;
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += static_cast<double>(left[at(i)]) * other[i];
      reference.values.push_back(sum);
    }
  }
  return reference;
}

double gemm_error(const GemmReference& reference, const std::vector<std::uint16_t>& d, DType dtype) {
  double wrong = 0, all = 0;
  std::size_t next = 0;
  for (const std::int64_t row : reference.rows)
    for (std::int64_t column = 0; column < reference.n; ++column) {
      const double wanted = reference.values[next++],
                   difference = to_float(d[at(row * reference.n + column)], dtype) - wanted;
      wrong += difference * difference;
      all += wanted * wanted;
    }
  return std::sqrt(wrong / all);
}

}  // namespace tj::samples
