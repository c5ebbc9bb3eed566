// Protects tanh of a softcap, against f64, on the text that devices compile: products that are small against the cap,
// by multiply-adds alone, up to their limit; all others; scales of either sign; caps that have no small products.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <tilejit/fmha.hpp>

#include "model/model_unit.hpp"
#include "ops/fmha/scores.hpp"

using namespace tj;

namespace {

struct Params {
  const ops::fmha::Params* call;
  const float* x;
  float *small, *any;
  int count;
};

constexpr const char* kText =
    "#include \"ops/fmha/score.cuh\"\n"
    "struct Params { const tj::ops::fmha::Params* call; const float* x; float *small, *any; int count; };\n"
    "TJ_KERNEL(kernel, 32, Params, p) {\n"
    "  for (int i = static_cast<int>(thread_index()); i < p.count; i += 32) {\n"
    "    p.small[i] = tj::ops::fmha::small_tanh(*p.call, p.x[i]);\n"
    "    p.any[i] = tj::ops::fmha::tanh_of_powers(p.x[i] * p.call->cap_powers);\n"
    "  }\n"
    "}\n";

struct Found {
  std::vector<float> small, any;
};

Found found_of(const ops::fmha::Params& call, const std::vector<float>& x) {
  static testing::ModelUnit unit(kText, "sm_90a");
  Found found{std::vector<float>(x.size(), 7.0f), std::vector<float>(x.size(), 7.0f)};
  unit.run("kernel", Params{&call, x.data(), found.small.data(), found.any.data(), static_cast<int>(x.size())}, 32);
  return found;
}

ops::fmha::Params call_of(float scale, float cap) {
  FmhaArgs args;
  args.q = args.k = args.v = args.o = Tensor::contiguous(nullptr, {DeviceKind::cpu, 0}, DType::f16, {1, 1, 1, 64});
  args.scale = scale, args.softcap = cap;
  ops::fmha::Params params{};
  ops::set_scores(params, args);
  return params;
}

}  // namespace

TEST_CASE("products up to the limit have their tanh within 8e-7 of itself, all have it within 2e-7 of 1") {
  for (const float cap : {0.5f, 1.0f, 30.0f, 50.0f, 1000.0f})
    for (const float scale : {0.125f, 1.0f, -0.0883883f}) {
      CAPTURE(cap);
      CAPTURE(scale);
      const ops::fmha::Params call = call_of(scale, cap);
      REQUIRE(call.cap_small == doctest::Approx(0.5 * cap / std::fabs(scale)));
      std::vector<float> x;
      for (int i = -4000; i <= 4000; ++i) x.push_back(call.cap_small * static_cast<float>(i) / 4000);
      const Found found = found_of(call, x);
      double worst_small = 0, worst_any = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact =
            std::tanh(static_cast<double>(x[i]) * static_cast<double>(scale) / static_cast<double>(cap));
        if (exact != 0) worst_small = std::max(worst_small, std::fabs(found.small[i] / exact - 1));
        worst_any = std::max(worst_any, std::fabs(found.any[i] - exact));
      }
      CHECK(worst_small < 8e-7);
      CHECK(worst_any < 2e-7);
    }
}

TEST_CASE("a cap that is far from the scale has no small products; infinities are the cap, NaN stays") {
  for (const float cap : {1e-7f, 1e7f}) CHECK(call_of(0.125f, cap).cap_small < 0);
  CHECK(call_of(0, 30).cap_small < 0);
  const float infinity = std::numeric_limits<float>::infinity();
  const Found found = found_of(call_of(0.125f, 30), {infinity, -infinity, std::nanf(""), 0.0f});
  CHECK(found.any[0] == 1.0f);
  CHECK(found.any[1] == -1.0f);
  CHECK(std::isnan(found.any[2]));
  CHECK(std::isnan(found.small[2]));
  CHECK(found.small[3] == 0.0f);
}
