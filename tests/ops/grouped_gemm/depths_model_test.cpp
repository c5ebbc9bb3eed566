// Protects products of groups along K on the CPU model, against f64: groups that begin and end anywhere, empty ones,
// NaN behind the last, gradients that add up in place, every tile, lists that hold anything, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "common/half.hpp"
#include "ops/gemm/own_ends.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

const Device kCpu{DeviceKind::cpu, 0};

struct Shape {
  std::vector<int> depths;  ///< K of each group
  int m = 64, n = 64, spare = 0;
  DType dtype = DType::bf16, out = DType::f32;
  bool bias = false;
  float beta = 0;  ///< c is d
};

/// a and b have a row for each place of K; those of no group are NaN.
class Problem {
 public:
  Problem(const Shape& shape, unsigned seed) : shape_(shape) {
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
  GroupedGemmArgs args;
  std::vector<std::int32_t> list;
  test::OwnEnd end;  ///< what args.end_text says, in f64

  std::string run() {
    testing::model_runtime().run(args);
    return problem();
  }
  std::string problem() const {
    double wrong = 0, all = 0;
    std::int64_t begin = 0;
    for (std::size_t g = 0; g < list.size(); ++g) {
      for (int i = 0; i < shape_.m; ++i)
        for (int j = 0; j < shape_.n; ++j) {
          const auto row =
              static_cast<std::size_t>(g) * static_cast<std::size_t>(shape_.m) + static_cast<std::size_t>(i);
          const std::size_t at = row * static_cast<std::size_t>(shape_.n) + static_cast<std::size_t>(j);
          double wanted = 0;
          if (shape_.bias) wanted += bias_values_[g * static_cast<std::size_t>(shape_.n) + static_cast<std::size_t>(j)];
          for (std::int64_t k = begin; k < list[g]; ++k)
            wanted += element(args.a, a_, i, k) * element(args.b, b_, j, k);
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

 private:
  double element(const Tensor& t, const std::vector<std::uint16_t>& memory, int row, std::int64_t k) const {
    return static_cast<double>(
        samples::to_float(memory[static_cast<std::size_t>(k * t.strides[1] + row)], shape_.dtype));
  }
  double put(std::vector<unsigned char>& bytes, std::size_t i, float value) const {
    if (shape_.out == DType::f32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
      return static_cast<double>(value);
    }
    const std::uint16_t half = samples::from_float(value, shape_.out);
    std::memcpy(bytes.data() + 2 * i, &half, 2);
    return static_cast<double>(samples::to_float(half, shape_.out));
  }
  double get(const std::vector<unsigned char>& bytes, std::size_t i) const {
    if (shape_.out == DType::f32) {
      float value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      return static_cast<double>(value);
    }
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    return static_cast<double>(samples::to_float(half, shape_.out));
  }

  Shape shape_;
  std::int32_t k_ = 0;
  std::vector<std::uint16_t> a_, b_;
  std::vector<unsigned char> d_, bias_;
  std::vector<double> before_, bias_values_;
};

std::string refusal(const std::function<void(GroupedGemmArgs&)>& change) {
  Problem problem({{20, 30}}, 1);
  change(problem.args);
  return testing::said_by([&] { ops::validate(problem.args, true); });
}

}  // namespace

TEST_CASE("ends of one's own, by the rows of a group's matrix; a group without K has its bias for a value") {
  for (int example = 0; example < test::kEndExamples; ++example) {
    if (testing::sampled_out(example)) continue;
    Shape shape{{70, 0, 3, 129}, 70, 40, 5};
    shape.bias = example != 2;
    shape.beta = example == 1 ? -0.5f : 0;
    CAPTURE(example);
    Problem problem(shape, 900u + static_cast<unsigned>(example));
    test::set_end(problem.args, problem.end, example, "group");
    CHECK(problem.run() == "");
  }
}

TEST_CASE("groups that begin and end anywhere, empty ones, none; in place, with a bias, each type") {
  unsigned seed = 1;
  for (const std::vector<int>& depths :
       {std::vector{70, 0, 3, 129, 1}, {0, 0}, {1}, {64, 64, 128}, {0, 5, 0, 300, 63, 65}})
    for (const DType out : {DType::f32, DType::bf16}) {
      Shape shape;
      shape.depths = depths;
      shape.m = seed % 2 == 0 ? 72 : 131;
      shape.n = seed % 3 == 0 ? 40 : 200;
      shape.dtype = seed % 2 == 0 ? DType::f16 : DType::bf16;
      shape.out = out;
      shape.spare = static_cast<int>(seed % 4);
      shape.bias = seed % 3 == 1;
      shape.beta = seed % 4 < 2 ? 1.0f : 0.0f;
      CAPTURE(seed);
      CHECK(Problem(shape, seed++).run() == "");
    }
}

TEST_CASE("one token, and one row or column: the order of one element is that of the rest") {
  for (const int m : {1, 9})
    for (const int n : {1, 9}) {
      Shape shape;
      shape.depths = {1};
      shape.m = m;
      shape.n = n;
      shape.dtype = DType::bf16;
      shape.out = DType::f32;
      CAPTURE(m);
      CAPTURE(n);
      CHECK(Problem(shape, 9).run() == "");
    }
}

TEST_CASE("every tile that has groups along K, on few blocks") {
  const arch::Arch& arch = *arch::find("sm_90a");
  int served = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    Shape shape;
    shape.depths = {0, 3 * tile.block_k + 5, 1, 7 * tile.block_k};
    shape.m = tile.block_m + 8;
    shape.n = tile.block_n + 24;
    shape.out = t % 2 == 0 ? DType::f32 : DType::bf16;
    Problem problem(shape, static_cast<unsigned>(t));
    ops::GemmKernel kernel = ops::grouped_gemm_kind(problem.args);
    kernel.tile = t;
    if (!ops::gemm_tile_fits(tile, kernel) || ops::gemm_blocks_per_sm(tile, arch) == 0) continue;
    if (testing::sampled_out(served++)) continue;
    const ops::Candidate candidate = ops::gemm_candidate(kernel, arch);
    sched::Options options;
    options.order_barriers = candidate.turns;
    test::EmittedKernel emitted(candidate.graph, options);
    ops::LaunchPlan plan;
    plan.sm_count = 3;
    ops::grouped_gemm_plan(problem.args, {t, 1}, candidate.geometry.as<ops::GemmLaunch>(), plan);
    CAPTURE(t);
    CHECK(emitted.launch(plan, plan.blocks, static_cast<std::uint64_t>(t), {}) == "");
    CHECK(problem.problem() == "");
  }
  CHECK(served > 5);
}

TEST_CASE("lists that hold anything: no fault, and right lists are right afterwards") {
  std::mt19937 random(3);
  for (int round = 0; round < 5; ++round) {
    Shape shape;
    shape.depths = {40, 7, 90};
    Problem problem(shape, 20);
    for (std::int32_t& each : problem.list)
      each = round == 0   ? std::numeric_limits<std::int32_t>::max()
             : round == 1 ? std::numeric_limits<std::int32_t>::min()
                          : static_cast<std::int32_t>(random() % 400) - 100;
    testing::model_runtime().run(problem.args);
    CHECK(Problem(shape, 20).run() == "");
  }
}

TEST_CASE("what does not go with groups along K is named") {
  const auto says = [](const std::string& text, std::string_view part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text);
    return found;
  };
  CHECK(refusal([](GroupedGemmArgs&) {}) == "");
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.a.dtype = g.b.dtype = DType::e4m3; }), "a.strides[0] (M) is 1"));
  CHECK(says(refusal([](GroupedGemmArgs& g) {
               g.d.dtype = DType::e4m3;
               g.scale_d = g.d;
             }),
             "d.dtype is e4m3; allowed with depths"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.gate = Activation::silu; }), "gate is 3; allowed with depths"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.d.rank = 2; }), "d.rank is 2"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.b.shape[1] = 49; }), "b.shape[1] (K) is 49"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.d.shape[1] = 63; }), "d.shape[1] (M) is 63"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.groups.shape[0] = 3; }), "groups.shape[0]"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.a.strides = {50, 1}; }), "a.strides[0] (M) is 50"));
  CHECK(says(refusal([](GroupedGemmArgs& g) { g.a.strides[1] = 68; }), "a.strides[1] (K) is 68"));
}
