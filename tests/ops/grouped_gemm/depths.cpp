// See depths.hpp.
#include "ops/grouped_gemm/depths.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include "common/half.hpp"
#include "support/fail.hpp"

namespace tj::test {
namespace {

const Device kCpu{DeviceKind::cpu, 0};

}  // namespace

DepthsProblem::DepthsProblem(const DepthsShape& shape, unsigned seed) : shape_(shape) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (const int depth : shape.depths) list.push_back(k_ += depth);
  const std::int64_t all = std::max<std::int64_t>(k_ + shape.spare, 1), groups = std::ssize(shape.depths);
  const auto operand = [&](std::vector<std::uint16_t>& memory, int rows) {
    const std::int64_t pitch = (rows + 7) / 8 * 8;
    memory.assign(static_cast<std::size_t>(all * pitch), 0xffff);
    for (std::int64_t k = 0; k < k_; ++k)
      for (int row = 0; row < rows; ++row)
        memory[static_cast<std::size_t>(k * pitch + row)] = samples::from_float(normal(random), shape.dtype);
    return Tensor::strided(memory.data(), kCpu, shape.dtype, {rows, all}, {1, pitch});
  };
  args.a = operand(a_, shape.m);
  args.b = operand(b_, shape.n);
  const auto count = static_cast<std::size_t>(groups * shape.m * shape.n);
  before_.assign(count, 0);
  d_.assign(count * static_cast<std::size_t>(size_of(shape.out)), 0xff);
  for (std::size_t i = 0; i < count && shape.beta != 0; ++i) before_[i] = put(d_, i, normal(random));
  args.d = Tensor::contiguous(d_.data(), kCpu, shape.out, {groups, shape.m, shape.n});
  args.groups = Tensor::contiguous(list.data(), kCpu, DType::i32, {groups});
  args.grouping = Grouping::depths;
  args.beta = shape.beta;
  if (shape.beta != 0) args.c = args.d;
  if (!shape.bias) return;
  bias_.resize(static_cast<std::size_t>(groups * shape.n * size_of(shape.out)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(groups * shape.n); ++i)
    bias_values_.push_back(put(bias_, i, normal(random)));
  args.bias = Tensor::contiguous(bias_.data(), kCpu, shape.out, {groups, shape.n});
}

std::string DepthsProblem::problem() const {
  double wrong = 0, all = 0;
  std::int64_t begin = 0;
  for (std::size_t g = 0; g < list.size(); ++g) {
    for (int i = 0; i < shape_.m; ++i)
      for (int j = 0; j < shape_.n; ++j) {
        const auto row = static_cast<std::size_t>(g) * static_cast<std::size_t>(shape_.m) + static_cast<std::size_t>(i);
        const std::size_t at = row * static_cast<std::size_t>(shape_.n) + static_cast<std::size_t>(j);
        double wanted = 0;
        if (shape_.bias) wanted += bias_values_[g * static_cast<std::size_t>(shape_.n) + static_cast<std::size_t>(j)];
        for (std::int64_t k = begin; k < list[g]; ++k) wanted += element(args.a, a_, i, k) * element(args.b, b_, j, k);
        if (end) wanted = end(wanted, i, j, static_cast<std::int64_t>(g));
        wanted += static_cast<double>(shape_.beta) * before_[at];
        const double got = get(d_, at);
        if (std::isnan(got)) return support::cat("d[", g, ", ", i, ", ", j, "] is NaN");
        wrong += (got - wanted) * (got - wanted);
        all += wanted * wanted;
      }
    begin = list[g];
  }
  const double error = all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
  const double limit = shape_.out == DType::f32 ? 1e-5 : shape_.out == DType::f16 ? 5e-4 : 4e-3;
  return error <= limit ? std::string() : support::cat("relative error ", error);
}

double DepthsProblem::element(const Tensor& t, const std::vector<std::uint16_t>& memory, int row,
                              std::int64_t k) const {
  return static_cast<double>(samples::to_float(memory[static_cast<std::size_t>(k * t.strides[1] + row)], shape_.dtype));
}
double DepthsProblem::put(std::vector<unsigned char>& bytes, std::size_t i, float value) const {
  if (shape_.out == DType::f32) {
    std::memcpy(bytes.data() + 4 * i, &value, 4);
    return static_cast<double>(value);
  }
  const std::uint16_t half = samples::from_float(value, shape_.out);
  std::memcpy(bytes.data() + 2 * i, &half, 2);
  return static_cast<double>(samples::to_float(half, shape_.out));
}
double DepthsProblem::get(const std::vector<unsigned char>& bytes, std::size_t i) const {
  if (shape_.out == DType::f32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return static_cast<double>(value);
  }
  std::uint16_t half = 0;
  std::memcpy(&half, bytes.data() + 2 * i, 2);
  return static_cast<double>(samples::to_float(half, shape_.out));
}

}  // namespace tj::test
