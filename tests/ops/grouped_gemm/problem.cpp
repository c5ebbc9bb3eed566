// See problem.hpp.
#include "ops/grouped_gemm/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "common/half.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantised.hpp"
#include "support/fail.hpp"

namespace tj::test {
namespace {

using support::cat;
constexpr unsigned char kPoison = 0xff;  // a NaN in every type
constexpr std::size_t kGuard = 512;
const Device kCpu{DeviceKind::cpu, 0};

double value_at(const std::vector<unsigned char>& bytes, DType dtype, std::size_t i) {
  if (dtype == DType::e4m3) return from_e4m3(bytes[i]);
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return static_cast<double>(value);
  }
  std::uint16_t half = 0;
  std::memcpy(&half, bytes.data() + 2 * i, 2);
  return static_cast<double>(samples::to_float(half, dtype));
}

void set(std::vector<unsigned char>& bytes, DType dtype, std::size_t i, float value) {
  if (dtype == DType::f32) return static_cast<void>(std::memcpy(bytes.data() + 4 * i, &value, 4));
  const std::uint16_t half = samples::from_float(value, dtype);
  std::memcpy(bytes.data() + 2 * i, &half, 2);
}

/// Values of about 1, of either sign.
void draw(std::vector<unsigned char>& bytes, DType dtype, std::size_t first, std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (std::size_t i = first; i < first + count; ++i)
    if (dtype == DType::e4m3)
      bytes[i] = static_cast<unsigned char>((random() % 2) << 7 | (0x28 + random() % 24));  // 1/4 to 2
    else
      set(bytes, dtype, i, normal(random));
}

int blocks_of(int size) { return (size + 127) / 128; }

}  // namespace

std::string GroupedShape::text() const {
  std::string text =
      cat("N ", n, " K ", k, " ", to_string(dtype), "->", to_string(out), " grouping ", static_cast<int>(grouping),
          " scales ", static_cast<int>(scales), scale_a_transposed ? " sa k" : "", scale_b_transposed ? " sb k" : "",
          packed_scales ? " packed" : "", packed_out ? " packed out" : "", bias ? " bias" : "", " gate ",
          static_cast<int>(gate), gate_interleaved ? " interleaved" : "", " beta ", beta, in_place ? " in place" : "",
          " spare ", spare, " padding ", padding, " counts");
  for (const int count : counts) text += cat(" ", count);
  return text;
}

GroupedProblem::GroupedProblem(const GroupedShape& shape, std::uint64_t seed) : shape_(shape) {
  const bool counts = shape.grouping == Grouping::counts;
  const int most = *std::max_element(shape.counts.begin(), shape.counts.end()) + shape.spare;
  for (std::size_t group = 0; group < shape.counts.size(); ++group) {
    begins_.push_back(rows_);
    rows_ += counts ? most : shape.counts[group];
    if (shape.grouping == Grouping::rows) {
      list.resize(static_cast<std::size_t>(rows_), static_cast<std::int32_t>(group));
      rows_ = (rows_ + 127) / 128 * 128;
      list.resize(static_cast<std::size_t>(rows_), -1);
    } else {
      list.push_back(static_cast<std::int32_t>(counts ? shape.counts[group] : rows_));
    }
  }
  if (!counts) rows_ += shape.spare;
  if (shape.grouping == Grouping::rows) list.resize(static_cast<std::size_t>(rows_), -1);
  fill(shape, seed);
  const std::int64_t groups = static_cast<std::int64_t>(shape.counts.size()), pitch = shape.columns() + shape.padding;
  const auto of_rows = [&](void* data, DType dtype, std::int64_t columns, std::int64_t apart) {
    return counts ? Tensor::strided(data, kCpu, dtype, {groups, most, columns}, {most * apart, apart, 1})
                  : Tensor::strided(data, kCpu, dtype, {rows_, columns}, {apart, 1});
  };
  args.a = of_rows(a_.data(), shape.dtype, shape.k, shape.k);
  args.b = Tensor::contiguous(b_.data(), kCpu, shape.dtype, {groups, shape.n, shape.k});
  args.d = of_rows(d_.data() + kGuard, shape.out, shape.columns(), pitch);
  args.groups = Tensor::contiguous(list.data(), kCpu, DType::i32, {static_cast<std::int64_t>(list.size())});
  args.grouping = shape.grouping;
  args.gate = shape.gate;
  args.gate_interleaved = shape.gate_interleaved;
  args.beta = shape.beta;
  if (shape.beta != 0)
    args.c = shape.in_place ? args.d : of_rows(c_.data() + kGuard, shape.out, shape.columns(), pitch);
  if (shape.bias) args.bias = Tensor::contiguous(bias_.data(), kCpu, added(), {groups, shape.n});
  if (shape.out == DType::e4m3) {
    const DType type = shape.packed_out ? DType::i32 : DType::f32;
    const std::int64_t words = shape.packed_out ? (shape.columns() + 511) / 512 : blocks_of(shape.columns()),
                       down = counts ? most : rows_;
    scale_d_.assign(static_cast<std::size_t>(rows_ * words), std::nanf(""));
    args.scale_d = counts ? Tensor::strided(scale_d_.data(), kCpu, type, {groups, down, words}, {down * words, 1, down})
                          : Tensor::strided(scale_d_.data(), kCpu, type, {down, words}, {1, down});
    args.powers_of_two = shape.packed_out;
  }
  if (shape.scales == Scales::tensor) return;
  // Stored as [rows, blocks], or transposed; the tensors are views.
  const DType type = shape.packed_scales ? DType::i32 : DType::f32;
  const std::int64_t blocks = shape.packed_scales ? (shape.k + 511) / 512 : blocks_of(shape.k),
                     down = shape.scales == Scales::row ? shape.n : blocks_of(shape.n);
  const auto scale = [&](float* data, std::int64_t batch, std::int64_t rows, bool k_major, bool batched) {
    const std::int64_t r = k_major ? blocks : 1, c = k_major ? 1 : rows;
    return batched ? Tensor::strided(data, kCpu, type, {batch, rows, blocks}, {rows * blocks, r, c})
                   : Tensor::strided(data, kCpu, type, {rows, blocks}, {r, c});
  };
  args.scale_a = scale(scale_a_.data(), groups, counts ? most : rows_, shape.scale_a_transposed, counts);
  args.scale_b = scale(scale_b_.data(), groups, down, shape.scales == Scales::block || shape.scale_b_transposed, true);
}

void GroupedProblem::fill(const GroupedShape& shape, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const auto in = static_cast<std::size_t>(size_of(shape.dtype)), out = static_cast<std::size_t>(size_of(shape.out));
  const auto k = static_cast<std::size_t>(shape.k), n = static_cast<std::size_t>(shape.n),
             rows = static_cast<std::size_t>(rows_), groups = shape.counts.size();
  a_.assign(rows * k * in, kPoison);
  for (std::size_t group = 0; group < groups; ++group)
    draw(a_, shape.dtype, static_cast<std::size_t>(begins_[group]) * k,
         static_cast<std::size_t>(shape.counts[group]) * k, random);
  b_.assign(groups * n * k * in, 0);
  draw(b_, shape.dtype, 0, groups * n * k, random);
  bias_.assign(groups * n * static_cast<std::size_t>(size_of(added())), 0);
  draw(bias_, added(), 0, groups * n, random);
  const auto pitch = static_cast<std::size_t>(shape.columns() + shape.padding);
  d_.assign(rows * pitch * out + 2 * kGuard, kPoison);
  c_ = d_;
  for (std::size_t group = 0; group < groups; ++group)
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape.counts[group]); ++row)
      draw(c_, shape.out, kGuard / out + (static_cast<std::size_t>(begins_[group]) + row) * pitch,
           static_cast<std::size_t>(shape.columns()), random);
  if (shape.in_place) d_ = c_;
  std::uniform_real_distribution<float> scale(0.5f, 2.0f);
  scale_a_.resize(rows * static_cast<std::size_t>(blocks_of(shape.k)));
  scale_b_.resize(groups * n * static_cast<std::size_t>(blocks_of(shape.k)));
  for (std::vector<float>* scales : {&scale_a_, &scale_b_})
    for (float& value : *scales)
      if (shape.packed_scales) {
        const std::uint32_t word = 0x7c7c7c7cu + (static_cast<std::uint32_t>(random()) & 0x07070707u);
        std::memcpy(&value, &word, sizeof word);
      } else {
        value = scale(random);
      }
}

double GroupedProblem::product(std::size_t group, std::int64_t row, int column) const {
  const auto k = static_cast<std::size_t>(shape_.k);
  const std::size_t b_row = group * static_cast<std::size_t>(shape_.n) + static_cast<std::size_t>(column);
  double all = 0;
  for (std::size_t first = 0; first < k; first += 128) {
    double sum = 0;
    for (std::size_t i = first; i < std::min(k, first + 128); ++i)
      sum +=
          value_at(a_, shape_.dtype, static_cast<std::size_t>(row) * k + i) * value_at(b_, shape_.dtype, b_row * k + i);
    if (args.scale_a) {
      const bool counts = shape_.grouping == Grouping::counts;
      const Tensor &sa = *args.scale_a, &sb = *args.scale_b;
      const std::int64_t number = static_cast<std::int64_t>(first) / 128,
                         block = shape_.packed_scales ? number / 4 : number, per = counts ? sa.shape[1] : rows_,
                         right = shape_.scales == Scales::row ? column : column / 128;
      const std::int64_t left_at = counts
                                       ? row / per * sa.strides[0] + row % per * sa.strides[1] + block * sa.strides[2]
                                       : row * sa.strides[0] + block * sa.strides[1];
      const std::int64_t right_at =
          static_cast<std::int64_t>(group) * sb.strides[0] + right * sb.strides[1] + block * sb.strides[2];
      const auto value = [&](const Tensor& scales, std::int64_t at) {
        if (!shape_.packed_scales) return static_cast<double>(static_cast<const float*>(scales.data)[at]);
        const std::uint32_t word = static_cast<const std::uint32_t*>(scales.data)[at];
        return std::ldexp(1.0, static_cast<int>(word >> number % 4 * 8 & 0xff) - 127);
      };
      sum *= value(sa, left_at) * value(sb, right_at);
    }
    all += sum;
  }
  return all;
}

double GroupedProblem::sum(std::size_t group, std::int64_t row, int column) const {
  const double bias =
      shape_.bias
          ? value_at(bias_, added(), group * static_cast<std::size_t>(shape_.n) + static_cast<std::size_t>(column))
          : 0;
  return static_cast<double>(args.alpha) * product(group, row, column) + bias;
}

double GroupedProblem::ended(double value, std::size_t group, std::int64_t row, int column) const {
  if (!end) return value;
  const std::int64_t of_d = shape_.grouping == Grouping::counts ? row - begins_[group] : row;
  return end(value, of_d, column, static_cast<std::int64_t>(group));
}

double GroupedProblem::expected(std::size_t group, std::int64_t row, int column) const {
  if (shape_.gate != Activation::none) {
    const int half = shape_.columns(), gate = shape_.gate_interleaved ? 2 * column : column,
              other = shape_.gate_interleaved ? gate + 1 : column + half;
    return ended(activated(sum(group, row, gate), shape_.gate) * sum(group, row, other), group, row, column);
  }
  const double value = ended(sum(group, row, column), group, row, column);
  if (shape_.beta == 0) return value;
  const auto pitch = static_cast<std::size_t>(shape_.columns() + shape_.padding);
  const std::size_t at = static_cast<std::size_t>(row) * pitch + static_cast<std::size_t>(column),
                    guard = kGuard / static_cast<std::size_t>(size_of(shape_.out));
  return value + static_cast<double>(shape_.beta) * value_at(c_, shape_.out, guard + at);
}

/// Each row by itself; the reference has its numbers.
std::string GroupedProblem::quantised_problem() const {
  const auto columns = static_cast<std::size_t>(shape_.columns()),
             pitch = columns + static_cast<std::size_t>(shape_.padding);
  const Tensor& scales = *args.scale_d;
  const auto apart = scales.strides[static_cast<std::size_t>(scales.rank - 1)];
  for (std::size_t group = 0; group < shape_.counts.size(); ++group)
    for (int i = 0; i < shape_.counts[group]; ++i) {
      const std::int64_t row = begins_[group] + i, per = scales.rank == 3 ? scales.shape[1] : rows_;
      const std::int64_t place = row / per * (scales.rank == 3 ? scales.strides[0] : 0) + row % per;
      std::vector<double> wanted;
      double norm = 0;
      for (int column = 0; column < shape_.columns(); ++column) {
        wanted.push_back(expected(group, row, column));
        norm += wanted.back() * wanted.back();
      }
      const double limit = (shape_.gate == Activation::none ? 20 : 40) * gemm_limit(shape_.dtype, DType::f32);
      const QuantisedRow check{
          wanted,
          [&](std::size_t column) { return from_e4m3(d_[kGuard + static_cast<std::size_t>(row) * pitch + column]); },
          [&](std::size_t block) { return written_scale(scales, place, apart, static_cast<std::int64_t>(block)); },
          limit * std::sqrt(norm / static_cast<double>(columns)), args.powers_of_two};
      if (const std::string wrong = check.problem(); !wrong.empty())
        return cat("group ", group, " row ", i, ": ", wrong);
    }
  return "";
}

std::string GroupedProblem::problem() const {
  const auto pitch = static_cast<std::size_t>(shape_.columns() + shape_.padding),
             size = static_cast<std::size_t>(size_of(shape_.out));
  const std::vector<unsigned char> inside(d_.begin() + kGuard, d_.end() - kGuard);
  std::vector<char> owned(static_cast<std::size_t>(rows_), 0);
  double wrong = 0, all = 0;
  const bool quantised = shape_.out == DType::e4m3;
  if (const std::string bad = quantised ? quantised_problem() : ""; !bad.empty()) return bad;
  for (std::size_t group = 0; group < shape_.counts.size(); ++group)
    for (int i = 0; i < shape_.counts[group]; ++i) {
      const std::int64_t row = begins_[group] + i;
      owned[static_cast<std::size_t>(row)] = 1;
      for (int column = 0; !quantised && column < shape_.columns(); ++column) {
        const double wanted = expected(group, row, column),
                     got = value_at(inside, shape_.out,
                                    static_cast<std::size_t>(row) * pitch + static_cast<std::size_t>(column));
        if (std::isnan(got)) return cat("group ", group, " row ", i, " column ", column, " is NaN");
        wrong += (got - wanted) * (got - wanted);
        all += wanted * wanted;
      }
    }
  if (const double error = all > 0 ? std::sqrt(wrong / all) : 0; error > gemm_limit(shape_.dtype, shape_.out))
    return cat("relative error ", error);
  if (written_outside()) return "memory beside d's rows was written";
  if (shape_.grouping == Grouping::rows) return "";
  for (std::size_t row = 0; row < owned.size(); ++row)
    for (std::size_t i = row * pitch * size; owned[row] == 0 && i < (row * pitch + pitch) * size; ++i)
      if (inside[i] != kPoison) return cat("row ", row, ", which no group has, was written");
  return "";
}

bool GroupedProblem::written_outside() const {
  const auto size = static_cast<std::size_t>(size_of(shape_.out)),
             row = static_cast<std::size_t>(shape_.columns()) * size,
             pitch = static_cast<std::size_t>(shape_.columns() + shape_.padding) * size;
  for (std::size_t i = 0; i < d_.size(); ++i) {
    const bool guard = i < kGuard || i >= d_.size() - kGuard;
    if ((guard || (i - kGuard) % pitch >= row) && d_[i] != kPoison) return true;
  }
  return false;
}

}  // namespace tj::test
