// See fmha_checks.hpp.
#include "ops/fmha/checks.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <iterator>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {
namespace {

constexpr DType f16 = DType::f16, bf16 = DType::bf16;

const FmhaShape kEdges[] = {
    {1, 1, 1, 1, 1, 64, f16, false, false, true},     {1, 1, 1, 1, 1, 128, bf16, true, false, true},
    {1, 1, 1, 128, 128, 128, f16, true, false, true}, {1, 1, 1, 129, 127, 128, f16, true, true, true},
    {1, 1, 1, 200, 50, 64, f16, true, false, true},   {1, 1, 1, 50, 200, 64, bf16, true, true, true},
    {1, 1, 1, 1, 321, 128, f16, false, false, false}, {1, 1, 1, 193, 161, 128, f16, false, false, true},
    {2, 2, 1, 65, 300, 64, bf16, false, true, true},  {1, 8, 1, 63, 64, 128, bf16, true, true, true},
};

}  // namespace

std::string run_fmha(const std::string& target, const FmhaShape& shape, std::uint64_t seed,
                     std::optional<float> scale) {
  FmhaProblem problem(shape, seed);
  problem.args.scale = scale;
  testing::model_runtime(target).run(problem.args);
  return problem.problem();
}

void check_fmha_edges(const std::string& target, const std::vector<FmhaShape>& more) {
  CAPTURE(target);
  std::vector<FmhaShape> shapes(std::begin(kEdges), std::end(kEdges));
  shapes.insert(shapes.end(), more.begin(), more.end());
  std::uint64_t seed = 7001;
  int index = 0;
  for (const FmhaShape& shape : shapes) {
    if (testing::thinned_out(index++)) continue;
    CAPTURE(shape.text());
    CHECK(run_fmha(target, shape, seed++) == "");
  }
}

void check_fmha_scales(const std::string& target, const std::vector<float>& scales) {
  CAPTURE(target);
  std::uint64_t seed = 9100;
  for (const float scale : scales) {
    CAPTURE(scale);
    CHECK(run_fmha(target, {1, 1, 1, 70, 150, 64, f16, true, false, true}, seed++, scale) == "");
  }
}

void check_fmha_huge_scales(const std::string& target) {
  CAPTURE(target);
  for (const float scale : {1e10f, -1e10f, 3e38f}) {
    CAPTURE(scale);
    FmhaProblem problem({1, 1, 1, 5, 40, 64, f16, false, false, true}, 9200);
    problem.args.scale = scale;
    problem.args.lse.reset();  // beyond the range of f32
    testing::model_runtime(target).run(problem.args);
    CHECK(samples::compare_fmha(problem.args).o_error < 1e-3);
  }
}

void check_fmha_rows_without_number(const std::string& target, int head_dim, bool causal, std::optional<float> scale,
                                    DType dtype) {
  CAPTURE(target);
  CAPTURE(head_dim);
  CAPTURE(causal);
  FmhaProblem problem({1, 1, 1, 70, 300, head_dim, dtype, causal, false, true}, 9300);
  problem.args.scale = scale;
  auto* q = static_cast<std::uint16_t*>(problem.args.q.data);
  const int infinity = dtype == bf16 ? 0x7f80 : 0x7c00;
  q[3 * head_dim + 5] = 0x7fff;  // NaN, of all bits
  q[68 * head_dim + 1] = static_cast<std::uint16_t>(infinity);
  testing::model_runtime(target).run(problem.args);
  const auto* o = static_cast<const std::uint16_t*>(problem.args.o.data);
  const auto* lse = static_cast<const float*>(problem.args.lse->data);
  for (int row = 0; row < 70; ++row) {
    CAPTURE(row);
    const bool poisoned = row == 3 || row == 68;
    CHECK(std::isnan(lse[row]) == poisoned);
    CHECK(((o[row * head_dim] & 0x7fff) > infinity) == poisoned);
  }
}

void check_random_fmha(const std::vector<const char*>& targets, int count, const FmhaLimits& limits) {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t drawn = 0;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(samples::random_bits(seed, drawn++) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < testing::drawn(count); ++i) {
    FmhaShape shape;
    shape.heads_kv = between(1, 2);
    shape.heads = shape.heads_kv * between(1, limits.group);
    shape.seq_q = between(1, limits.seq_q);
    shape.seq_k = between(1, limits.seq_k);
    shape.head_dim = 64 * between(1, 2);
    shape.dtype = between(0, 1) == 1 ? f16 : bf16;
    shape.causal = between(0, 1) == 1;
    shape.rows_first = between(0, 1) == 1;
    shape.with_lse = between(0, 3) > 0;
    const char* target = targets[static_cast<std::size_t>(i) % targets.size()];
    CAPTURE(target);
    CAPTURE(shape.text());
    CHECK(run_fmha(target, shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}

}  // namespace tj::test
