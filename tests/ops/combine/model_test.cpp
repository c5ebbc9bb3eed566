// Protects combining rows on the CPU model, against f64: each pair of types, each family, sizes at the edges of units
// and of steps, rows that begin anywhere, slots that are skipped or bad, and what is refused by name.
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
#include "ops/combine/combine.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

const Device kCpu{DeviceKind::cpu, 0};

struct Shape {
  std::int64_t tokens = 1, columns = 1, choices = 1, rows = 1;
  DType dtype = DType::bf16, out = DType::bf16;
  bool weights = true, residual = false;
  int padding = 0;  ///< elements between rows of each tensor
};

/// Elements of any type in memory, rows apart by a padding that holds NaN.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns, DType dtype, int padding)
      : dtype_(dtype), rows_(rows), columns_(columns), pitch_(columns + padding) {
    memory_.resize(static_cast<std::size_t>(rows * pitch_ * size_of(dtype)));
    for (std::int64_t i = 0; i < rows * pitch_; ++i) put(i, std::nanf(""));
  }
  void set(std::int64_t row, std::int64_t column, float value) { put(row * pitch_ + column, value); }
  double at(std::int64_t row, std::int64_t column) const { return get(row * pitch_ + column); }
  bool padding_is_nan() const {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t c = columns_; c < pitch_; ++c)
        if (!std::isnan(get(row * pitch_ + c))) return false;
    return true;
  }
  Tensor tensor() { return Tensor::strided(memory_.data(), kCpu, dtype_, {rows_, columns_}, {pitch_, 1}); }
  const std::vector<unsigned char>& bytes() const { return memory_; }

 private:
  void put(std::int64_t i, float value) {
    const std::uint16_t half = dtype_ == DType::f32 ? std::uint16_t{0} : samples::from_float(value, dtype_);
    const void* from = dtype_ == DType::f32 ? static_cast<const void*>(&value) : &half;
    const auto bytes = static_cast<std::size_t>(size_of(dtype_));
    std::memcpy(memory_.data() + static_cast<std::size_t>(i) * bytes, from, bytes);
  }
  double get(std::int64_t i) const {
    if (dtype_ == DType::f32) {
      float value = 0;
      std::memcpy(&value, memory_.data() + 4 * i, 4);
      return static_cast<double>(value);
    }
    std::uint16_t half = 0;
    std::memcpy(&half, memory_.data() + 2 * i, 2);
    return static_cast<double>(samples::to_float(half, dtype_));
  }

  DType dtype_;
  std::int64_t rows_, columns_, pitch_;
  std::vector<unsigned char> memory_;
};

class Problem {
 public:
  Problem(const Shape& shape, unsigned seed)
      : shape_(shape),
        y(shape.rows, shape.columns, shape.dtype, shape.padding),
        d(shape.tokens, shape.columns, shape.out, shape.padding),
        residual(shape.tokens, shape.columns, shape.out, shape.padding),
        weights(shape.tokens, shape.choices, DType::f32, shape.padding),
        slot_pitch_(shape.choices + shape.padding) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    slots.assign(static_cast<std::size_t>(shape.tokens * slot_pitch_), 0x7fffffff);
    std::vector<bool> named(static_cast<std::size_t>(shape.rows));
    for (std::int64_t t = 0; t < shape.tokens; ++t)
      for (std::int64_t j = 0; j < shape.choices; ++j) {
        const auto row = static_cast<std::int32_t>(random() % static_cast<unsigned>(shape.rows));
        const bool skipped = random() % 4 == 0;
        slot(t, j) = skipped ? -1 : row;
        weights.set(t, j, skipped ? std::nanf("") : normal(random));
        if (!skipped) named[static_cast<std::size_t>(row)] = true;
      }
    for (std::int64_t row = 0; row < shape.rows; ++row)  // others keep NaN
      for (std::int64_t c = 0; c < shape.columns && named[static_cast<std::size_t>(row)]; ++c)
        y.set(row, c, normal(random));
    for (std::int64_t t = 0; t < shape.tokens; ++t)
      for (std::int64_t c = 0; c < shape.columns; ++c) residual.set(t, c, normal(random));
    args.y = y.tensor();
    args.d = d.tensor();
    args.slots = Tensor::strided(slots.data(), kCpu, DType::i32, {shape.tokens, shape.choices}, {slot_pitch_, 1});
    if (shape.weights) args.weights = weights.tensor();
    if (shape.residual) args.residual = residual.tensor();
  }
  std::int32_t& slot(std::int64_t t, std::int64_t j) { return slots[static_cast<std::size_t>(t * slot_pitch_ + j)]; }

  std::string run(const char* target = "model:sm_90a") {
    testing::model_runtime(target).run(args);
    const std::vector<unsigned char> first = d.bytes();
    testing::model_runtime(target).run(args);
    if (d.bytes() != first) return "other bits";
    if (!d.padding_is_nan()) return "memory between the rows of d was written";
    // Rounding of the result, and of an f32 sum of so many terms.
    const double step = shape_.out == DType::f16 ? 0x1p-11 : shape_.out == DType::bf16 ? 0x1p-8 : 0x1p-24;
    for (std::int64_t t = 0; t < shape_.tokens; ++t)
      for (std::int64_t c = 0; c < shape_.columns; ++c) {
        double wanted = 0, terms = 0;
        for (std::int64_t j = 0; j < shape_.choices; ++j) {
          const std::int64_t row = slot(t, j);
          if (row < 0 || row >= shape_.rows) continue;
          const double term = (shape_.weights ? weights.at(t, j) : 1.0) * y.at(row, c);
          wanted += term, terms += std::fabs(term);
        }
        if (shape_.residual) wanted += residual.at(t, c), terms += std::fabs(residual.at(t, c));
        const double got = d.at(t, c), slack = static_cast<double>(shape_.choices + 1) * 0x1p-24 * terms + 0x1p-24;
        if (!(std::fabs(got - wanted) <= std::fabs(wanted) * step + slack))
          return "row " + std::to_string(t) + " column " + std::to_string(c) + ": " + std::to_string(got) + " for " +
                 std::to_string(wanted);
      }
    return "";
  }

 private:
  Shape shape_;

 public:
  Matrix y, d, residual, weights;
  std::vector<std::int32_t> slots;
  CombineArgs args;

 private:
  std::int64_t slot_pitch_;
};

Shape small() {
  Shape shape;
  shape.tokens = 5;
  shape.columns = 40;
  shape.choices = 3;
  shape.rows = 12;
  shape.residual = true;
  return shape;
}

std::string refusal(const std::function<void(CombineArgs&)>& change) {
  Problem problem(small(), 1);
  change(problem.args);
  return testing::said_by([&] { ops::validate(problem.args, true); });
}

bool has(const std::string& text, const char* part) {
  if (text.find(part) == std::string::npos) MESSAGE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("each pair of types, at the edges of units and steps") {
  unsigned seed = 1;
  const std::int64_t columns[] = {1, 8, 256, 264, 515, 1000}, choices[] = {1, 8, 2, 9, 17, 4};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (const DType out : {DType::f16, DType::bf16, DType::f32}) {
      Shape shape;
      shape.tokens = 1 + seed * 3 % 11;
      shape.columns = columns[seed % 6];
      shape.choices = choices[seed * 5 % 6];
      shape.rows = 1 + seed * 7 % 30;
      shape.dtype = dtype;
      shape.out = out;
      shape.weights = seed % 3 != 0;
      shape.residual = seed % 2 == 0;
      shape.padding = seed % 4 == 1 ? 3 : seed % 4 == 3 ? 8 : 0;
      CAPTURE(seed);
      CHECK(Problem(shape, seed).run() == "");
      ++seed;
    }
}

TEST_CASE("every family") {
  unsigned seed = 20;
  for (const char* target : {"model:sm_80", "model:sm_100a", "model:gfx90a", "model:gfx1100"}) {
    Shape shape;
    shape.tokens = 7;
    shape.columns = 600;
    shape.choices = 9;
    shape.rows = 40;
    shape.residual = true;
    shape.out = seed % 2 == 0 ? DType::bf16 : DType::f32;
    CAPTURE(target);
    CHECK(Problem(shape, seed++).run(target) == "");
  }
}

TEST_CASE("bad slots are skipped; a token without any is its residual, or zeros") {
  for (const bool residual : {false, true}) {
    Shape shape = small();
    shape.residual = residual;
    Problem problem(shape, 8);
    problem.slot(0, 0) = 12;
    problem.slot(0, 1) = std::numeric_limits<std::int32_t>::max();
    problem.slot(0, 2) = std::numeric_limits<std::int32_t>::min();
    problem.slot(3, 1) = -2;
    CHECK(problem.run() == "");
    CHECK(problem.d.at(0, 4) == (residual ? problem.residual.at(0, 4) : 0.0));
  }
}

TEST_CASE("NaN and infinity follow f32's rules") {
  Shape shape = small();
  shape.residual = false;
  Problem problem(shape, 9);
  problem.slot(0, 0) = 0, problem.slot(0, 1) = -1, problem.slot(0, 2) = 1;
  problem.weights.set(0, 0, 0.0f), problem.weights.set(0, 2, 1.0f);
  problem.y.set(0, 3, std::numeric_limits<float>::infinity());
  for (const int c : {2, 3, 5}) problem.y.set(1, c, 2.0f);
  problem.y.set(0, 2, 5.0f), problem.y.set(0, 5, std::nanf(""));
  testing::model_runtime().run(problem.args);
  CHECK(problem.d.at(0, 2) == 2.0);
  CHECK(std::isnan(problem.d.at(0, 3)));
  CHECK(std::isnan(problem.d.at(0, 5)));
}

TEST_CASE("what is refused, by name") {
  CHECK(refusal([](auto&) {}) == "");
  CHECK(has(refusal([](auto& a) { a.y.dtype = DType::e4m3; }), "y.dtype is e4m3; allowed: f16, bf16, f32"));
  CHECK(has(refusal([](auto& a) { a.d.dtype = DType::i32; }), "d.dtype is i32; allowed: f16, bf16, f32"));
  CHECK(has(refusal([](auto& a) { a.slots.dtype = DType::f32; }), "slots.dtype is f32; allowed: i32"));
  CHECK(has(refusal([](auto& a) { a.slots.shape[0] = 4; }), "slots.shape[0]"));
  CHECK(has(refusal([](auto& a) { a.weights->shape[1] = 2; }), "weights.shape[1]"));
  CHECK(has(refusal([](auto& a) { a.weights->dtype = DType::f16; }), "weights.dtype is f16; allowed: f32"));
  CHECK(has(refusal([](auto& a) { a.residual->dtype = DType::f32; }), "residual.dtype is f32; allowed: bf16, as d"));
  CHECK(has(refusal([](auto& a) { a.residual->shape[1] = 39; }), "residual.shape[1]"));
  CHECK(has(refusal([](auto& a) { a.d.shape[1] = 39; }), "d.shape[1]"));
  CHECK(has(refusal([](auto& a) { a.y.strides[1] = 2; }), "y.strides[1]"));
  CHECK(has(refusal([](auto& a) { a.d.data = a.y.data; }), "overlap"));
  CHECK(has(refusal([](auto& a) { a.residual->data = a.d.data; }), "overlap"));
  CHECK(has(refusal([](auto& a) { a.max_sms = -2; }), "max_sms is -2"));
}

TEST_CASE("lists that are read first name the first bad slot") {
  Shape shape = small();
  shape.padding = 2;  // what lies between the rows of slots is none of them
  Problem problem(shape, 10);
  const auto checked = [&problem] {
    try {
      ops::combine_op().check_lists(&problem.args, [&](const Tensor&) { return problem.slots; });
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(checked() == "");
  problem.slot(4, 0) = -7;
  problem.slot(2, 1) = 12;
  CHECK(has(checked(), "slots[2][1] is 12; allowed: -1 (skipped) to 11, the rows of y"));
}

TEST_CASE("a C structure is the descriptor") {
  tj_tensor tensors[5]{};
  for (tj_tensor& tensor : tensors) tensor.size = sizeof tensor, tensor.rank = 2;
  tj_combine_args c{};
  c.size = sizeof c;
  c.y = &tensors[0], c.d = &tensors[1], c.slots = &tensors[2];
  c.max_sms = 3;
  CombineArgs args = ops::combine_from_c(&c);
  CHECK(!args.weights);
  CHECK(!args.residual);
  CHECK(args.max_sms == 3);
  c.weights = &tensors[3], c.residual = &tensors[4];
  args = ops::combine_from_c(&c);
  CHECK(args.weights);
  CHECK(args.residual);
}
