// Protects the biases of key channels at heads so many that a bias lies 2 GB behind the first one.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/gated_delta_rule/params.cuh"
#include "tests/model/primitive_unit.hpp"

using namespace tj;

namespace {

constexpr const char* kBiasUnit = R"(
#include "ops/gated_delta_rule/channels.cuh"
struct Params { tj::ops::gated_delta_rule::Params of; int head; float* decays; };
struct Rule {
  using Element = tj::dev::Bf16;
  static constexpr int kHeadDim = 128;
  static constexpr bool kChannelGate = true;
};
TJ_KERNEL(kernel, 32, Params, p) {
  if (thread_index() != 0) return;
  float decays[4];
  tj::ops::gated_delta_rule::channel_decays<Rule>(p.of, {0, 0, p.head}, 124, decays);
  for (int n = 0; n < 4; ++n) p.decays[n] = decays[n];
}
)";
struct BiasParams {
  ops::gated_delta_rule::Params of;
  int head;
  float* decays;
};

}  // namespace

TEST_CASE("a bias of a channel lies far behind the first one") {
  auto unit = testing::PrimitiveUnit::on_model(kBiasUnit, "sm_90a");
  constexpr int kWidth = 128;
  const std::vector<float> numbers(kWidth, 0.0f), biases(kWidth, 2.0f);
  const float* const bias = unit.upload(biases);
  for (const int head : {1 << 22, (1 << 25) - 1}) {
    CAPTURE(head);
    BiasParams params{};
    params.of.options = ops::gated_delta_rule::kGateRaw;
    params.of.gate.data = unit.upload(numbers);
    params.of.a_log = unit.upload(numbers) - head;  // the kernel reads the numbers of this head alone
    params.of.dt_bias = bias - std::int64_t{head} * kWidth;
    params.head = head;
    params.decays = unit.upload(std::vector<float>(4));
    unit.run(params, 32);
    for (const float decay : unit.download(params.decays, 4))
      CHECK(decay == doctest::Approx(std::exp(-std::log1p(std::exp(2.0)))).epsilon(1e-5));
  }
}
