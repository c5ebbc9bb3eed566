// Protects attention on the matrix instructions of AMD's waves: chosen odd shapes and random ones on the CPU model, against f64, with operands
// held twice (gfx1100) and once (gfx1201), and with waves of 64 lanes (gfx90a).
#include <doctest/doctest.h>

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

std::string run(Runtime& runtime, const FmhaShape& shape, std::uint64_t seed, std::optional<float> scale = {}) {
  FmhaProblem problem(shape, seed);
  problem.args.scale = scale;
  runtime.fmha(problem.args);
  return problem.problem();
}

}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys, grouped heads, every kind of wave") {
  constexpr DType f16 = DType::f16, bf16 = DType::bf16;
  const FmhaShape shapes[] = {
      {1, 1, 1, 1, 1, 64, f16, false, false, true},     {1, 1, 1, 1, 1, 128, bf16, true, false, true},    {1, 1, 1, 128, 128, 128, f16, true, false, true},
      {1, 1, 1, 129, 127, 128, f16, true, true, true},  {1, 1, 1, 200, 50, 64, f16, true, false, true},   {1, 1, 1, 50, 200, 64, bf16, true, true, true},
      {1, 1, 1, 1, 321, 128, f16, false, false, false}, {1, 1, 1, 193, 161, 128, f16, false, false, true}, {1, 1, 1, 257, 256, 64, f16, true, false, true},
      {2, 2, 1, 65, 300, 64, bf16, false, true, true},  {1, 8, 1, 63, 64, 128, bf16, true, true, true},
  };
  for (const char* target : {"model:gfx1100", "model:gfx1201", "model:gfx90a"}) {
    Runtime& runtime = testing::model_runtime(target);
    std::uint64_t seed = 8101;
    for (const FmhaShape& shape : shapes) {
      CAPTURE(target);
      CAPTURE(shape.text());
      CHECK(run(runtime, shape, seed++) == "");
    }
    for (const float scale : {1.0f, -0.125f, 0.0f, 4.0f}) {
      CAPTURE(target);
      CAPTURE(scale);
      CHECK(run(runtime, {1, 1, 1, 70, 150, 64, f16, true, false, true}, seed++, scale) == "");
    }
  }
}

TEST_CASE("random shapes: both types, head dims, masks and layouts") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t drawn = 0;
  const auto between = [&](int low, int high) { return low + static_cast<int>(samples::random_bits(seed, drawn++) % static_cast<std::uint64_t>(high - low + 1)); };
  constexpr const char* kTargets[] = {"model:gfx1100", "model:gfx1201", "model:gfx90a"};
  for (int i = 0; i < 18; ++i) {
    FmhaShape shape;
    shape.heads_kv = between(1, 2);
    shape.heads = shape.heads_kv * between(1, 3);
    shape.seq_q = between(1, 140);
    shape.seq_k = between(1, 300);
    shape.head_dim = 64 * between(1, 2);
    shape.dtype = between(0, 1) == 1 ? DType::f16 : DType::bf16;
    shape.causal = between(0, 1) == 1;
    shape.rows_first = between(0, 1) == 1;
    shape.with_lse = between(0, 3) > 0;
    CAPTURE(shape.text());
    CHECK(run(testing::model_runtime(kTargets[i % 3]), shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}
