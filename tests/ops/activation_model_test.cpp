// Protects the accuracy of activations by themselves: results of whole products are judged by their norm, in which a
// wrong tail is not seen.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/model/primitive_unit.hpp"

using namespace tj;

namespace {

constexpr const char* kUnit = R"(
#include "ops/activation.cuh"
struct Params { const float* x; float* gelu; float* gelu_tanh; float* silu; int count; };
TJ_KERNEL(kernel, 128, Params, p) {
  for (int i = static_cast<int>(thread_index()); i < p.count; i += 128) {
    p.gelu[i] = tj::ops::activate<tj::ops::kGelu>(p.x[i]);
    p.gelu_tanh[i] = tj::ops::activate<tj::ops::kGeluTanh>(p.x[i]);
    p.silu[i] = tj::ops::activate<tj::ops::kSilu>(p.x[i]);
  }
}
)";
struct Params {
  const float* x;
  float* gelu;
  float* gelu_tanh;
  float* silu;
  int count;
};

struct Results {
  std::vector<float> gelu, gelu_tanh, silu;
};
Results results_of(const std::vector<float>& x) {
  auto unit = testing::PrimitiveUnit::on_model(kUnit, "sm_90a");
  const std::vector<float> none(x.size());
  const Params params{unit.upload(x), unit.upload(none), unit.upload(none), unit.upload(none),
                      static_cast<int>(x.size())};
  unit.run(params, 128);
  return {unit.download(params.gelu, x.size()), unit.download(params.gelu_tanh, x.size()),
          unit.download(params.silu, x.size())};
}

}  // namespace

TEST_CASE("gelu, gelu_tanh and silu are within what they promise, in their tails too") {
  std::vector<float> x;
  for (int i = -16000; i <= 16000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  const Results found = results_of(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i], gelu = 0.5 * at * std::erfc(-at / std::sqrt(2.0)), silu = at / (1 + std::exp(-at));
    const double wrong = std::fabs(found.gelu[i] - gelu), share = at < -5.8 ? 3e-3 : at < 0 ? 2.5e-4 : 1e-6;
    CAPTURE(at);
    CHECK(wrong <= 5e-7);
    CHECK(wrong <= share * std::fabs(gelu) + 2e-37);  // 2^ of less than -126 is 0
    // tanh as a quotient: 1 + tanh would lose the tail.
    const double twice = std::sqrt(8 / std::acos(-1.0)) * (at + 0.044715 * at * at * at),
                 tanh = at / (1 + std::exp(-twice));
    CHECK(std::fabs(found.gelu_tanh[i] - tanh) <= 2e-5 * std::fabs(tanh) + 2e-37);
    CHECK(std::fabs(found.silu[i] - silu) <= 1e-6 * std::fabs(silu));
  }
}

TEST_CASE("gelu of what is no number, and of the ends") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> found = results_of({NAN, infinity, -infinity, -13.5f, -1e30f, 1e30f, 0.0f, -0.0f}).gelu;
  CHECK(std::isnan(found[0]));
  CHECK(found[1] == infinity);
  for (const std::size_t i : {2u, 3u, 4u, 6u, 7u}) {
    CHECK(found[i] == 0);
    CHECK(!std::signbit(found[i]));
  }
  CHECK(found[5] == 1e30f);
}
