// Protects attention's results: chosen odd shapes and random ones on the CPU model, against f64, with poisoned outputs
// inside guard bands; every kernel form; scales of every kind.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/fmha_problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;

namespace {

std::string run(const FmhaShape& shape, std::uint64_t seed, std::optional<float> scale = {}) {
  FmhaProblem problem(shape, seed);
  problem.args.scale = scale;
  testing::model_runtime().fmha(problem.args);
  return problem.problem();
}

// Numbers of [low, high] from a stream.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : seed_(seed) {}
  int between(int low, int high) { return low + static_cast<int>(samples::random_bits(seed_, next_++) % static_cast<std::uint64_t>(high - low + 1)); }
  bool coin() { return between(0, 1) == 1; }

 private:
  std::uint64_t seed_, next_ = 0;
};

}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys") {
  constexpr DType f16 = DType::f16, bf16 = DType::bf16;
  const FmhaShape shapes[] = {
      {1, 1, 1, 1, 1, 64, f16, false, false, true},     {1, 1, 1, 1, 1, 128, bf16, true, false, true},
      {1, 1, 1, 128, 128, 128, f16, true, false, true}, {1, 1, 1, 129, 127, 128, f16, true, true, true},
      {1, 1, 1, 200, 50, 64, f16, true, false, true},   {1, 1, 1, 50, 200, 64, bf16, true, true, true},
      {1, 1, 1, 1, 321, 128, f16, false, false, false}, {1, 1, 1, 193, 161, 128, f16, false, false, true},
      {1, 1, 1, 192, 320, 128, f16, false, true, true}, {1, 1, 1, 385, 384, 64, f16, true, false, true},
      {2, 2, 1, 65, 300, 64, bf16, false, true, true},  {1, 8, 1, 63, 64, 128, bf16, true, true, true},
  };
  std::uint64_t seed = 7001;
  for (const FmhaShape& shape : shapes) {
    CAPTURE(shape.text());
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE("random shapes: both types, head dims, masks and layouts, grouped heads") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  Numbers stream(seed);
  for (int i = 0; i < 24; ++i) {
    FmhaShape shape;
    const int groups[] = {1, 4, 8};
    shape.heads_kv = stream.between(1, 2);
    shape.heads = shape.heads_kv * groups[stream.between(0, 2)];
    shape.batch = shape.heads > 4 ? 1 : stream.between(1, 2);
    shape.seq_q = stream.coin() ? stream.between(1, 140) : stream.between(1, 33);
    shape.seq_k = stream.coin() ? stream.between(1, 450) : stream.between(1, 70);
    shape.head_dim = stream.coin() ? 64 : 128;
    shape.dtype = stream.coin() ? DType::f16 : DType::bf16;
    shape.causal = stream.coin();
    shape.rows_first = stream.coin();
    shape.with_lse = stream.between(0, 3) > 0;
    CAPTURE(shape.text());
    CHECK(run(shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}

TEST_CASE("any finite scale: negative, zero, tiny, large") {
  FmhaShape shape;
  shape.seq_q = 70;
  shape.seq_k = 150;
  shape.causal = true;
  std::uint64_t seed = 9100;
  for (const float scale : {1.0f, -0.125f, 0.0f, -0.0f, 1e-20f, 1.5f, 4.0f, -3.0f}) {
    CAPTURE(scale);
    CHECK(run(shape, seed++, scale) == "");
  }
}

TEST_CASE("a NaN or an infinity in a query makes its row NaN, output and lse, and no other") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    FmhaShape shape;
    shape.seq_q = 70;
    shape.seq_k = 300;
    shape.causal = causal;
    FmhaProblem problem(shape, 9300);
    auto* q = static_cast<std::uint16_t*>(problem.args.q.data);
    q[3 * 64 + 5] = 0x7e00;   // NaN
    q[68 * 64 + 1] = 0x7c00;  // infinity
    testing::model_runtime().fmha(problem.args);
    const auto* o = static_cast<const std::uint16_t*>(problem.args.o.data);
    const auto* lse = static_cast<const float*>(problem.args.lse->data);
    for (int row = 0; row < 70; ++row) {
      CAPTURE(row);
      const bool poisoned = row == 3 || row == 68;
      CHECK(std::isnan(lse[row]) == poisoned);
      CHECK(((o[row * 64] & 0x7fff) > 0x7c00) == poisoned);
    }
  }
}

TEST_CASE("huge scales pick the largest score and stay finite") {
  FmhaShape shape;
  shape.seq_q = 5;
  shape.seq_k = 40;
  for (const float scale : {1e10f, -1e10f, 3e38f}) {
    CAPTURE(scale);
    FmhaProblem problem(shape, 9200);
    problem.args.scale = scale;
    problem.args.lse.reset();  // beyond the range of f32
    testing::model_runtime().fmha(problem.args);
    const auto comparison = samples::compare_fmha(problem.args);
    CHECK(comparison.o_error < 1e-3);
  }
}
