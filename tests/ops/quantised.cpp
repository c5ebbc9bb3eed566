// See quantised.hpp.
#include "ops/quantised.hpp"

#include <algorithm>
#include <cmath>

#include "support/fail.hpp"

namespace tj::test {
namespace {

using support::cat;

constexpr std::size_t kBlock = 128;
constexpr double kLargest = 448, kLeast = 1e-4, kRounding = 1e-6;

/// Half a step of e4m3 around x.
double half_step(double x) { return 0.5 * std::exp2(std::max(-6.0, std::floor(std::log2(std::max(x, 1e-9)))) - 3); }

}  // namespace

double written_scale(const Tensor& scales, std::int64_t place, std::int64_t apart, std::int64_t block) {
  if (scales.dtype != DType::i32)
    return static_cast<double>(static_cast<const float*>(scales.data)[place + block * apart]);
  const std::uint32_t word = static_cast<const std::uint32_t*>(scales.data)[place + block / 4 * apart];
  return std::ldexp(1.0, static_cast<int>(word >> block % 4 * 8 & 0xff) - 127);
}

std::string QuantisedRow::problem() const {
  for (std::size_t first = 0; first < wanted.size(); first += kBlock) {
    const std::size_t last = std::min(first + kBlock, wanted.size());
    double largest = 0;
    for (std::size_t i = first; i < last; ++i) largest = std::max(largest, std::fabs(wanted[i]));
    const double made = scale(first / kBlock), low = std::max(largest - slack, kLeast) / kLargest * (1 - kRounding),
                 high = std::max(largest + slack, kLeast) / kLargest * (1 + kRounding);
    const bool right = powers_of_two ? made >= low && made < 2 * high && std::exp2(std::round(std::log2(made))) == made
                                     : made >= low && made <= high;
    if (!right) return cat("the scale of columns from ", first, " is ", made, ", ", low, " to ", high, " was wanted");
    for (std::size_t i = first; i < last; ++i) {
      const double got = element(i), x = std::fabs(wanted[i]) / made;
      const double allowed = half_step(x + slack / made) * 1.01 + slack / made;
      if (!(std::fabs(got - wanted[i] / made) <= allowed))
        return cat("column ", i, " is ", got, " times ", made, ", ", wanted[i], " was wanted within ", allowed * made);
    }
  }
  return "";
}

}  // namespace tj::test
