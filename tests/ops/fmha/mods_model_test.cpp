// Protects a user's texts and biases on the CPU model of every family, against f64: documents whose blocks are skipped,
// biases in every form, ALiBi as a text, rows that a text leaves without a key; with masks, lists, pages and few
// queries; equal bits for equal calls.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "common/random.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/fmha/sequences_problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;
using test::kSequencesTargets;
using test::SequencesProblem;
using test::SequencesShape;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

FmhaShape shape_of(int queries, int keys, int head_dim, bool causal) {
  FmhaShape shape{2, 2, 1, queries, keys, head_dim, DType::f16};
  shape.causal = causal;
  return shape;
}

/// Documents one behind the other: for each position the first of its document, and the one behind its last.
struct Documents {
  std::vector<std::int32_t> numbers;
  int count = 0;
  Documents(int keys, std::initializer_list<int> begins) : count(keys) {
    numbers.resize(static_cast<std::size_t>(2 * keys));
    for (int k = 0; k < keys; ++k) {
      int first = 0, end = keys;
      for (const int begin : begins) {
        if (begin <= k) first = begin;
        if (begin > k && begin < end) end = begin;
      }
      numbers[static_cast<std::size_t>(2 * k)] = first, numbers[static_cast<std::size_t>(2 * k + 1)] = end;
    }
  }
  int first(int k) const { return numbers[static_cast<std::size_t>(2 * k)]; }
  void give(FmhaArgs& args, samples::FmhaModsOfHost& mods, bool bounded) {
    args.mask_mod = "return params.i32(2 * q) == params.i32(2 * k);";
    if (bounded)
      args.key_range =
          "k0 = params.i32(2 * q0);\n"
          "k1 = params.i32(2 * (q1 - 1) + 1);\n"
          "if (params.i32(2 * (q1 - 1)) == k0) { all0 = k0; all1 = k1; }";
    args.mod_params = Tensor::contiguous(numbers.data(), kCpu, DType::i32, {2 * count});
    mods.mask = [this](int, int, int q, int k) { return first(q) == first(k); };
  }
};

/// NaN is in what no row of a tile sees: blocks that are skipped are not there at all.
void poison(const Tensor& tensor, std::int64_t first, std::int64_t end) {
  auto* data = static_cast<std::uint16_t*>(tensor.data);
  for (std::int64_t b = 0; b < tensor.shape[0]; ++b)
    for (std::int64_t h = 0; h < tensor.shape[1]; ++h)
      for (std::int64_t s = first; s < end; ++s)
        for (std::int64_t d = 0; d < tensor.shape[3]; ++d)
          data[b * tensor.strides[0] + h * tensor.strides[1] + s * tensor.strides[2] + d] = 0x7fff;
}

std::string run(const char* target, FmhaProblem& problem) {
  problem.run(testing::model_runtime(target), kCpu);
  return problem.problem();
}

}  // namespace

TEST_CASE("documents: rows see their own, with and without bounds, and the bits are the same") {
  std::uint64_t seed = 12100;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    ++index;
    for (const bool causal : {true, false}) {
      if (testing::sampled_out(index++)) continue;
      Documents documents(330, {0, 7, 120, 290});
      std::vector<std::uint16_t> first;
      for (const bool bounded : {true, true, false}) {
        FmhaShape shape = shape_of(330, 330, causal ? 64 : 128, causal);
        shape.batch = causal ? 2 : 1;
        FmhaProblem problem(shape, seed);
        documents.give(problem.args, problem.mods, bounded);
        CHECK(run(target, problem) == "");
        const auto* o = static_cast<const std::uint16_t*>(problem.args.o.data);
        std::vector<std::uint16_t> bits(o, o + 2 * 330 * problem.args.o.shape[3]);
        if (bounded && !first.empty()) CHECK(bits == first);
        if (first.empty()) first = bits;
      }
      ++seed;
    }
  }
}

TEST_CASE("blocks outside of the bounds are never read: NaN in them shows nowhere") {
  std::uint64_t seed = 12150;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    if (testing::thinned_out(index++)) continue;
    FmhaProblem problem(shape_of(130, 900, 64, false), ++seed);
    problem.args.mask_mod = "return k >= 512 && k < 600;";
    problem.args.key_range = "k0 = 512; k1 = 600; all0 = 512; all1 = 600;";
    problem.mods.mask = [](int, int, int, int k) { return k >= 512 && k < 600; };
    for (const Tensor* tensor : {&problem.args.k, &problem.args.v}) {
      poison(*tensor, 0, 320);
      poison(*tensor, 832, 900);
    }
    CHECK(run(target, problem) == "");
  }
}

TEST_CASE("blocks that all rows see, by bounds at multiples of a block, one before and one behind") {
  struct Bounds {
    int first, end;
  };
  std::uint64_t seed = 12170;
  int index = 0;
  for (const Bounds& bounds :
       {Bounds{128, 640}, {127, 641}, {129, 639}, {0, 700}, {256, 257}, {320, 700}, {160, 480}, {0, 128}}) {
    CAPTURE(bounds.first);
    for (const int kind : {0, 1, 2}) {
      CAPTURE(kind);
      if (testing::sampled_out(index++)) continue;
      FmhaShape shape = shape_of(300, 700, kind == 1 ? 128 : 64, kind == 1);
      shape.window = kind == 2 ? FmhaWindow{400, 100} : FmhaWindow{};
      FmhaProblem problem(shape, ++seed);
      const std::int32_t numbers[] = {bounds.first, bounds.end};
      problem.args.mod_params = Tensor::contiguous(const_cast<std::int32_t*>(numbers), kCpu, DType::i32, {2});
      problem.args.mask_mod = "return k >= params.i32(0) && k < params.i32(1);";
      problem.args.key_range = "k0 = all0 = params.i32(0); k1 = all1 = params.i32(1);";
      problem.mods.mask = [&](int, int, int, int k) { return k >= bounds.first && k < bounds.end; };
      CHECK(run("model:sm_90a", problem) == "");
      problem.args.score_mod = "return k < 400 && q % 3 == 0 ? -1.0f / 0.0f : score;";
      problem.mods.mask = [&](int, int, int q, int k) {
        return k >= bounds.first && k < bounds.end && (k >= 400 || q % 3 != 0);
      };
      CHECK(run("model:sm_90a", problem) == "");
    }
  }
}

TEST_CASE("a text that says that all rows see keys from the largest number on: the mask is asked everywhere") {
  for (const char* all0 : {"0x7fffffff", "-0x7fffffff - 1"}) {
    CAPTURE(all0);
    FmhaProblem problem(shape_of(300, 700, 64, false), 12180);
    problem.args.mask_mod = "return k % 3 != 0;";
    problem.args.key_range = std::string("all0 = ") + all0 + "; all1 = " + (all0[0] == '-' ? "0;" : "700;");
    problem.mods.mask = [](int, int, int, int k) { return k % 3 != 0; };
    CHECK(run("model:sm_90a", problem) == "");
  }
}

TEST_CASE("rows and whole tiles that a text leaves without a key, with sinks and without") {
  std::uint64_t seed = 12200;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    ++index;
    for (const bool bounded : {true, false}) {
      if (testing::sampled_out(index++)) continue;
      FmhaShape shape = shape_of(300, 300, 64, false);
      shape.sinks = bounded;
      FmhaProblem problem(shape, ++seed);
      problem.args.mask_mod = "return q >= 200 && k != q;";
      if (bounded) problem.args.key_range = "if (q1 <= 200) k1 = 0;";
      problem.mods.mask = [](int, int, int q, int k) { return q >= 200 && k != q; };
      CHECK(run(target, problem) == "");
      problem.args.score_mod = "return q < 200 ? -1.0f / 0.0f : k < 150 ? -3e38f : score;";
      problem.args.mask_mod = {};
      if (bounded) problem.args.key_range = "if (q1 <= 200) k1 = 0; else k0 = 150;";
      problem.mods.mask = [](int, int, int q, int k) { return q >= 200 && k >= 150; };
      CHECK(run(target, problem) == "");
    }
  }
}

TEST_CASE("ALiBi as a text is ALiBi") {
  std::uint64_t seed = 12300;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    ++index;
    for (const bool causal : {true, false}) {
      if (testing::sampled_out(index++)) continue;
      FmhaShape shape = shape_of(200, 330, causal ? 128 : 64, causal);
      shape.alibi = 1;
      FmhaProblem problem(shape, ++seed);
      std::vector<float> slopes(static_cast<const float*>(problem.args.alibi_slopes->data),
                                static_cast<const float*>(problem.args.alibi_slopes->data) + 2);
      problem.args.mod_params = Tensor::contiguous(slopes.data(), kCpu, DType::f32, {2});
      problem.args.score_mod = "return score - params.f32(h) * (q > k ? q - k : k - q);";
      problem.args.alibi_slopes.reset();
      problem.mods.score = [&](double score, int, int h, int q, int k) {
        return score - static_cast<double>(slopes[static_cast<std::size_t>(h)]) * std::abs(q - k);
      };
      CHECK(run(target, problem) == "");
    }
  }
}

TEST_CASE("biases in each form: sizes of 1, strides of 0, both types, -inf and the lowest number for hidden keys") {
  std::uint64_t seed = 12400;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    for (int form = 0; form < 16; ++form) {
      const int number = index++;  // 11 and 16 have no common factor: each form comes, and each target
      if (!testing::full_run() && (number % 11 != 0 || testing::thinned_out(number / 11))) continue;
      CAPTURE(form);
      FmhaShape shape = shape_of(140, 270, form % 2 == 0 ? 64 : 128, form % 3 == 0);
      shape.dtype = form % 4 < 2 ? DType::f16 : DType::bf16;
      FmhaProblem problem(shape, ++seed);
      std::int64_t sizes[] = {form & 1 ? 2 : 1, form & 2 ? 2 : 1, form & 4 ? 140 : 1, form & 8 ? 270 : 1};
      const auto count = static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
      const auto drawn = samples::random_normal(count, shape.dtype, seed);
      std::vector<float> wide(count);
      for (std::size_t i = 0; i < count; ++i) wide[i] = 3 * samples::to_float(drawn[i], shape.dtype);
      if (count > 100) wide[count / 2] = -kInfinity, wide[count / 3] = std::numeric_limits<float>::lowest();
      auto narrow = drawn;
      void* data = form % 3 != 1 ? static_cast<void*>(wide.data()) : static_cast<void*>(narrow.data());
      const DType dtype = form % 3 != 1 ? DType::f32 : shape.dtype;
      problem.args.bias = Tensor::contiguous(data, kCpu, dtype, {sizes[0], sizes[1], sizes[2], sizes[3]});
      if (form == 10) problem.args.bias->shape[0] = 2, problem.args.bias->strides[0] = 0;
      CHECK(run(target, problem) == "");
    }
  }
}

TEST_CASE("all at once: softcap, slopes, a bias, texts, a window and sinks") {
  std::uint64_t seed = 12500;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    if (testing::thinned_out(index++)) continue;
    FmhaShape shape = shape_of(150, 420, 64, true);
    shape.softcap = 20, shape.alibi = 2, shape.sinks = true, shape.window = {200, -1};
    FmhaProblem problem(shape, ++seed);
    std::vector<float> bias(150 * 420);
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) - 3;
    problem.args.bias = Tensor::contiguous(bias.data(), kCpu, DType::f32, {1, 1, 150, 420});
    problem.args.score_mod = "float twice = 2 * score;\nreturn b == 1 ? twice : score; // of the second batch";
    problem.args.mask_mod = "return (k + h) % 3 != 0;";
    problem.mods.score = [](double score, int b, int, int, int) { return b == 1 ? 2 * score : score; };
    problem.mods.mask = [](int, int h, int, int k) { return (k + h) % 3 != 0; };
    CHECK(run(target, problem) == "");
  }
}

TEST_CASE("sequences, pages and few queries: places are each sequence's own") {
  std::uint64_t seed = 12600;
  int index = 0;
  for (const char* target : kSequencesTargets) {
    CAPTURE(target);
    ++index;
    for (const int page : {0, 16, 7})
      for (const bool few : {false, true}) {
        if (testing::sampled_out(index++) || (!testing::full_run() && index / 2 % 2 == 0)) continue;
        SequencesShape shape = few ? test::sequences_shape({1, 2, 0, 1}, {700, 129, 30, 0})
                                   : test::sequences_shape({140, 0, 33, 70}, {310, 50, 33, 0});
        shape.page_size = page, shape.heads = 6, shape.heads_kv = 2, shape.causal = index / 4 % 2 == 0;
        shape.sinks = index % 3 == 0;
        SequencesProblem problem(shape, ++seed);
        std::vector<float> bias(4 * 700);
        for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 11) / 4;
        if (page != 7) problem.args.bias = Tensor::contiguous(bias.data(), kCpu, DType::f32, {4, 1, 1, 700});
        problem.args.score_mod = "return score + 0.25f * b - 0.125f * h;";
        problem.args.mask_mod = "return k >= 40 * b && (q - k) % 5 != 1;";
        problem.args.key_range = "k0 = 40 * b;";
        problem.mods.score = [](double score, int b, int h, int, int) { return score + 0.25 * b - 0.125 * h; };
        problem.mods.mask = [](int b, int, int q, int k) { return k >= 40 * b && (q - k) % 5 != 1; };
        CAPTURE(shape.text());
        testing::model_runtime(target).run(problem.args);
        CHECK(problem.problem() == "");
      }
  }
}
