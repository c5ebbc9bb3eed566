// Protects quantising on the CPU model, against f64: both kinds of blocks, each type, gates, scales in each order,
// batches, rows that begin anywhere, special values, and what is refused by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.h>
#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantise/quantise.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

const Device kCpu{DeviceKind::cpu, 0};

struct Shape {
  std::int64_t batch = 0, m = 1, k = 1;
  DType dtype = DType::bf16;
  bool tall = false, by_m = false, powers_of_two = false;
  Activation gate = Activation::none;
  int padding = 0;  ///< elements between rows of x and of q
  std::vector<std::int32_t> row_indices;
  std::int64_t x_rows = 0;  ///< with row_indices
  std::int64_t rows_of_x() const { return row_indices.empty() ? m : x_rows; }
};

class Problem {
 public:
  explicit Problem(const Shape& shape, unsigned seed) : shape_(shape) {
    const std::int64_t wide = shape.gate == Activation::none ? shape.k : 2 * shape.k, pitch = wide + shape.padding,
                       blocks = (shape.k + 127) / 128, down = shape.tall ? (shape.m + 127) / 128 : shape.m,
                       batch = std::max<std::int64_t>(1, shape.batch), q_pitch = shape.k + shape.padding;
    values_.resize(static_cast<std::size_t>(batch * shape.rows_of_x() * pitch));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    const auto bytes = static_cast<std::size_t>(size_of(shape.dtype));
    x_.resize(values_.size() * bytes);
    for (std::size_t i = 0; i < values_.size(); ++i) set(i, normal(random));
    q_.assign(static_cast<std::size_t>(batch * shape.m * q_pitch), 0x7f);
    scales_.assign(static_cast<std::size_t>(batch * down * blocks), std::nanf(""));
    const auto tensor = [&](void* data, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t row,
                            std::int64_t column, std::int64_t matrix) {
      return shape.batch == 0 ? Tensor::strided(data, kCpu, dtype, {rows, columns}, {row, column})
                              : Tensor::strided(data, kCpu, dtype, {shape.batch, rows, columns}, {matrix, row, column});
    };
    args.x = tensor(x_.data(), shape.dtype, shape.rows_of_x(), wide, pitch, 1, shape.m * pitch);
    args.q = tensor(q_.data(), DType::e4m3, shape.m, shape.k, q_pitch, 1, shape.m * q_pitch);
    args.scales =
        tensor(scales_.data(), DType::f32, down, blocks, shape.by_m ? 1 : blocks, shape.by_m ? down : 1, down * blocks);
    if (!shape_.row_indices.empty())
      args.row_indices = Tensor::contiguous(shape_.row_indices.data(), kCpu, DType::i32, {shape.m});
    args.gate = shape.gate;
    args.powers_of_two = shape.powers_of_two;
  }
  QuantiseArgs args;

  /// Sets an element of x's memory, and keeps what it is after rounding.
  void set(std::size_t i, float value) {
    if (shape_.dtype == DType::f32) {
      std::memcpy(x_.data() + 4 * i, &value, 4);
      values_[i] = static_cast<double>(value);
      return;
    }
    const std::uint16_t half = samples::from_float(value, shape_.dtype);
    std::memcpy(x_.data() + 2 * i, &half, 2);
    values_[i] = static_cast<double>(samples::to_float(half, shape_.dtype));
  }
  double q(std::size_t i) const { return test::from_e4m3(q_[i]); }
  float scale(std::size_t i) const { return scales_[i]; }

  std::string run(const std::string& target = "model:sm_90a") {
    testing::model_runtime(target).run(args);
    return problem();
  }
  std::string problem() const {
    const std::int64_t batch = std::max<std::int64_t>(1, shape_.batch), each = shape_.tall ? 128 : 1;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t row = 0; row < shape_.m; row += each)
        for (std::int64_t column = 0; column < shape_.k; column += 128)
          if (const std::string wrong = block(b, row, column, each); !wrong.empty()) return wrong;
    for (std::int64_t row = 0; row < batch * shape_.m; ++row)
      for (int i = 0; i < shape_.padding; ++i)
        if (q_[static_cast<std::size_t>((row + 1) * (shape_.k + shape_.padding) - 1 - i)] != 0x7f)
          return "memory between the rows of q was written";
    return "";
  }

 private:
  double value(std::int64_t b, std::int64_t row, std::int64_t column) const {
    const std::int64_t wide = shape_.gate == Activation::none ? shape_.k : 2 * shape_.k;
    if (!shape_.row_indices.empty()) {
      row = shape_.row_indices[static_cast<std::size_t>(row)];
      if (row < 0 || row >= shape_.x_rows) return 0;
    }
    const auto at = static_cast<std::size_t>((b * shape_.m + row) * (wide + shape_.padding) + column);
    const double x = values_[at];
    if (shape_.gate == Activation::none) return x;
    const double up = values_[at + static_cast<std::size_t>(shape_.k)];
    const double act = shape_.gate == Activation::silu   ? x / (1 + std::exp(-x))
                       : shape_.gate == Activation::relu ? std::max(x, 0.0)
                       : shape_.gate == Activation::gelu
                           ? 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)))
                           : 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    return act * up;
  }
  std::string block(std::int64_t b, std::int64_t row, std::int64_t column, std::int64_t each) const {
    double largest = 1e-4;
    const std::int64_t last = std::min(shape_.m, row + each), right = std::min(shape_.k, column + 128);
    for (std::int64_t r = row; r < last; ++r)
      for (std::int64_t c = column; c < right; ++c) largest = std::max(largest, std::fabs(value(b, r, c)));
    double wanted = largest / 448;
    if (shape_.powers_of_two) wanted = std::exp2(std::ceil(std::log2(wanted)));
    const auto strides = args.scales.strides;
    const auto at = static_cast<std::size_t>(args.scales.rank - 2);
    const double scale = static_cast<double>(scales_[static_cast<std::size_t>(
        (shape_.batch == 0 ? 0 : b * strides[0]) + row / each * strides[at] + column / 128 * strides[at + 1])]);
    const double slack = shape_.gate == Activation::none ? 1e-6 : 1e-3;
    if (!(std::fabs(scale / wanted - 1) <= slack) && !(shape_.powers_of_two && shape_.gate != Activation::none))
      return "scale of row " + std::to_string(row) + ": " + std::to_string(scale) + " for " + std::to_string(wanted);
    for (std::int64_t r = row; r < last; ++r)
      for (std::int64_t c = column; c < right; ++c) {
        const double x = value(b, r, c) / scale,
                     got = q(static_cast<std::size_t>((b * shape_.m + r) * (shape_.k + shape_.padding) + c));
        // Half a step of e4m3 around x.
        const double step = std::exp2(std::max(-6.0, std::floor(std::log2(std::max(std::fabs(x), 1e-9)))) - 3);
        if (!(std::fabs(got - x) <= 0.5 * step * 1.01 + std::fabs(x) * slack * 2))
          return "row " + std::to_string(r) + " column " + std::to_string(c) + ": " + std::to_string(got) + " for " +
                 std::to_string(x);
      }
    return "";
  }

  Shape shape_;
  std::vector<double> values_;
  std::vector<unsigned char> x_, q_;
  std::vector<float> scales_;
};

std::string refusal(const std::function<void(QuantiseArgs&)>& change) {
  Shape shape;
  shape.m = 40;
  shape.k = 256;
  Problem problem(shape, 1);
  change(problem.args);
  return testing::said_by([&] { ops::validate(problem.args, true); });
}

}  // namespace

TEST_CASE("blocks of a row and of 128 rows, at the edges of both, of each type") {
  unsigned seed = 1;
  for (const auto& size : {std::pair{1, 1}, {2, 128}, {9, 129}, {128, 300}, {257, 136}, {130, 1000}})
    for (const bool tall : {false, true}) {
      Shape shape;
      shape.m = size.first;
      shape.k = size.second;
      shape.tall = tall && shape.m > 1;
      shape.dtype = seed % 3 == 0 ? DType::f32 : seed % 3 == 1 ? DType::bf16 : DType::f16;
      shape.by_m = seed % 2 == 0;
      shape.padding = seed % 4 == 0 ? 3 : 0;
      CAPTURE(shape.m);
      CAPTURE(shape.k);
      CAPTURE(seed);
      CHECK(Problem(shape, seed).run() == "");
      ++seed;
    }
}

TEST_CASE("each family of archs that has elements of 8 bits") {
  unsigned seed = 40;
  for (const char* target : {"model:sm_89", "model:sm_120a", "model:gfx1200"})
    for (const bool gated : {false, true}) {
      Shape shape;
      shape.m = 130;
      shape.k = 300;
      shape.tall = !gated;
      shape.dtype = gated ? DType::bf16 : DType::f32;
      shape.gate = gated ? Activation::silu : Activation::none;
      shape.padding = 3;
      CAPTURE(target);
      CHECK(Problem(shape, seed++).run(target) == "");
    }
}

TEST_CASE("gates, batches and powers of two") {
  unsigned seed = 30;
  for (const Activation gate :
       {Activation::none, Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    Shape shape;
    shape.batch = seed % 2 == 0 ? 3 : 0;
    shape.m = 21;
    shape.k = 264;
    shape.gate = gate;
    shape.by_m = true;
    shape.tall = seed % 3 == 0;
    CAPTURE(static_cast<int>(gate));
    CHECK(Problem(shape, seed++).run() == "");
  }
  for (const bool tall : {false, true}) {
    Shape shape;
    shape.m = 140;
    shape.k = 200;
    shape.tall = tall;
    shape.powers_of_two = true;
    CHECK(Problem(shape, seed++).run() == "");
  }
}

TEST_CASE("rows that a list names; bad numbers give zeros, and rows without a number are not looked at") {
  unsigned seed = 60;
  for (const auto& size : {std::pair{1, 1}, {9, 129}, {37, 264}, {150, 300}})
    for (const Activation gate : {Activation::none, Activation::silu})
      for (const bool tall : {false, true}) {
        Shape shape;
        shape.m = size.first;
        shape.k = size.second;
        shape.tall = tall && shape.m > 1;
        shape.gate = gate;
        shape.dtype = seed % 3 == 0 ? DType::f32 : seed % 3 == 1 ? DType::bf16 : DType::f16;
        shape.by_m = seed % 2 == 0;
        shape.padding = seed % 4 == 0 ? 3 : 0;
        shape.x_rows = 1 + seed % 5 * 11;
        std::mt19937 random(seed);
        const std::int32_t bad[] = {-1, static_cast<std::int32_t>(shape.x_rows),
                                    std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
        for (std::int64_t m = 0; m < shape.m; ++m)  // row 0 is never named where there is another
          shape.row_indices.push_back(random() % 4 == 0
                                          ? bad[random() % 4]
                                          : static_cast<std::int32_t>(std::min<std::int64_t>(
                                                shape.x_rows - 1, 1 + random() % static_cast<unsigned>(shape.x_rows))));
        Problem problem(shape, seed);
        if (shape.x_rows > 1)
          for (std::size_t i = 0; i < static_cast<std::size_t>(shape.k); ++i) problem.set(i, std::nanf(""));
        CAPTURE(seed);
        CHECK(problem.run() == "");
        ++seed;
      }
}

TEST_CASE("zeros, NaN and infinity") {
  Shape shape;
  shape.m = 3;
  shape.k = 128;
  Problem problem(shape, 5);
  for (std::size_t i = 0; i < 128; ++i) problem.set(i, 0.0f);
  problem.set(128 + 7, std::nanf(""));
  problem.set(256 + 9, std::numeric_limits<float>::infinity());
  testing::model_runtime().run(problem.args);
  CHECK(problem.scale(0) == doctest::Approx(1e-4 / 448));
  CHECK(problem.q(5) == 0);
  CHECK(std::isnan(problem.q(128 + 7)));
  CHECK(!std::isnan(problem.q(128 + 8)));
  CHECK(std::isfinite(problem.scale(1)));
  CHECK(std::isinf(problem.scale(2)));
  CHECK(std::isnan(problem.q(256 + 9)));
  CHECK(problem.q(256 + 8) == 0);
}

TEST_CASE("a power of two stays as it is") {
  Shape shape;
  shape.m = 4;
  shape.k = 128;
  shape.powers_of_two = true;
  Problem problem(shape, 6);
  for (std::size_t i = 0; i < 128; ++i)
    problem.set(i, 448.0f), problem.set(128 + i, 447.0f), problem.set(256 + i, 450.0f);
  testing::model_runtime().run(problem.args);
  CHECK(problem.scale(0) == 1.0f);
  CHECK(problem.scale(1) == 1.0f);
  CHECK(problem.scale(2) == 2.0f);
}

TEST_CASE("what is refused, by name") {
  const auto has = [](const std::string& text, const char* part) {
    if (text.find(part) == std::string::npos) MESSAGE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(refusal([](auto&) {}) == "");
  CHECK(has(refusal([](auto& a) { a.x.dtype = DType::e4m3; }), "x.dtype is e4m3; allowed: f16, bf16, f32"));
  CHECK(has(refusal([](auto& a) { a.q.dtype = DType::f16; }), "q.dtype is f16; allowed: e4m3"));
  CHECK(has(refusal([](auto& a) { a.x.shape[1] = 255; }), "x.shape[1]"));
  CHECK(has(refusal([](auto& a) { a.gate = Activation::silu; }), "twice q's K"));
  CHECK(has(refusal([](auto& a) { a.gate = static_cast<Activation>(8); }), "gate is 8"));
  CHECK(has(refusal([](auto& a) { a.scales.shape[0] = 2; }), "scales.shape[0] is 2; allowed: 40 (M), or 1"));
  CHECK(has(refusal([](auto& a) { a.scales.shape[1] = 3; }), "scales.shape[1]"));
  CHECK(has(refusal([](auto& a) { a.q.strides[1] = 2; }), "q.strides[1]"));
  CHECK(has(refusal([](auto& a) { a.q.data = a.x.data; }), "overlap"));
  CHECK(has(refusal([](auto& a) { a.max_sms = -2; }), "max_sms is -2"));
  static std::vector<std::int32_t> list(40);
  const auto with_list = [](auto& a) { a.row_indices = Tensor::contiguous(list.data(), kCpu, DType::i32, {40}); };
  CHECK(refusal(with_list) == "");
  CHECK(refusal([&](auto& a) { with_list(a), a.x.shape[0] = 3; }) == "");
  CHECK(has(refusal([&](auto& a) { with_list(a), a.row_indices->dtype = DType::f32; }), "row_indices.dtype is f32"));
  CHECK(has(refusal([&](auto& a) { with_list(a), a.row_indices->shape[0] = 39; }), "row_indices.shape[0]"));
  CHECK(has(refusal([&](auto& a) { with_list(a), a.row_indices->data = a.q.data; }), "overlap"));
}

TEST_CASE("numbers that are read first name the first bad one") {
  Shape shape;
  shape.m = 4;
  shape.k = 128;
  shape.x_rows = 3;
  shape.row_indices = {2, -1, 3, -2};
  const Problem problem(shape, 2);
  std::string said;
  try {
    ops::quantise_op().check_lists(&problem.args, [&](const Tensor&) { return shape.row_indices; });
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK(said.find("row_indices[2] is 3; allowed: -1 (zeros) to 2, the rows of x") != std::string::npos);
}

TEST_CASE("a C structure is the descriptor") {
  tj_tensor x{}, q{}, scales{};
  for (tj_tensor* tensor : {&x, &q, &scales}) tensor->size = sizeof *tensor, tensor->rank = 2;
  tj_quantise_args c{};
  c.size = sizeof c;
  c.x = &x;
  c.q = &q;
  c.scales = &scales;
  c.gate = TJ_ACTIVATION_GELU;
  c.powers_of_two = 1;
  c.max_sms = 3;
  const QuantiseArgs args = ops::quantise_from_c(&c);
  CHECK(args.gate == Activation::gelu);
  CHECK(args.powers_of_two);
  CHECK(args.max_sms == 3);
  CHECK(!args.row_indices);
}

TEST_CASE("exponents, four in an i32, are those of scales that are powers of two; bytes behind the last block are 0") {
  for (const bool tall : {false, true})
    for (const std::int64_t k : {128, 500, 513, 1100})
      for (const bool by_m : {false, true}) {
        Shape shape;
        shape.batch = k == 513 ? 2 : 0;
        shape.m = 150;
        shape.k = k;
        shape.tall = tall;
        shape.powers_of_two = true;
        const std::int64_t batch = std::max<std::int64_t>(1, shape.batch), blocks = (k + 127) / 128,
                           words = (k + 511) / 512, down = tall ? 2 : shape.m;
        Problem plain(shape, 5), packed(shape, 5);
        CHECK(plain.run() == "");
        std::vector<std::uint32_t> found(static_cast<std::size_t>(batch * down * words), 0xffffffffu);
        packed.args.scales = Tensor::strided(found.data(), kCpu, DType::i32, {batch, down, words},
                                             {down * words, by_m ? 1 : words, by_m ? down : 1});
        if (shape.batch == 0) {
          packed.args.scales =
              Tensor::strided(found.data(), kCpu, DType::i32, {down, words}, {by_m ? 1 : words, by_m ? down : 1});
        }
        testing::model_runtime().run(packed.args);
        int wrong = 0;
        for (std::int64_t row = 0; row < batch * down; ++row)
          for (std::int64_t block = 0; block < 4 * words; ++block) {
            const std::int64_t at =
                row / down * down * words + (by_m ? row % down + block / 4 * down : row % down * words + block / 4);
            const int exponent = static_cast<int>(found[static_cast<std::size_t>(at)] >> block % 4 * 8 & 0xffu);
            const float scale = block < blocks ? plain.scale(static_cast<std::size_t>(row * blocks + block)) : 0.0f;
            wrong += block < blocks ? std::ldexp(1.0f, exponent - 127) != scale : exponent != 0;
          }
        CHECK(wrong == 0);
      }
}

TEST_CASE("exponents without powers of two, and of another length, are refused by name") {
  Shape shape;
  shape.m = 8;
  shape.k = 600;
  Problem problem(shape, 6);
  std::vector<std::int32_t> words(16);
  problem.args.scales = Tensor::contiguous(words.data(), kCpu, DType::i32, {8, 2});
  const auto said = [&] {
    try {
      ops::validate(problem.args, true);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(said().find("scales.dtype is i32 (exponents) and powers_of_two is false") != std::string::npos);
  problem.args.powers_of_two = true;
  CHECK(said().empty());
  problem.args.scales.shape[1] = 1;
  CHECK(said().find("ceil(K / 512)") != std::string::npos);
}
