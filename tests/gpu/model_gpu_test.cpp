// Protects the model's word for whole kernels. On the same inputs a device of sm_90a gives the model's bits where every
// sum is exact, and comes as near to f64 where none is. Through the public API, one runtime for each.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/gemm/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;
using test::GemmProblem;
using test::GemmShape;

namespace {

const Device kCpu{DeviceKind::cpu, 0};

Device sm90a() {
  const Device device = test::nvidia_gpu();
  if (Runtime::instance().target_of(device) != "sm_90a") testing::skip("the first GPU does not run code of sm_90a");
  return device;
}

void set(const Tensor& t, std::int64_t place, int value) {
  static constexpr std::uint8_t kE4m3[] = {0x00, 0x38, 0x40, 0x44, 0x48};  // 0 to 4
  const auto number = static_cast<float>(value);
  if (t.dtype == DType::f32)
    static_cast<float*>(t.data)[place] = number;
  else if (t.dtype == DType::e4m3)
    static_cast<std::uint8_t*>(t.data)[place] =
        static_cast<std::uint8_t>((value < 0 ? 0x80 : 0) | kE4m3[value < 0 ? -value : value]);
  else
    static_cast<std::uint16_t*>(t.data)[place] =
        t.dtype == DType::f16 ? samples::float_to_half(number) : samples::float_to_bf16(number);
}

/// Whole numbers of -4 to 4 in every element: sums of their products, by any tile and in any parts, are exact in f32.
void fill_whole(const Tensor& t, std::mt19937& random) {
  std::array<std::int64_t, 8> at{};
  std::int64_t count = 1;
  for (int axis = 0; axis < t.rank; ++axis) count *= t.shape[static_cast<std::size_t>(axis)];
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(t.rank); ++axis) place += at[axis] * t.strides[axis];
    set(t, place, static_cast<int>(random() % 9) - 4);
    for (auto axis = static_cast<std::size_t>(t.rank); axis-- > 0;) {
      if (++at[axis] < t.shape[axis]) break;
      at[axis] = 0;
    }
  }
}

std::vector<unsigned char> whole_numbers(const GemmShape& shape, unsigned seed, Runtime& runtime, Device device) {
  GemmProblem problem(shape, seed);
  std::mt19937 random(seed);
  fill_whole(problem.args.a, random);
  fill_whole(problem.args.b, random);
  if (problem.args.c) fill_whole(*problem.args.c, random);
  if (problem.args.bias) fill_whole(*problem.args.bias, random);
  problem.run(runtime, device);
  return problem.result();
}

std::vector<GemmShape> gemm_shapes() {
  std::vector<GemmShape> shapes;
  const auto add = [&](int m, int n, int k, DType dtype, DType out) -> GemmShape& {
    shapes.push_back(test::gemm_shape(m, n, k, dtype, out));
    return shapes.back();
  };
  for (const int order : {0, 1, 2, 3})
    for (const auto& [m, n, k] : {std::array{1, 1, 1}, {65, 257, 129}, {300, 70, 1000}, {128, 512, 200}}) {
      GemmShape& shape = add(m, n, k, n % 2 ? DType::bf16 : DType::f16,
                             order == 3 ? DType::f32
                             : n % 2    ? DType::bf16
                                        : DType::f16);
      shape.a_transposed = (order & 1) != 0;
      shape.b_transposed = (order & 2) != 0;
    }
  GemmShape& epilogue = add(150, 270, 333, DType::f16, DType::f16);
  epilogue.batch = 3;
  epilogue.alpha = 0.5f;
  epilogue.beta = -1.0f;
  epilogue.bias = epilogue.in_place = true;
  epilogue.activation = Activation::relu;
  add(16, 258, 8200, DType::bf16, DType::f32).a_transposed = true;  // in parts of K
  for (const DType out : {DType::f16, DType::bf16, DType::f32}) add(65, 257, 1000, DType::e4m3, out);
  add(700, 700, 328, DType::f16, DType::f16);  // clusters
  return shapes;
}

}  // namespace

TEST_CASE("products of whole numbers: the same bits, epilogues and what surrounds d included") {
  const Device device = sm90a();
  unsigned seed = 1;
  for (const GemmShape& shape : gemm_shapes()) {
    CAPTURE(shape.text());
    const std::vector<unsigned char> there = whole_numbers(shape, seed, Runtime::instance(), device);
    const std::vector<unsigned char> here = whole_numbers(shape, seed++, testing::model_runtime(), kCpu);
    CHECK(there == here);
  }
}

TEST_CASE("attention: both within the tolerance of f64, and how far from each other") {
  const Device device = sm90a();
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const FmhaShape& shape : {FmhaShape{1, 2, 1, 193, 700, 128, DType::f16, false, false, true},
                                 FmhaShape{1, 2, 2, 500, 384, 64, DType::bf16, true, true, true},
                                 FmhaShape{2, 4, 2, 129, 161, 128, DType::bf16, true, false, true}}) {
    CAPTURE(shape.text());
    FmhaProblem there(shape, seed), here(shape, seed);
    ++seed;
    there.run(Runtime::instance(), device);
    here.run(testing::model_runtime(), kCpu);
    CHECK(there.problem() == "");
    CHECK(here.problem() == "");
    const Tensor &o = there.args.o, &model = here.args.o;
    const std::int64_t count = o.shape[0] * o.shape[1] * o.shape[2] * o.shape[3];
    std::int64_t equal = 0;
    double farthest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint16_t a = static_cast<const std::uint16_t*>(o.data)[i],
                          b = static_cast<const std::uint16_t*>(model.data)[i];
      equal += a == b;
      farthest = std::max(farthest, std::fabs(static_cast<double>(samples::to_float(a, shape.dtype)) -
                                              static_cast<double>(samples::to_float(b, shape.dtype))));
    }
    std::printf("%s: %lld of %lld elements of o have the model's bits, the largest difference is %.3g\n",
                shape.text().c_str(), static_cast<long long>(equal), static_cast<long long>(count), farthest);
  }
}
