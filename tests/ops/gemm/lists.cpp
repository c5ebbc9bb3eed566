#include "ops/gemm/lists.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/gemm/checks.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {
namespace {

constexpr DType kIn[] = {DType::f16, DType::bf16};

std::string run_rung(const std::string& arch, const GemmShape& shape, int rung, std::uint64_t seed) {
  GemmProblem problem(shape, seed);
  problem.rung = rung;
  try {
    problem.run(testing::model_runtime("model:" + arch), {DeviceKind::cpu, 0});
  } catch (const Error& e) {
    return e.message + e.log;
  }
  return problem.problem();
}

std::vector<GemmShape> shapes_of_rung(int rung) {
  std::vector<GemmShape> shapes = {{128, 128, 64}, {1, 1, 1}, {33, 97, 40}, {50, 120, 24}};
  shapes[2].a_transposed = shapes[3].b_transposed = true;
  if (rung >= 2) shapes.insert(shapes.end(), {{40, 100, 64}, {128, 128, 130}, {7, 127, 200}, {120, 125, 450}});
  if (rung < 3) return shapes;
  shapes.insert(shapes.end(), {{200, 300, 136}, {200, 304, 136}, {129, 513, 72}, {100, 260, 330, 3}});
  shapes.back().a_transposed = shapes.back().b_transposed = shapes.back().b_shared = true;
  shapes[shapes.size() - 2].dtype = shapes[shapes.size() - 2].out = DType::bf16;
  GemmShape all{130, 300, 90};
  all.out = DType::f32;
  all.bias = all.in_place = true;
  all.alpha = 0.5f;
  all.beta = -1;
  all.padding = 3;
  all.activation = Activation::gelu;
  shapes.push_back(all);
  all = {70, 40, 64};
  all.alpha = 0;
  shapes.push_back(all);
  return shapes;
}

}  // namespace

void check_gemm_sizes(const std::string& arch) {
  CAPTURE(arch);
  std::uint64_t seed = 1;
  int index = 0;
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {1, 1, 64},
                                {64, 256, 64},
                                {65, 257, 65},
                                {128, 256, 128},
                                {129, 255, 63},
                                {127, 300, 200},
                                {1, 300, 500},
                                {300, 1, 70},
                                {16, 96, 1000},
                                {33, 31, 129},
                                {7, 513, 127}}) {
    if (testing::thinned_out(index++)) continue;
    const GemmShape shape = gemm_shape(m, n, k);
    CAPTURE(shape.text());
    CHECK(run_gemm_on_model(arch, shape, seed++) == "");
  }
}

void check_gemm_places(const std::string& arch) {
  CAPTURE(arch);
  std::uint64_t seed = 500;
  for (int order = 0, index = 0; order < 4; ++order)
    for (const auto& [m, n, k, shift] :
         {std::array{131, 261, 201, 0}, {5, 3, 3, 1}, {70, 11, 65, 3}, {64, 64, 64, 1}}) {
      if (testing::sampled_out(order + index++)) continue;
      GemmShape shape;
      shape.dtype = kIn[order % 2];
      shape.out = order == 3 ? DType::f32 : shape.dtype;
      shape.a_transposed = order / 2 == 1;
      shape.b_transposed = order % 2 == 1;
      shape.any_stride = true;
      shape.m = m;
      shape.n = n;
      shape.k = k;
      shape.shift = shift;
      shape.batch = shift == 3 ? 2 : 0;  // the second matrix begins elsewhere than the first
      shape.alpha = shift == 3 ? 0.5f : 1.0f;
      CAPTURE(shape.text());
      CHECK(run_gemm_on_model(arch, shape, seed++) == "");
    }
}

void check_gemm_strides(const std::string& arch) {
  CAPTURE(arch);
  GemmShape shape;
  shape.batch = 3;
  shape.m = 70;
  shape.n = 40;
  shape.k = 100;
  shape.padding = 1;
  CHECK(run_gemm_on_model(arch, shape, 11) == "");
  shape.b_shared = true;
  shape.beta = 2;
  CHECK(run_gemm_on_model(arch, shape, 12) == "");
  shape.in_place = true;
  CHECK(run_gemm_on_model(arch, shape, 13) == "");
  shape.padding = 0;
  shape.n = 64;  // 16 bytes at a time
  CHECK(run_gemm_on_model(arch, shape, 14) == "");
}

void check_gemm_unread(const std::string& arch) {
  CAPTURE(arch);
  Runtime& runtime = testing::model_runtime("model:" + arch);
  GemmShape shape = gemm_shape(70, 90, 200);
  shape.alpha = 0;
  shape.beta = 1.5f;
  GemmProblem problem(shape, 21);
  std::memset(problem.args.a.data, 0xff, 2);  // NaN
  problem.run(runtime, {DeviceKind::cpu, 0});
  CHECK(problem.problem() == "");
  shape.beta = 0;  // c is all NaN then
  GemmProblem zeros(shape, 22);
  std::memset(zeros.args.b.data, 0xff, 2);
  zeros.run(runtime, {DeviceKind::cpu, 0});
  CHECK(zeros.problem() == "");
  zeros.args.c.reset();
  zeros.run(runtime, {DeviceKind::cpu, 0});
}

void check_gemm_nan(const std::string& arch) {
  CAPTURE(arch);
  GemmShape shape = gemm_shape(130, 70, 100);
  shape.activation = Activation::relu;
  GemmProblem problem(shape, 31);
  static_cast<std::uint16_t*>(problem.args.a.data)[problem.args.a.strides[0] * 65 + 99] = 0x7e00;
  problem.run(testing::model_runtime("model:" + arch), {DeviceKind::cpu, 0});
  const auto* d = static_cast<const std::uint16_t*>(problem.args.d.data);
  for (int row = 0; row < shape.m; ++row) {
    CAPTURE(row);
    CHECK(((d[row * 70 + 69] & 0x7fff) > 0x7c00) == (row == 65));
  }
}

void check_random_gemm(const std::string& arch) {
  CAPTURE(arch);
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t next = 0;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < testing::drawn(16); ++i) {
    GemmShape shape;
    shape.m = between(0, 1) ? between(1, 300) : between(1, 20);
    shape.n = between(0, 1) ? between(1, 600) : between(1, 40);
    shape.k = between(0, 1) ? between(1, 400) : between(1, 66);
    shape.batch = between(0, 3);
    shape.b_shared = between(0, 1) == 1;
    shape.beta = 0.25f;  // one kernel for all: what it costs is compiling
    shape.alpha = static_cast<float>(between(-8, 8)) / 4;
    shape.in_place = between(0, 1) == 1;
    shape.padding = between(0, 9);
    shape.any_stride = between(0, 1) == 1;
    shape.shift = between(0, 7);
    CAPTURE(shape.text());
    CHECK(run_gemm_on_model(arch, shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}

void check_gemm_rungs(const std::string& arch) {
  CAPTURE(arch);
  for (int rung = 1; rung <= 10; ++rung) {
    std::uint64_t seed = 10;
    int index = rung;
    for (const GemmShape& shape : shapes_of_rung(rung)) {
      if (testing::sampled_out(index++)) continue;
      CAPTURE(rung);
      CAPTURE(shape.text());
      CHECK(run_rung(arch, shape, rung, ++seed) == "");
    }
  }
}

}  // namespace tj::test
