// Protects attention over tensor memory: chosen odd shapes and random ones on the CPU model, against f64; scales of every kind; NaN and
// infinity; exponentials by arithmetic and by special functions alone (sm_103a).
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/fmha_problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;

namespace {

constexpr DType f16 = DType::f16, bf16 = DType::bf16;

std::string run(const char* target, const FmhaShape& shape, std::uint64_t seed, std::optional<float> scale = {}) {
  FmhaProblem problem(shape, seed);
  problem.args.scale = scale;
  testing::model_runtime(target).fmha(problem.args);
  return problem.problem();
}

}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys, grouped heads") {
  const FmhaShape shapes[] = {
      {1, 1, 1, 1, 1, 64, f16, false, false, true},     {1, 1, 1, 1, 1, 128, bf16, true, false, true},      {1, 1, 1, 128, 128, 128, f16, true, false, true},
      {1, 1, 1, 129, 127, 128, f16, true, true, true},  {1, 1, 1, 200, 50, 64, f16, true, false, true},     {1, 1, 1, 50, 200, 64, bf16, true, true, true},
      {1, 1, 1, 1, 321, 128, f16, false, false, false}, {1, 1, 1, 193, 161, 128, f16, false, false, true},  {1, 1, 1, 257, 256, 64, f16, true, false, true},
      {2, 2, 1, 65, 300, 64, bf16, false, true, true},  {1, 8, 1, 63, 64, 128, bf16, true, true, true},     {1, 1, 1, 300, 700, 128, f16, true, false, true},
      {1, 2, 1, 255, 257, 128, bf16, true, true, true}, {1, 1, 1, 20, 1000, 64, f16, false, false, true},
  };
  std::uint64_t seed = 7401;
  for (const FmhaShape& shape : shapes) {
    CAPTURE(shape.text());
    CHECK(run("model:sm_100a", shape, seed++) == "");
  }
}

TEST_CASE("special functions alone, where they are fast enough") {
  std::uint64_t seed = 7501;
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true}) {
      CAPTURE(head_dim);
      CAPTURE(causal);
      CHECK(run("model:sm_103a", {1, 2, 1, 140, 400, head_dim, f16, causal, false, true}, seed++) == "");
    }
}

TEST_CASE("any finite scale: negative, zero, tiny, large") {
  std::uint64_t seed = 7601;
  for (const float scale : {1.0f, -0.125f, 0.0f, 1e-20f, 4.0f, -3.0f}) {
    CAPTURE(scale);
    CHECK(run("model:sm_100a", {1, 1, 1, 70, 150, 64, f16, true, false, true}, seed++, scale) == "");
  }
}

TEST_CASE("a NaN or an infinity in a query makes its row NaN, output and lse, and no other") {
  for (const int head_dim : {64, 128})
    for (const std::optional<float> scale : {std::optional<float>{}, std::optional<float>{-1.5f}}) {
      CAPTURE(head_dim);
      const FmhaShape shape{1, 1, 1, 70, 300, head_dim, f16, head_dim == 64, false, true};
      FmhaProblem problem(shape, 9300);
      problem.args.scale = scale;
      auto* q = static_cast<std::uint16_t*>(problem.args.q.data);
      q[3 * head_dim + 5] = 0x7e00;   // NaN
      q[68 * head_dim + 1] = 0x7c00;  // infinity
      testing::model_runtime("model:sm_100a").fmha(problem.args);
      const auto* o = static_cast<const std::uint16_t*>(problem.args.o.data);
      const auto* lse = static_cast<const float*>(problem.args.lse->data);
      for (int row = 0; row < 70; ++row) {
        CAPTURE(row);
        const bool poisoned = row == 3 || row == 68;
        CHECK(std::isnan(lse[row]) == poisoned);
        CHECK(((o[row * head_dim] & 0x7fff) > 0x7c00) == poisoned);
      }
    }
}

TEST_CASE("huge scales pick the largest score and stay finite") {
  for (const float scale : {1e10f, -1e10f, 3e38f}) {
    CAPTURE(scale);
    FmhaProblem problem({1, 1, 1, 5, 40, 64, f16, false, false, true}, 9200);
    problem.args.scale = scale;
    problem.args.lse.reset();  // beyond the range of f32
    testing::model_runtime("model:sm_100a").fmha(problem.args);
    CHECK(samples::compare_fmha(problem.args).o_error < 1e-3);
  }
}

TEST_CASE("random shapes: both types, head dims, masks and layouts") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t drawn = 0;
  const auto between = [&](int low, int high) { return low + static_cast<int>(samples::random_bits(seed, drawn++) % static_cast<std::uint64_t>(high - low + 1)); };
  for (int i = 0; i < 12; ++i) {
    FmhaShape shape;
    shape.heads_kv = between(1, 2);
    shape.heads = shape.heads_kv * between(1, 2);
    shape.seq_q = between(1, 300);
    shape.seq_k = between(1, 600);
    shape.head_dim = 64 * between(1, 2);
    shape.dtype = between(0, 1) == 1 ? f16 : bf16;
    shape.causal = between(0, 1) == 1;
    shape.rows_first = between(0, 1) == 1;
    shape.with_lse = between(0, 3) > 0;
    CAPTURE(shape.text());
    CHECK(run("model:sm_100a", shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}
