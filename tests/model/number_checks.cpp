// Expectations of a thread's arithmetic, on whatever runs the primitives: roundings to 16 bits bit for bit,
// approximations within what they promise. Shared by the tests of the model and of a device.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/half.hpp"
#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

constexpr const char* kUnit = R"(
struct Params { const float* x; u32* out; int count; };
static void one(u32* to, float x, float y) {
  to[0] = pack(F16{}, x, y);
  to[1] = pack(Bf16{}, x, y);
  float* numbers = reinterpret_cast<float*>(to + 2);
  numbers[0] = exp2_approx(x);
  numbers[1] = exp2_gradual(x);
  numbers[2] = log2_approx(x);
  numbers[3] = divide_approx(x, y);
  numbers[4] = multiply_add(x, y, x);
  numbers[5] = maximum(x, y);
  numbers[6] = maximum_or_nan(x, y);
  numbers[7] = multiply_add_saturated(x, y, x);
  to[10] = bits_of(scaled_by_bits(x, bits_of(y)));
  to[11] = bits_of(magnitude(x));
}
// Each number with the next one; the last has none.
TJ_KERNEL(kernel, 128, Params, p) {
  for (int i = static_cast<int>(thread_index()); i + 1 < p.count; i += 128) one(p.out + 12 * i, p.x[i], p.x[i + 1]);
}
TJ_KERNEL(unpacked, 128, Params, p) {
  for (u32 i = thread_index(); i < 65536; i += 128) {
    float* numbers = reinterpret_cast<float*>(p.out + 4 * i);
    unpack(F16{}, i | (65535 - i) << 16, numbers[0], numbers[1]);
    unpack(Bf16{}, i | (65535 - i) << 16, numbers[2], numbers[3]);
  }
}
)";

struct Params {
  const float* x;
  std::uint32_t* out;
  int count;
};

/// Ends and middles of every binade, halfway between neighbours of either 16-bit type and just beside it, of both
/// signs. Also values that are no number.
std::vector<float> numbers() {
  std::vector<float> all = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65519.996f, 65520.0f, 3.3895314e38f, 3.4e38f};
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const std::uint32_t fraction : {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u,
                                         0x18000u, 0x2aaaaau, 0x400000u, 0x4fffffu, 0x7fefffu, 0x7ff000u, 0x7fffffu})
      for (const std::uint32_t sign : {0u, 0x80000000u})
        all.push_back(std::bit_cast<float>(sign | exponent << 23 | fraction));
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i)
    all.push_back(static_cast<float>(state = state * 1664525u + 1013904223u) * 0x1p-24f - 128.0f);  // -128 to 128
  return all;
}

bool same16(std::uint32_t found, std::uint32_t wanted, float from) {
  return std::isnan(from) ? (found & 0x7fffu) > 0x7c00u : (found & 0xffffu) == wanted;
}

/// Within so many parts of 2^-22, or within the least number where the result is small; infinite results and NaN as
/// they are.
bool near_to(float found, double wanted, double parts, double least) {
  if (std::isnan(wanted)) return std::isnan(found);
  if (std::isinf(wanted) || std::fabs(wanted) > static_cast<double>(std::numeric_limits<float>::max()) * (1 + 0x1p-22))
    return std::isinf(found) && (found > 0) == (wanted > 0);
  return std::fabs(static_cast<double>(found) - wanted) <= std::max(std::fabs(wanted) * parts * 0x1p-22, least) ||
         (std::isinf(found) && std::fabs(wanted) > 3.4028e38);
}

struct Wrong {
  int pack_f16 = 0, pack_bf16 = 0, exp2 = 0, exp2_gradual = 0, log2 = 0, divide = 0, multiply_add = 0, saturated = 0,
      maximum = 0, maximum_or_nan = 0, scaled = 0, magnitude = 0;
};

void compare(Wrong& wrong, float x, float y, const std::uint32_t* out) {
  const auto number = [&](int i) { return std::bit_cast<float>(out[2 + i]); };
  wrong.pack_f16 +=
      !same16(out[0], samples::float_to_half(x), x) || !same16(out[0] >> 16, samples::float_to_half(y), y);
  wrong.pack_bf16 +=
      !same16(out[1], samples::float_to_bf16(x), x) || !same16(out[1] >> 16, samples::float_to_bf16(y), y);
  const double wide = static_cast<double>(x), other = static_cast<double>(y), least = 0x1p-126;
  wrong.exp2 += !near_to(number(0), std::exp2(wide), 1, least);
  wrong.exp2_gradual +=
      !near_to(number(1), std::exp2(wide), 1, 0x1p-148);  // the same and half a unit, where results have fewer bits
  const bool tiny = std::fabs(wide) < least;              // counts as 0
  if (!tiny || x == 0) wrong.log2 += !near_to(number(2), x == 0 ? -INFINITY : std::log2(wide), 1, 0x1p-22);
  const double size = std::fabs(other);
  if (size >= least && size <= 0x1p126 && std::isfinite(wide) && std::fabs(wide) >= least)
    wrong.divide += !near_to(number(3), wide / other, 1, least);
  const float product = std::fma(x, y, x);
  wrong.multiply_add += std::isnan(product) ? !std::isnan(number(4)) : out[6] != std::bit_cast<std::uint32_t>(product);
  float larger = std::isnan(x) ? y : std::isnan(y) ? x : std::max(x, y);
  if (x == 0 && y == 0) larger = std::signbit(x) && std::signbit(y) ? -0.0f : 0.0f;
  wrong.saturated += number(7) != (product > 0 ? std::min(product, 1.0f) : 0.0f);  // of a NaN, 0
  wrong.maximum_or_nan +=
      std::isnan(x) || std::isnan(y) ? !std::isnan(number(6)) : out[8] != std::bit_cast<std::uint32_t>(larger);
  wrong.scaled += out[10] != std::bit_cast<std::uint32_t>(x) + (std::bit_cast<std::uint32_t>(y) << 23);
  if (!std::isnan(x)) wrong.magnitude += out[11] != std::bit_cast<std::uint32_t>(std::fabs(x));
  wrong.maximum += out[7] != std::bit_cast<std::uint32_t>(larger);
}

}  // namespace

std::string_view number_text() { return kUnit; }

void check_numbers(const MakeUnit& make) {
  PrimitiveUnit unit = make(kUnit);
  const std::vector<float> x = numbers();
  Params params{unit.upload(x), unit.upload(std::vector<std::uint32_t>(12 * x.size())), static_cast<int>(x.size())};
  unit.run(params, 128);
  const std::vector<std::uint32_t> out = unit.download(params.out, 12 * x.size());
  Wrong wrong;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) compare(wrong, x[i], x[i + 1], &out[12 * i]);
  CHECK(wrong.pack_f16 == 0);
  CHECK(wrong.pack_bf16 == 0);
  CHECK(wrong.exp2 == 0);
  CHECK(wrong.exp2_gradual == 0);
  CHECK(wrong.log2 == 0);
  CHECK(wrong.divide == 0);
  CHECK(wrong.multiply_add == 0);
  CHECK(wrong.maximum == 0);
  CHECK(wrong.maximum_or_nan == 0);
  CHECK(wrong.saturated == 0);
  CHECK(wrong.scaled == 0);
  CHECK(wrong.magnitude == 0);
}

void check_unpacked(const MakeUnit& make) {
  PrimitiveUnit unit = make(kUnit);
  Params params{nullptr, unit.upload(std::vector<std::uint32_t>(4 * 65536)), 0};
  unit.run(params, 128, {"unpacked", 65536, 1, 1, false});
  const std::vector<std::uint32_t> out = unit.download(params.out, 4 * 65536);
  const auto same = [](std::uint32_t found, float wanted) {
    return std::isnan(wanted) ? std::isnan(std::bit_cast<float>(found)) : found == std::bit_cast<std::uint32_t>(wanted);
  };
  int wrong = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(65535 - i);
    wrong += !same(out[4 * i], samples::half_to_float(low)) || !same(out[4 * i + 1], samples::half_to_float(high));
    wrong += !same(out[4 * i + 2], samples::bf16_to_float(low)) || !same(out[4 * i + 3], samples::bf16_to_float(high));
  }
  CHECK(wrong == 0);
}

}  // namespace tj::testing
