// Protects products of groups along K of e4m3 on the CPU model, against f64: scales of each kind, order and type on
// both sides, groups that end at multiples of 128, empty ones, NaN behind the last, sums that add up in place, every
// tile, lists that hold anything, and what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "ops/quantised.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

const Device kCpu{DeviceKind::cpu, 0};
constexpr int kBlock = 128;

struct Shape {
  std::vector<int> ends;  ///< of groups
  int m = 64, n = 64, k = 384;
  Scales scales = Scales::row;
  bool a_by_k = false, b_by_k = false, packed = false;  ///< orders and type of scales
  bool adds = false;                                    ///< c is d
};

/// Places of K behind the last group are NaN.
class Problem {
 public:
  Problem(const Shape& shape, unsigned seed) : list(shape.ends.begin(), shape.ends.end()), shape_(shape) {
    std::mt19937 random(seed);
    const auto operand = [&](std::vector<std::uint8_t>& memory, int rows) {
      const std::int64_t pitch = (shape.k + 15) / 16 * 16;
      memory.assign(static_cast<std::size_t>(rows * pitch), 0x7f);
      for (int row = 0; row < rows; ++row)
        for (int k = 0; k < list.back(); ++k)
          memory[static_cast<std::size_t>(row * pitch + k)] =
              static_cast<std::uint8_t>((random() % 2) << 7 | (0x28 + random() % 24));  // 1/4 to 2
      return Tensor::strided(memory.data(), kCpu, DType::e4m3, {rows, shape.k}, {pitch, 1});
    };
    args.a = operand(a_, shape.m);
    args.b = operand(b_, shape.n);
    std::uniform_real_distribution<float> scale(0.5f, 2.0f);
    const auto scales = [&](std::vector<float>& memory, int rows, bool by_k) {
      const std::int64_t blocks = (shape.k + kBlock - 1) / kBlock, words = shape.packed ? (blocks + 3) / 4 : blocks;
      memory.resize(static_cast<std::size_t>(rows * words));
      for (float& value : memory)
        if (const std::uint32_t word = 0x7c7c7c7cu + (static_cast<std::uint32_t>(random()) & 0x07070707u); shape.packed)
          std::memcpy(&value, &word, sizeof word);
        else
          value = scale(random);
      return Tensor::strided(memory.data(), kCpu, shape.packed ? DType::i32 : DType::f32, {rows, words},
                             {by_k ? words : 1, by_k ? 1 : rows});
    };
    if (shape.scales != Scales::tensor) {
      args.scale_a = scales(scale_a_, shape.m, shape.a_by_k);
      const bool row = shape.scales == Scales::row;
      args.scale_b = scales(scale_b_, row ? shape.n : (shape.n + kBlock - 1) / kBlock, !row || shape.b_by_k);
    }
    const std::int64_t groups = std::ssize(list);
    d_.assign(static_cast<std::size_t>(groups * shape.m * shape.n), std::nanf(""));
    for (float& value : d_) value = shape.adds ? scale(random) : value;
    before_ = d_;
    args.d = Tensor::contiguous(d_.data(), kCpu, DType::f32, {groups, shape.m, shape.n});
    args.groups = Tensor::contiguous(list.data(), kCpu, DType::i32, {groups});
    args.grouping = Grouping::depths;
    args.beta = shape.adds ? 1 : 0;
    if (shape.adds) args.c = args.d;
  }
  GroupedGemmArgs args;
  std::vector<std::int32_t> list;

  std::string run(const std::string& arch = "sm_90a") {
    testing::model_runtime("model:" + arch).run(args);
    return problem();
  }
  std::string problem() const {
    double wrong = 0, all = 0;
    int begin = 0;
    std::size_t at = 0;
    for (const std::int32_t end : list) {
      for (int i = 0; i < shape_.m; ++i)
        for (int j = 0; j < shape_.n; ++j, ++at) {
          double wanted = shape_.adds ? static_cast<double>(before_[at]) : 0;
          for (int k = begin; k < end; ++k)
            wanted += value(args.a, i, k) * value(args.b, j, k) * scale(args.scale_a, i, k, 1) *
                      scale(args.scale_b, j, k, shape_.scales == Scales::row ? 1 : kBlock);
          if (std::isnan(d_[at])) return support::cat("d[", at, "] is NaN");
          wrong += (d_[at] - wanted) * (d_[at] - wanted);
          all += wanted * wanted;
        }
      begin = end;
    }
    const double error = all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
    return error <= test::gemm_limit(DType::e4m3, DType::f32) ? "" : support::cat("relative error ", error);
  }

 private:
  static double value(const Tensor& t, int row, int k) {
    return test::from_e4m3(static_cast<const std::uint8_t*>(t.data)[row * t.strides[0] + k]);
  }
  static double scale(const std::optional<Tensor>& t, int row, int k, int rows) {
    return t ? test::written_scale(*t, row / rows * t->strides[0], t->strides[1], k / kBlock) : 1;
  }

  Shape shape_;
  std::vector<std::uint8_t> a_, b_;
  std::vector<float> scale_a_, scale_b_, d_, before_;
};

}  // namespace

TEST_CASE("groups that end at multiples of 128, or at K; scales of each kind, order and type; sums that add up") {
  unsigned seed = 1;
  for (const std::vector<int>& ends : {std::vector{128, 128, 256, 640}, {0, 0}, {400}, {384, 400}})
    for (const Scales scales : {Scales::row, Scales::block, Scales::tensor}) {
      Shape shape;
      shape.ends = ends;
      shape.m = seed % 2 == 0 ? 72 : 131;
      shape.n = seed % 3 == 0 ? 40 : 200;
      shape.k = ends.back() == 400 ? 400 : 656;
      shape.scales = scales;
      shape.a_by_k = seed % 2 == 0;
      shape.b_by_k = seed % 4 < 2;
      shape.packed = scales != Scales::tensor && seed % 5 == 2;
      shape.adds = seed % 3 == 1;
      CAPTURE(seed);
      CHECK(Problem(shape, seed).run() == "");
      const std::string arch = seed % 2 == 0 ? "sm_89" : seed % 9 == 0 ? "gfx1201" : "sm_120a";
      CAPTURE(arch);
      if (!testing::sampled_out(static_cast<int>(seed), 3)) CHECK(Problem(shape, seed).run(arch) == "");
      ++seed;
    }
}

TEST_CASE("every tile that has such groups, on few blocks") {
  const arch::Arch& arch = *arch::find("sm_90a");
  int served = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    Shape shape;
    shape.ends = {0, 128, 640, 640};
    shape.k = 1000;  // eight blocks: rows of their scales begin at multiples of 16 bytes
    shape.m = tile.block_m + 8;
    shape.n = tile.block_n + 24;
    shape.scales = t % 2 == 0 ? Scales::row : Scales::block;
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
  Shape shape;
  shape.ends = {128, 256, 384};
  for (int round = 0; round < 4; ++round) {
    Problem problem(shape, 20);
    for (std::int32_t& each : problem.list)
      each = round == 0   ? std::numeric_limits<std::int32_t>::max()
             : round == 1 ? std::numeric_limits<std::int32_t>::min()
                          : static_cast<std::int32_t>(random() % 900) - 100;
    testing::model_runtime().run(problem.args);
  }
  CHECK(Problem(shape, 20).run() == "");
}

TEST_CASE("ends between multiples of 128 are named where lists are checked, and scales of the wrong size always") {
  Shape shape;
  shape.ends = {128, 300, 400};
  shape.k = 400;
  Problem problem(shape, 1);
  const auto said = [&](std::vector<std::int32_t> list) {
    return testing::said_by([&] { ops::check_groups(problem.args, [&](const Tensor&) { return list; }); });
  };
  CHECK(said({128, 256, 400}).empty());
  CHECK(testing::has(said({128, 300, 400}), "groups[1] is 300; allowed: multiples of 128 with e4m3, or 400 (K)"));
  problem.args.scale_b->shape[0] = 63;
  CHECK(testing::has(testing::said_by([&] { ops::validate(problem.args, true); }), "scale_b.shape[0] is 63"));
}
