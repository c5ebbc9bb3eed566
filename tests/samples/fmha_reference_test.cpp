// Protects the yardstick itself: conversions, the f64 reference against values worked out by hand, and the metric's
// answer to wrong, missing and non-finite results.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/fmha_reference.hpp"
#include "common/half.hpp"
#include "common/random.hpp"

namespace {

using tj::DType;
using tj::Tensor;
constexpr tj::Device kCpu{tj::DeviceKind::cpu, 0};

/// Inputs and places for results of one small problem, dense [B, H, S, D].
struct Problem {
  std::vector<std::uint16_t> q, k, v, o;
  std::vector<float> lse;
  tj::FmhaArgs args;

  Problem(std::int64_t heads, std::int64_t kv_heads, std::int64_t seq_q, std::int64_t seq_k, std::int64_t dim,
          bool causal, DType dtype = DType::f16)
      : q(tj::samples::random_normal(static_cast<std::size_t>(2 * heads * seq_q * dim), dtype, 1)),
        k(tj::samples::random_normal(static_cast<std::size_t>(2 * kv_heads * seq_k * dim), dtype, 2)),
        v(tj::samples::random_normal(static_cast<std::size_t>(2 * kv_heads * seq_k * dim), dtype, 3)),
        o(q.size()),
        lse(static_cast<std::size_t>(2 * heads * seq_q)) {
    args.q = Tensor::contiguous(q.data(), kCpu, dtype, {2, heads, seq_q, dim});
    args.k = Tensor::contiguous(k.data(), kCpu, dtype, {2, kv_heads, seq_k, dim});
    args.v = Tensor::contiguous(v.data(), kCpu, dtype, {2, kv_heads, seq_k, dim});
    args.o = Tensor::contiguous(o.data(), kCpu, dtype, {2, heads, seq_q, dim});
    args.lse = Tensor::contiguous(lse.data(), kCpu, DType::f32, {2, heads, seq_q});
    args.causal = causal;
  }
  /// Fills o and lse from the reference, rounded.
  void solve() {
    const tj::samples::FmhaReference ref = tj::samples::fmha_reference(args, 1);
    for (std::size_t i = 0; i < o.size(); ++i)
      o[i] = tj::samples::from_float(static_cast<float>(ref.o[i]), args.o.dtype);
    for (std::size_t i = 0; i < lse.size(); ++i) lse[i] = static_cast<float>(ref.lse[i]);
  }
};

TEST_CASE("every f16 goes to float and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = tj::samples::half_to_float(half);
    const bool nan = (half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0;
    REQUIRE(std::isnan(value) == nan);
    if (!nan) REQUIRE(tj::samples::float_to_half(value) == half);
  }
}

TEST_CASE("rounding to f16 is to nearest, ties to even") {
  using tj::samples::float_to_half;
  CHECK(float_to_half(1.0f) == 0x3c00);
  CHECK(float_to_half(1.0f + 0x1p-11f) == 0x3c00);      // a tie goes down to even
  CHECK(float_to_half(1.0f + 3 * 0x1p-11f) == 0x3c02);  // a tie goes up to even
  CHECK(float_to_half(std::nextafter(1.0f + 0x1p-11f, 2.0f)) == 0x3c01);
  CHECK(float_to_half(65519.0f) == 0x7bff);
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(float_to_half(0x1p-24f) == 1);
  CHECK(float_to_half(0x1p-25f) == 0);
  CHECK(float_to_half(3 * 0x1p-25f) == 2);
  CHECK(float_to_half(-0.0f) == 0x8000);
}

TEST_CASE("bf16 conversion") {
  using tj::samples::float_to_bf16;
  CHECK(float_to_bf16(1.0f) == 0x3f80);
  CHECK(float_to_bf16(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(float_to_bf16(1.0f + 3 * 0x1p-8f) == 0x3f82);
  CHECK(std::isnan(tj::samples::bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(tj::samples::bf16_to_float(0xc040) == -3.0f);
}

TEST_CASE("random data is normal and depends on the seed") {
  const auto values = tj::samples::random_normal(100001, DType::f16, 7);
  double sum = 0, squares = 0;
  for (const std::uint16_t bits : values) {
    const auto value = static_cast<double>(tj::samples::half_to_float(bits));
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / 100001) < 0.02);
  CHECK(std::abs(squares / 100001 - 1) < 0.02);
  CHECK(values == tj::samples::random_normal(100001, DType::f16, 7));
  CHECK(values != tj::samples::random_normal(100001, DType::f16, 8));
  const auto many = tj::samples::random_normal((std::size_t{5} << 20) + 7, DType::f16,
                                               7);  // made in parts, where there are threads for them
  CHECK(std::equal(values.begin(), values.end(), many.begin()));
  const auto more = tj::samples::random_normal((std::size_t{6} << 20) + 1, DType::f16, 7);
  CHECK(std::equal(many.begin(), many.end() - 1, more.begin()));
}

TEST_CASE("one key: o is its value and lse its score") {
  Problem p(1, 1, 3, 1, 64, false);
  const auto ref = tj::samples::fmha_reference(p.args, 1);
  for (std::size_t d = 0; d < 64; ++d)
    CHECK(ref.o[d] == doctest::Approx(static_cast<double>(tj::samples::half_to_float(p.v[d]))));
  double dot = 0;
  for (std::size_t d = 0; d < 64; ++d)
    dot += static_cast<double>(tj::samples::half_to_float(p.q[d])) *
           static_cast<double>(tj::samples::half_to_float(p.k[d]));
  CHECK(ref.lse[0] == doctest::Approx(dot / 8));
}

TEST_CASE("scale 0 averages the visible keys: the causal mask is aligned at the bottom right") {
  Problem p(1, 1, 4, 2, 64, true);
  p.args.scale = 0.0f;
  const auto ref = tj::samples::fmha_reference(p.args, 1);
  CHECK(ref.lse[0] == -std::numeric_limits<double>::infinity());  // rows 0 and 1 see no key
  CHECK(ref.lse[1] == -std::numeric_limits<double>::infinity());
  CHECK(ref.o[64] == 0.0);
  CHECK(ref.lse[2] == doctest::Approx(0.0));
  CHECK(ref.lse[3] == doctest::Approx(std::log(2.0)));
  const double mean = (static_cast<double>(tj::samples::half_to_float(p.v[5])) +
                       static_cast<double>(tj::samples::half_to_float(p.v[64 + 5]))) /
                      2;
  CHECK(ref.o[3 * 64 + 5] == doctest::Approx(mean));
  CHECK(tj::samples::fmha_flops(p.args) == 4.0 * 2 * 64 * 3);
}

TEST_CASE("grouped heads and strides") {
  Problem p(4, 2, 5, 7, 64, false);
  const auto ref = tj::samples::fmha_reference(p.args, 1);
  // The same problem with k and v repeated for every head, laid out as [B, S, H, D].
  Problem wide(4, 4, 5, 7, 64, false);
  wide.args.k.strides = wide.args.v.strides = {7 * 4 * 64, 64, 4 * 64, 1};
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (int s = 0; s < 7; ++s)
        for (int d = 0; d < 64; ++d) {
          const int to = ((b * 7 + s) * 4 + h) * 64 + d, from = ((b * 2 + h / 2) * 7 + s) * 64 + d;
          wide.k[static_cast<std::size_t>(to)] = p.k[static_cast<std::size_t>(from)];
          wide.v[static_cast<std::size_t>(to)] = p.v[static_cast<std::size_t>(from)];
        }
  wide.q = p.q;
  wide.args.q.data = wide.q.data();
  CHECK(tj::samples::fmha_reference(wide.args, 2).o == ref.o);
}

TEST_CASE("a rounded reference is within the limits, a wrong one is not") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Problem p(2, 1, 33, 17, 64, true, dtype);
    p.solve();
    const auto good = tj::samples::compare_fmha(p.args);
    CHECK(good.rows == good.rows_total);
    CHECK(good.o_error > 0);
    CHECK(good.within(dtype));
    p.lse[65] += 0.01f;
    CHECK_FALSE(tj::samples::compare_fmha(p.args).within(dtype));
    p.solve();
    for (std::size_t d = 0; d < 64; ++d) p.o[65 * 64 + d] ^= 0x8000;
    CHECK_FALSE(tj::samples::compare_fmha(p.args).within(dtype));
  }
}

TEST_CASE("non-finite results never pass") {
  Problem p(1, 1, 4, 2, 64, true);
  p.solve();
  REQUIRE(tj::samples::compare_fmha(p.args).within(DType::f16));
  const auto saved = p.o;
  for (const std::uint16_t bad : {0x7e00, 0x7c00}) {  // NaN, infinity
    p.o = saved;
    p.args.o.data = p.o.data();
    p.o[70] = bad;
    CHECK_FALSE(tj::samples::compare_fmha(p.args).within(DType::f16));
  }
  p.o = saved;
  p.args.o.data = p.o.data();
  p.lse[0] = 0.0f;  // where -inf belongs
  CHECK_FALSE(tj::samples::compare_fmha(p.args).within(DType::f16));
  p.lse[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(tj::samples::compare_fmha(p.args).within(DType::f16));
}

TEST_CASE("one element that is far off is seen, which the norm of all does not show") {
  Problem p(1, 1, 2048, 8, 64, false);
  p.solve();
  const auto good = tj::samples::compare_fmha(p.args);
  CHECK((good.close() && good.most_apart < 1e-3));
  const auto saved = p.o;
  p.o[70] = tj::samples::from_float(tj::samples::to_float(p.o[70], DType::f16) + 0.03f, DType::f16);
  const auto off = tj::samples::compare_fmha(p.args);
  CHECK(off.within(DType::f16));
  CHECK(off.apart == 1);
  CHECK(off.most_apart > 0.015);
  CHECK(off.text(DType::f16).find("1 element apart") != std::string::npos);
  CHECK(tj::samples::elements_apart(p.o, saved, DType::f16) == 1);
  CHECK(tj::samples::elements_apart(saved, saved, DType::f16) == 0);
}

TEST_CASE("rows of the reference that are kept serve several results") {
  Problem p(2, 1, 64, 64, 64, true);
  p.solve();
  tj::samples::CompareOptions options;
  options.max_work = 10 * 2 * 64 * 64;
  const auto rows = tj::samples::fmha_reference_rows(p.args, options);
  CHECK(rows.rows.size() == 10);
  CHECK(tj::samples::compare_fmha(p.args, rows).o_error == tj::samples::compare_fmha(p.args, options).o_error);
}

TEST_CASE("large problems compare a subset and say so") {
  Problem p(2, 1, 64, 64, 64, false);
  p.solve();
  tj::samples::CompareOptions options;
  options.max_work = 10 * 2 * 64 * 64;
  const auto some = tj::samples::compare_fmha(p.args, options);
  CHECK(some.rows == 10);
  CHECK(some.rows_total == 256);
  CHECK(some.within(DType::f16));
  CHECK(some.text(DType::f16).find("10 of 256 rows") != std::string::npos);
}

}  // namespace
