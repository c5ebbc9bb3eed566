// The arithmetic of matrix instructions on e4m3; declared in matrix_math.hpp.
//
// Decides what is lost of a sum. Hopper's unit does not keep 24 bits for 8-bit operands. Others have measured that it
// aligns the products and the accumulator to their largest exponent. It drops what is more than 13 bits behind its
// point, and returns sums with 13 bits of fraction. Sources: SageAttention2, arXiv 2411.10958 (an accumulator of 22
// bits); DeepSeek-V3, arXiv 2412.19437 (14 bits of each aligned product); Khattak and Mikaitis, arXiv 2512.07004
// (models of the H100's unit). Cuts are taken to be towards zero. Invariant: all else is exact, so an error beyond
// these cuts is the kernel's.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "model/matrix_math.hpp"
#include "support/lasting.hpp"

#define TJ_VECTOR __attribute__((target("avx2,fma,f16c")))

namespace tj::model {
namespace {

constexpr int kDepth = matrix_depth(TJ_MODEL_E4M3);
constexpr int kFractionBits = 13, kFloatFractionBits = 23, kFloatBias = 127;
constexpr int kLeastExponent = -6;  // of e4m3; subnormals have it too

std::array<float, 256> all_values() {
  std::array<float, 256> values{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    const int exponent = static_cast<int>(bits >> 3 & 15u), mantissa = static_cast<int>(bits & 7u);
    float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), kLeastExponent - 3)
                                : std::ldexp(static_cast<float>(8 + mantissa), exponent - 7 - 3);
    if (exponent == 15 && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
    values[bits] = (bits & 0x80u) != 0 ? -value : value;
  }
  return values;
}

/// The exponent of the element: its leading bit stands there, or below in a subnormal. Far down for 0, which aligns
/// nothing.
int exponent_of(float value) {
  const int field = static_cast<int>(std::bit_cast<std::uint32_t>(value) >> kFloatFractionBits & 0xffu);
  return value == 0.0f || field == 0xff ? -1000 : std::max(field - kFloatBias, kLeastExponent);
}

TJ_VECTOR __m256 power_of_two(__m256i exponent) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(kFloatBias)), kFloatFractionBits));
}
TJ_VECTOR __m256 cut(__m256 value) { return _mm256_round_ps(value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }

/// Eight sums of one row; `right` points to the first of 8 columns, rows of it are `columns` apart.
TJ_VECTOR __m256 add_row(const float* left, const int* left_exponents, const float* right, const int* right_exponents,
                         int columns, __m256 sum) {
  const __m256i field =
      _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(sum), kFloatFractionBits), _mm256_set1_epi32(0xff));
  __m256i largest = _mm256_sub_epi32(field, _mm256_set1_epi32(kFloatBias));
  for (int k = 0; k < kDepth; ++k) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right_exponents + k * columns));
    largest = _mm256_max_epi32(largest, _mm256_add_epi32(at, _mm256_set1_epi32(left_exponents[k])));
  }
  // Both powers stay within f32; products are 2^-18 at least.
  largest = _mm256_min_epi32(_mm256_max_epi32(largest, _mm256_set1_epi32(-100)), _mm256_set1_epi32(127));
  const __m256 up = power_of_two(_mm256_sub_epi32(_mm256_set1_epi32(kFractionBits), largest));
  const __m256 down = power_of_two(_mm256_sub_epi32(largest, _mm256_set1_epi32(kFractionBits)));
  sum = cut(_mm256_mul_ps(sum, up));
  for (int k = 0; k < kDepth; ++k) {  // whole numbers below 2^22: exact
    const __m256 product = _mm256_mul_ps(_mm256_broadcast_ss(left + k), _mm256_loadu_ps(right + k * columns));
    sum = _mm256_add_ps(sum, cut(_mm256_mul_ps(product, up)));
  }
  const __m256 kept = _mm256_castsi256_ps(_mm256_set1_epi32(-1 << (kFloatFractionBits - kFractionBits)));
  return _mm256_and_ps(_mm256_mul_ps(sum, down), kept);
}

}  // namespace

float e4m3_to_float(std::uint8_t bits) {
  static constinit support::Lasting<const std::array<float, 256>> values;
  return values.get(all_values)[bits];
}

void multiply_e4m3(const float* a, const float* b, float* c, int columns) {
  multiply_e4m3_rows(a, b, c, columns, kMatrixRows);
}

TJ_VECTOR void multiply_e4m3_rows(const float* a, const float* b, float* c, int columns, int rows) {
  std::array<int, kMatrixRows * kDepth> left{};
  std::array<int, kMaxMatrixColumns * kDepth> right{};
  for (int i = 0; i < rows * kDepth; ++i) left[static_cast<std::size_t>(i)] = exponent_of(a[i]);
  for (int i = 0; i < columns * kDepth; ++i) right[static_cast<std::size_t>(i)] = exponent_of(b[i]);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; j += 8) {
      float* sums = c + i * columns + j;
      _mm256_storeu_ps(sums, add_row(a + i * kDepth, left.data() + i * kDepth, b + j, right.data() + j, columns,
                                     _mm256_loadu_ps(sums)));
    }
}

}  // namespace tj::model
