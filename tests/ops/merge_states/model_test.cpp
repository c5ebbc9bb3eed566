// Protects merging partial outputs on the CPU model, against f64: types, ranks, orders of dimensions, states that have
// seen no key and hold NaN, rows without any, and what is refused by name.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

const Device kCpu{DeviceKind::cpu, 0};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Memory of f16, bf16 or f32.
struct Values {
  DType dtype;
  std::vector<std::uint8_t> bytes;
  Values(DType type, std::size_t count) : dtype(type), bytes(count * static_cast<std::size_t>(size_of(type)), 0xff) {}
  void set(std::size_t i, float value) {
    if (dtype == DType::f32) return static_cast<void>(std::memcpy(bytes.data() + 4 * i, &value, 4));
    const std::uint16_t half = samples::from_float(value, dtype);
    std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  double get(std::size_t i) const {
    if (dtype == DType::f32) {
      float value;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      return static_cast<double>(value);
    }
    std::uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    return static_cast<double>(samples::to_float(half, dtype));
  }
};

/// States [N, H, T, D] in memory [N, T, H, D], o [T, H, D], log-sum-exps by heads.
struct Problem {
  std::int64_t n, heads, rows, width;
  Values states, lse_states, o, lse;
  MergeStatesArgs args;

  Problem(std::int64_t count, std::int64_t h, std::int64_t t, std::int64_t d, DType from, DType to, unsigned seed)
      : n(count),
        heads(h),
        rows(t),
        width(d),
        states(from, static_cast<std::size_t>(n * h * t * d)),
        lse_states(DType::f32, static_cast<std::size_t>(n * h * t)),
        o(to, static_cast<std::size_t>(h * t * d)),
        lse(DType::f32, static_cast<std::size_t>(h * t)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (std::int64_t s = 0; s < n; ++s)
      for (std::int64_t row = 0; row < h * t; ++row) {
        const bool none = random() % 4 == 0 || row % 5 == 3;  // every fifth row has no key at all
        lse_states.set(static_cast<std::size_t>(s * h * t + row), none ? -kInfinity : normal(random) * 5);
        for (std::int64_t c = 0; c < d; ++c) states.set(state_at(s, row, c), none ? std::nanf("") : normal(random));
      }
    args.states = Tensor::strided(states.bytes.data(), kCpu, from, {n, h, t, d}, {t * h * d, d, h * d, 1});
    args.lse_states = Tensor::contiguous(lse_states.bytes.data(), kCpu, DType::f32, {n, h, t});
    args.o = Tensor::strided(o.bytes.data(), kCpu, to, {h, t, d}, {d, h * d, 1});
    args.lse = Tensor::contiguous(lse.bytes.data(), kCpu, DType::f32, {h, t});
  }
  std::size_t state_at(std::int64_t s, std::int64_t row, std::int64_t c) const {
    const std::int64_t head = row / rows, t = row % rows;
    return static_cast<std::size_t>(((s * rows + t) * heads + head) * width + c);
  }
  /// The first number that is wrong.
  std::string problem() const {
    const double limit = o.dtype == DType::f32 ? 3e-6 : o.dtype == DType::f16 ? 1e-3 : 8e-3;
    for (std::int64_t row = 0; row < heads * rows; ++row) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      const auto of = [&](std::int64_t s) { return lse_states.get(static_cast<std::size_t>(s * heads * rows + row)); };
      for (std::int64_t s = 0; s < n; ++s) largest = std::max(largest, of(s));
      const bool any = std::isfinite(largest);
      for (std::int64_t s = 0; s < n && any; ++s) sum += std::exp(of(s) - largest);
      const double lse_got = lse.get(static_cast<std::size_t>(row));
      if (any ? !(std::abs(lse_got - (largest + std::log(sum))) < 1e-5) : !(lse_got == largest))
        return "lse of row " + std::to_string(row) + " is " + std::to_string(lse_got);
      for (std::int64_t c = 0; c < width; ++c) {
        double want = 0, size = 0;
        for (std::int64_t s = 0; s < n && any; ++s)
          if (std::isfinite(of(s))) {
            const double part = std::exp(of(s) - largest) / sum * states.get(state_at(s, row, c));
            want += part, size += std::abs(part);
          }
        const double got = o.get(state_at(0, row, c));
        if (!(std::abs(got - want) <= limit * (size + 1e-3)))
          return "o of row " + std::to_string(row) + ", column " + std::to_string(c) + " is " + std::to_string(got) +
                 ", not " + std::to_string(want);
      }
    }
    return "";
  }
};

std::string refusal(const MergeStatesArgs& args) {
  try {
    testing::model_runtime().run(args);
  } catch (const Error& error) {
    return error.message;
  }
  return "";
}

}  // namespace

TEST_CASE("types, counts of states, widths") {
  unsigned seed = 7100;
  for (const DType from : {DType::f32, DType::f16, DType::bf16})
    for (const DType to : {DType::f16, DType::bf16, DType::f32}) {
      ++seed;
      Problem problem(3 + static_cast<int>(seed % 2) * 14, 3, 5, seed % 3 == 0 ? 136 : 64, from, to, seed);
      testing::model_runtime().run(problem.args);
      CHECK(problem.problem() == "");
      const std::vector<std::uint8_t> first = problem.o.bytes;
      testing::model_runtime().run(problem.args);
      CHECK(problem.o.bytes == first);
    }
}

TEST_CASE("one state, many, odd widths, one row") {
  for (const auto& [n, width] : {std::pair{1, 8}, {2, 1}, {129, 7}, {9, 257}}) {
    Problem problem(n, 2, 1, width, DType::f32, DType::f32, static_cast<unsigned>(7200 + n));
    testing::model_runtime().run(problem.args);
    CHECK(problem.problem() == "");
    problem.args.lse.reset();
    testing::model_runtime().run(problem.args);
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("TJ_CHECK names the first bad bound of rows") {
  const Problem problem(3, 2, 4, 64, DType::f32, DType::f16, 7301);
  MergeStatesArgs args = problem.args;
  const auto bad = [&](std::vector<std::int32_t> list) {
    args.cu_seqlens = Tensor::contiguous(list.data(), kCpu, DType::i32, {static_cast<std::int64_t>(list.size())});
    Options options;
    options.check_lists = true;
    try {
      Runtime(options).run(args);
    } catch (const Error& error) {
      return error.message;
    }
    return std::string();
  };
  CHECK(bad({0, 1, 4}) == "");
  CHECK(bad({-1, 1, 4}).find("cu_seqlens[0] is -1; allowed: 0 to 4, o.shape[") != std::string::npos);
  CHECK(bad({0, 3, 2}).find("cu_seqlens[2] is 2; allowed: 3, the one before it, to 4") != std::string::npos);
  CHECK(bad({0, 5, 4}).find("cu_seqlens[1] is 5") != std::string::npos);
}

TEST_CASE("bad arguments are named") {
  const Problem problem(3, 2, 4, 64, DType::f32, DType::f16, 7300);
  MergeStatesArgs args = problem.args;
  args.lse_states.shape[0] = 2;
  CHECK(refusal(args).find("lse_states.shape[0]") != std::string::npos);
  args = problem.args, args.o.dtype = DType::e4m3;
  CHECK(refusal(args).find("o.dtype") != std::string::npos);
  args = problem.args, args.o.data = args.states.data;
  CHECK(refusal(args).find("overlap") != std::string::npos);
  args = problem.args, args.o.rank = 1;
  CHECK(refusal(args).find("o.rank") != std::string::npos);
}
