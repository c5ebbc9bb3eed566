// See fmha_checks.hpp.
#include "ops/fmha/checks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
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

FmhaShape shape_of(int seq_q, int seq_k, int head_dim, DType dtype, bool causal) {
  FmhaShape shape{1, 2, 1, seq_q, seq_k, head_dim, dtype};
  shape.causal = causal;
  return shape;
}

void check_each(const std::string& target, const std::vector<FmhaShape>& shapes, std::uint64_t seed, const Turn& turn) {
  CAPTURE(target);
  int index = 0, own = 0;
  for (const FmhaShape& shape : shapes) {
    ++seed;
    if (index++ % turn.of != turn.place && !testing::full_run()) continue;
    if (testing::thinned_out(own++)) continue;
    CAPTURE(shape.text());
    CHECK(run_fmha(target, shape, seed) == "");
  }
}

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

void check_fmha_masks(const std::string& target, const Turn& turn) {
  std::vector<FmhaShape> shapes;
  const auto add = [&](FmhaShape shape, FmhaWindow window, bool top_left) {
    shape.window = window, shape.top_left = top_left;
    shapes.push_back(shape);
  };
  // Windows longer than the queries of a block, of a key, of all keys and more; open on either side; rows without keys
  // before the first key and behind the last.
  for (const bool causal : {false, true})
    for (const FmhaWindow window : {FmhaWindow{333, -1}, {0, 0}, {5000, 7}, {-1, 20}, {40, 17}})
      add(shape_of(300, 900, 64, f16, causal), window, false);
  add(shape_of(200, 60, 128, bf16, true), {20, -1}, false);
  add(shape_of(200, 60, 64, f16, false), {20, 3}, true);
  add(shape_of(300, 900, 128, f16, false), {100, 50}, true);
  add(shape_of(300, 900, 64, bf16, true), {}, true);
  add(shape_of(900, 300, 64, f16, true), {}, true);
  add(shape_of(130, 300, 64, f16, false), {-1, 0}, false);
  add(shape_of(1, 700, 128, f16, false), {128, 0}, false);
  check_each(target, shapes, 9400, turn);
}

void check_fmha_scores(const std::string& target, const Turn& turn) {
  std::vector<FmhaShape> shapes;
  const auto add = [&](FmhaShape shape, float softcap, int alibi, bool sinks) {
    shape.softcap = softcap, shape.alibi = alibi, shape.sinks = sinks;
    shapes.push_back(shape);
  };
  for (const float cap : {0.5f, 5.0f, 30.0f, 2000.0f}) add(shape_of(130, 300, 64, f16, true), cap, 0, false);
  for (const int alibi : {1, 2}) {
    FmhaShape shape = shape_of(130, 300, 64, f16, alibi == 1);
    shape.batch = 2, shape.heads = 4;
    add(shape, 0, alibi, false);
  }
  FmhaShape many = shape_of(70, 200, 64, f16, false);
  many.heads = 5, many.heads_kv = 5;
  add(many, 0, 0, true);
  many.seq_q = 260;
  many.causal = true;  // rows without keys
  add(many, 0, 0, true);
  add(shape_of(140, 260, 128, bf16, true), 20, 1, true);
  FmhaShape all = shape_of(140, 260, 128, f16, false);
  all.window = {60, 20}, all.top_left = true;
  add(all, 15, 1, true);
  check_each(target, shapes, 9500, turn);
}

void check_fmha_head_dims(const std::string& target, int widest, const Turn& turn) {
  struct Dims {
    int head, value;
  };
  std::vector<FmhaShape> shapes;
  for (const Dims& dims : {Dims{96, 96},
                           {8, 8},
                           {40, 40},
                           {72, 72},
                           {64, 128},
                           {128, 24},
                           {56, 120},
                           {192, 192},
                           {256, 256},
                           {192, 128},
                           {136, 200},
                           {64, 256}}) {
    if (std::max(dims.head, dims.value) > widest) continue;
    FmhaShape shape = shape_of(150, 210, dims.head, shapes.size() / 2 % 2 == 0 ? f16 : bf16, shapes.size() % 3 != 0);
    shape.value_dim = dims.value == dims.head ? 0 : dims.value;
    shape.rows_first = (shapes.size() + 1) / 2 % 2 == 1, shape.shifted_o = shapes.size() % 4 == 2;
    shapes.push_back(shape);
  }
  check_each(target, shapes, 9600, turn);
}

namespace {

void draw_features(FmhaShape& shape, const std::function<int(int, int)>& between) {
  if (between(0, 1) == 1) shape.window = {between(-1, 200), between(-1, 100)};
  shape.top_left = between(0, 2) == 0;
  if (between(0, 2) == 0) shape.softcap = static_cast<float>(between(1, 60));
  if (between(0, 2) == 0) shape.alibi = between(1, 2);
  shape.sinks = between(0, 2) == 0;
}

}  // namespace

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
    if (limits.features) draw_features(shape, between);
    if (limits.widest != 0) {
      shape.head_dim = 8 * between(1, limits.widest / 8);
      if (between(0, 1) == 1) shape.value_dim = 8 * between(1, limits.widest / 8);
    }
    const char* target = targets[static_cast<std::size_t>(i) % targets.size()];
    CAPTURE(target);
    CAPTURE(shape.text());
    CHECK(run_fmha(target, shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}

}  // namespace tj::test
