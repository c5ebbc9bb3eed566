// Protects attention's small weights on AMD's waves, on the CPU model: rows whose largest score is far above thousands
// of others, which weigh something together, against f64, each row by itself. gfx90a's matrix instructions take
// subnormal elements as 0, the others keep them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "common/half.hpp"
#include "common/random.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;

namespace {

constexpr int kQueries = 20, kKeys = 4096;
constexpr float kScale = 0.125f, kFullHeight = 10.0f;
/// How many nats the peak of a row is above its other keys, by query.
constexpr float kHeights[] = {0.0f, 2.0f, 5.0f, 8.0f, 9.5f, 10.0f, 12.0f, 14.0f, 16.0f, 19.0f};

/// Nats of a key, in a row of full height; and its value.
struct Key {
  float nats, value;
};
using KeyOf = std::function<Key(int key)>;

Key one_peak(int key, int peak) { return key == peak ? Key{kFullHeight, 0.0f} : Key{0.0f, 1.0f}; }
/// Steps of half a nat, up or down: the reference moves for some of them.
Key stairs(int key, bool up) {
  const int step = std::min(20, (up ? key : kKeys - 1 - key) / 200);
  return {0.5f * static_cast<float>(step), step % 2 == 0 ? 1.0f : -1.0f};
}

/// All elements of a row alike, so that a score is their product times the head dim times kScale.
void fill(FmhaProblem& problem, const KeyOf& key_of) {
  const auto width = static_cast<std::size_t>(problem.args.q.shape[3]);
  const DType dtype = problem.args.q.dtype;
  const auto set = [&](const Tensor& tensor, std::size_t row, float value) {
    std::fill_n(static_cast<std::uint16_t*>(tensor.data) + row * width, width, samples::from_float(value, dtype));
  };
  for (std::size_t row = 0; row < kQueries; ++row)
    set(problem.args.q, row, kHeights[row % std::size(kHeights)] / kFullHeight);
  for (std::size_t key = 0; key < kKeys; ++key) {
    const Key each = key_of(static_cast<int>(key));
    set(problem.args.k, key, each.nats / (static_cast<float>(width) * kScale));
    set(problem.args.v, key, each.value);
  }
  problem.args.scale = kScale;
}

/// The largest error of an element in any row, of values of size 1; infinite where one is no number.
double largest_error(const FmhaProblem& problem) {
  const samples::FmhaReference reference = samples::fmha_reference(problem.args);
  const auto* o = static_cast<const std::uint16_t*>(problem.args.o.data);
  double largest = 0;
  for (std::size_t i = 0; i < reference.o.size(); ++i) {
    const double error = std::abs(static_cast<double>(samples::to_float(o[i], problem.args.o.dtype)) - reference.o[i]);
    largest = std::isnan(error) ? INFINITY : std::max(largest, error);
  }
  return largest;
}

std::vector<std::pair<std::string, KeyOf>> problems() {
  std::vector<std::pair<std::string, KeyOf>> list = {{"stairs up", [](int key) { return stairs(key, true); }},
                                                     {"stairs down", [](int key) { return stairs(key, false); }}};
  // First, in the middle, last: what is gathered before it is corrected, or weighed by it from the beginning.
  for (const int peak : {0, 2050, kKeys - kQueries})
    list.emplace_back("peak at " + std::to_string(peak), [peak](int key) { return one_peak(key, peak); });
  return list;
}

/// By a kernel for this arch as it is, whether or not anybody knows it.
double error_on(const arch::Arch& arch, FmhaProblem& problem, const FmhaConfig& config) {
  const ops::Request request = ops::fmha_request(config);
  const Choice choice = choose(ops::fmha_op(), request, arch);
  test::EmittedKernel kernel(choice.candidate.graph, choice.schedule, arch);
  const ops::Geometry geometry = ops::fmha_op().geometry(request, choice.candidate);
  ops::LaunchPlan plan;
  ops::fmha_op().plan(&problem.args, {}, geometry, plan);
  CHECK(kernel.launch(plan, plan.blocks, 1, {}) == "");
  return largest_error(problem);
}

}  // namespace

TEST_CASE("thousands of keys far below one: each row is that of f64, and its log-sum-exp") {
  const auto all = problems();
  int number = 0;
  for (const auto& [target_name, dtype, width, masked] :
       {std::tuple<std::string, DType, int, bool>{"model:gfx90a", DType::f16, 64, false},
        {"model:gfx90a", DType::f16, 128, true},
        {"model:gfx90a", DType::f16, 64, true},
        {"model:gfx90a", DType::f16, 128, false},
        {"model:gfx90a", DType::bf16, 64, false},
        {"model:gfx942", DType::f16, 64, false},
        {"model:gfx1100", DType::f16, 64, true},
        {"model:gfx1201", DType::f16, 128, false}})
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [problem_name, key_of] = all[i];
      if (number++ >= 5 && i % 2 == 0) continue;                    // all of them once, then two for each kernel
      const std::string target = target_name, name = problem_name;  // clang 14 captures no binding
      const int head_dim = width;
      const bool causal = masked;
      CAPTURE(target);
      CAPTURE(name);
      FmhaProblem problem({1, 1, 1, kQueries, kKeys, head_dim, dtype, causal, false, true}, 1);
      CAPTURE(head_dim);
      CAPTURE(causal);
      fill(problem, key_of);
      testing::model_runtime(target).run(problem.args);
      CHECK(largest_error(problem) <= samples::max_error(dtype));
      CHECK(samples::compare_fmha(problem.args).lse_error <= 5e-5);  // a thread sums thousands of weights in f32
    }
}

TEST_CASE("scores of many nats that are drawn at random, any scale") {
  for (const std::string target : {"model:gfx90a", "model:gfx942"})
    for (const float scale : {1.0f, 2.0f, -1.5f}) {
      CAPTURE(target);
      CAPTURE(scale);
      FmhaProblem problem({1, 1, 1, 40, 700, 64, DType::f16, true, false, true}, 77);
      problem.args.scale = scale;
      testing::model_runtime(target).run(problem.args);
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("without what serves matrix instructions that flush, gfx90a loses the weights that this test is about") {
  arch::Arch flushing = *arch::find("gfx90a"), unaware = flushing;
  unaware.facts.erase("matrix_flushes_subnormals");
  FmhaProblem problem({1, 1, 1, kQueries, kKeys, 64, DType::f16, false, false, true}, 1);
  fill(problem, [](int key) { return one_peak(key, kKeys - kQueries); });
  const double others = 4095 * std::exp(-10.0);
  CHECK(others / (1 + others) == doctest::Approx(0.157).epsilon(0.01));
  CHECK(error_on(flushing, problem, {DType::f16, 64, false, false}) <= samples::kMaxErrorF16);
  CHECK(error_on(unaware, problem, {DType::f16, 64, false, false}) >= 0.15);
}
