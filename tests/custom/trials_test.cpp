// Protects what trials of a user's graph mean: formulas of elements, contents, expected results, where members of the
// parameter lie. Each mistake is named by place, value and what is allowed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>

#include "custom/document.hpp"
#include "custom/trials.hpp"
#include "support/expect.hpp"
#include "support/random_values.hpp"

namespace {

using tj::ResolvedTrial;
using tj::testing::error_of;
using tj::testing::has;

std::string tried(const std::string& trial) {
  return R"({"name": "g", "machine": "sm_90a", "parameters": {"block": 64}, "candidates": [
    {"name": "narrow", "parameters": {}}, {"name": "wide", "parameters": {"block": 128}}],
    "instructions": [{"name": "a", "cycles": 1, "fu": "TC"}], "trials": [)" +
         trial + "]}";
}

const std::string kTensors = R"x("tensors": [{"name": "a", "dtype": "f16", "shape": ["m", 4], "fill": "i0 - i1 / 4"},
    {"name": "d", "dtype": "f32", "shape": ["m"], "written": true, "expected": "sum(l, 4, a[i0, l])"}])x";
const std::string kParams = R"("params": [{"kind": "i32", "of": "m"}, {"kind": "pointer", "of": "d"},
    {"kind": "f32", "of": "1 / m"}, {"kind": "map", "of": "a", "box": [1, "block", 4], "swizzle_bytes": 0}])";
const std::string kTrial = R"({"name": "t", "sizes": {"m": "2 * block"}, )" + kTensors + ", " + kParams +
                           R"x(, "blocks": "min(m / block, blocks_at_once)"})x";

ResolvedTrial trial_of(const std::string& trial, const char* candidate = "narrow") {
  return tj::Document(tried(trial), "g").trials("", candidate).at(0);
}

double formula_of(const std::string& text, const tj::FormulaScope& scope, const tj::FormulaElement& element) {
  std::int64_t budget = 10000;
  return tj::Formula(text, {{{"k", 3}}, "the trial"}, tj::graph::Fields("graph 'g'"), "fill", &scope)
      .value(element, budget);
}

/// `piece` of the whole trial instead of `other` is refused with these words.
void refuses_trial(const std::string& piece, const std::string& other, const std::string& words) {
  std::string trial = kTrial;
  const std::size_t at = trial.find(piece);
  REQUIRE_MESSAGE(at != std::string::npos, piece);
  trial.replace(at, piece.size(), other);
  const tj::Error error = error_of([&] { tj::Graph::parse(tried(trial)); });
  CHECK(error.stage == tj::Stage::graph);
  CHECK_MESSAGE(has(error.message, words), error.message);
}

}  // namespace

TEST_CASE("formulas have indices, tensors, sums, names of their own and comparisons") {
  const std::vector<tj::FormulaTensor> tensors = {{{2, 3}, {0, 1, 2, 10, 11, 12}}};
  const std::vector<std::int64_t> at = {1, 2};
  const tj::FormulaElement element{at, tensors, 0.5, 0.25};
  const tj::FormulaScope scope{2, {{"a", 2}}, true};
  const auto value = [&](const std::string& text) { return formula_of(text, scope, element); };
  CHECK(value("i0 * 10 + i1") == 12);
  CHECK(value("a[i0, i1] - a[0, 1]") == 11);
  CHECK(value("sum(l, k, a[1, l] * a[0, l])") == 11 + 24);
  CHECK(value("sum(l, i1, l)") == 1);
  CHECK(value("greatest(l, 3, -a[0, l])") == 0);
  CHECK(value("let(x, k + 1, x * x)") == 16);
  CHECK(value("sum(l, 2, sum(j, 3, a[l, j]))") == 36);
  CHECK(value("where(i0 < i1, 7, 8)") == 7);
  CHECK(value("where(i0 >= i1, 7, 8) + (i0 == 1) + (2 <= 1)") == 9);
  CHECK(value("normal + uniform") == 0.75);
  CHECK(value("mod(7, 4) + abs(-2) + tanh(0) + exp(0) + sqrt(4)") == 8);
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"b[0, 0]", "there is no tensor 'b'; a"},
           {"a[0]", "'a' has 1 indices there; its shape has 2 dimensions"},
           {"a[0, 3]", "index 1 of a tensor is 3; allowed are whole numbers from 0 to 2"},
           {"a[0, 0.5]", "is 0.5; allowed are whole"},
           {"i2", "there is no 'i2'"},
           {"sum(3, 4, 1)", "'sum' begins with a name"},
           {"cbrt(1)", "there is no function 'cbrt'; allowed are min, max, ceil, floor, abs"},
           {"where(1, 2)", "'where' has 2 arguments; allowed is three"},
           {"log(0)", "no finite number"},
           {"sum(l, 9999, sum(j, 9999, 1))", "too many steps"}}) {
    const std::string given = text;
    CHECK_MESSAGE(has(error_of([&] { value(given); }).message, words), given);
  }
  // Expressions of costs stay what they were.
  CHECK_THROWS(tj::evaluate("where(1, 2, 3)", {}, tj::graph::Fields("g"), "cycles"));
  CHECK_THROWS(tj::evaluate("1 < 2", {}, tj::graph::Fields("g"), "cycles"));
}

TEST_CASE("a trial's numbers are those of its form, and the parameter's members lie as in C++") {
  for (const auto& [candidate, rows] : {std::pair{"narrow", 128}, std::pair{"wide", 256}}) {
    const ResolvedTrial trial = trial_of(kTrial, candidate);
    CHECK(trial.tensors[0].shape == std::vector<std::int64_t>{rows, 4});
    struct alignas(64) Map {
      char bytes[128];
    };
    struct Params {
      int m;
      void* d;
      float share;
      Map map;
    };
    CHECK(trial.params[1].offset == offsetof(Params, d));
    CHECK(trial.params[2].offset == offsetof(Params, share));
    CHECK(trial.params[3].offset == offsetof(Params, map));
    CHECK(trial.params_bytes == sizeof(Params));
    CHECK(trial.params[0].number == rows);
    CHECK(trial.params[3].box.shape[1] == rows / 2);
    CHECK(trial.blocks_of(1) == 1);
    CHECK(trial.blocks_of(100) == 2);
  }
}

TEST_CASE("contents and expected results are those of the formulas, within the tolerance") {
  const ResolvedTrial trial = trial_of(kTrial);
  const std::string a = trial.content_of(0, 1);
  CHECK(a == trial.content_of(0, 2));  // nothing random in it
  CHECK(tj::value_of(tj::DType::f16, a.data() + 2 * (5 * 4 + 1)) == 4.75);
  CHECK(trial.content_of(1, 1).empty());
  std::vector<float> d(128, NAN);
  const std::vector<const void*> places = {a.data(), d.data()};
  const ResolvedTrial::Judge judge = trial.judge(places);
  for (std::size_t row = 0; row < d.size(); ++row) d[row] = 4 * static_cast<float>(row) - 1.5f;
  CHECK(judge(places) == "");
  d[3] += 0.005f;
  CHECK(judge(places) == "");
  d[3] += 0.01f, d[7] = NAN;
  CHECK_MESSAGE(has(judge(places), "element [7] of d is "), judge(places));
  CHECK_MESSAGE(has(judge(places), ", and 26.5 is expected, within 0.0265; 2 of 128 elements are wrong"),
                judge(places));
}

TEST_CASE("each mistake of a trial is named by its place") {
  refuses_trial(R"("name": "t")", R"("name": "a b")", "trials[0].name is 'a b'; allowed are 1 to 64 letters");
  refuses_trial(R"("name": "t")", R"("name": "t", "use": "never")",
                "trials[0].use is 'never'; allowed are both, check, time");
  refuses_trial(R"("m": "2 * block")", R"("m": "2 * blok")", "trials[0].sizes.m is '2 * blok': there is no 'blok'");
  refuses_trial(R"("m": "2 * block")", R"("m": 4, "block": 1)", "trials[0].sizes.block has the name of a fact of");
  refuses_trial(R"("m": "2 * block")", R"("m": "block - 64")", "trials[0].tensors[0].shape[0] is 0; allowed are 1 and");
  refuses_trial(R"("dtype": "f16")", R"("dtype": "half")",
                "trials[0].tensors[0].dtype is 'half'; allowed are f16, bf16, f32, i32, e4m3");
  refuses_trial(R"("fill": "i0 - i1 / 4")", R"("fill": "i2")", "trials[0].tensors[0].fill is 'i2': there is no 'i2'");
  refuses_trial(R"("name": "d")", R"("name": "a")", "trials[0].tensors[1].name is 'a', as of a tensor before it");
  refuses_trial(R"x(, "written": true, "expected": "sum(l, 4, a[i0, l])")x", "", "has no tensor that is written");
  refuses_trial(R"("fill": "i0 - i1 / 4")", R"("expected": "0")",
                "trials[0].tensors[0].expected is given of 'a', which the kernel does not write");
  refuses_trial("a[i0, l]", "d[i0]", "there is no tensor 'd'; a");
  refuses_trial(R"("of": "d")", R"("of": "e")",
                "trials[0].params[1].of is 'e', which is no tensor of the trial; it has a, d");
  refuses_trial(R"("kind": "i32", "of": "m")", R"("kind": "i32", "of": 3e9)", "trials[0].params[0].of is 3e+09");
  refuses_trial(R"("kind": "i32", "of": "m")", R"("kind": "int", "of": "m")", "trials[0].params[0].kind is 'int'");
  refuses_trial(R"([1, "block", 4])", "[4]", "trials[0].params[3].box has 1 dimensions, and 'a' has 2");
  refuses_trial(R"("block", 4])", R"(512, 4])", "box.shape[1] is 512; allowed are 1 to 256");
  refuses_trial(R"("swizzle_bytes": 0)", R"("swizzle_bytes": 16)", "box.swizzle_bytes is 16; allowed: 0");
  refuses_trial(R"x("min(m / block, blocks_at_once)")x", "0", "trials[0].blocks is '0', which is 0; allowed are 1 to");
  refuses_trial(R"x(, "blocks": "min(m / block, blocks_at_once)")x", "", "trials[0].blocks is missing");
  CHECK(has(error_of([] { tj::Graph::parse(tried(kTrial + "," + kTrial)); }).message,
            "trials[1].name is 't', as of a trial before it"));
  std::string large = kTrial;
  large.replace(large.find("i0 - i1 / 4"), 11, "70000");
  CHECK(has(error_of([&] { trial_of(large).content_of(0, 1); }).message,
            "trials[0].tensors[0].fill gives 70000, which f16 does not have; allowed are numbers up to 65504"));
}

TEST_CASE("numbers of each type become bits and come back") {
  for (const tj::DType dtype : {tj::DType::f16, tj::DType::bf16, tj::DType::f32, tj::DType::e4m3, tj::DType::i32})
    for (const double value : {0.0, 1.0, -2.0, 12.0, 224.0, -448.0}) {
      const std::uint32_t bits = tj::bits_of(dtype, value);
      CHECK(tj::value_of(dtype, &bits) == value);
    }
  const std::uint16_t infinite = 0xfc00, nan = 0x7e00, least = 1;
  CHECK(tj::value_of(tj::DType::f16, &infinite) == -INFINITY);
  CHECK(std::isnan(tj::value_of(tj::DType::f16, &nan)));
  CHECK(tj::value_of(tj::DType::f16, &least) == std::ldexp(1.0, -24));
  const std::uint8_t none = 0x7f;
  CHECK(std::isnan(tj::value_of(tj::DType::e4m3, &none)));
}
