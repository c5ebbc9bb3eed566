// Protects quick kernels on a real device: what a call computes under on_miss `quick` is what the best kernel computes,
// up to rounding, for attention and products of the device's own target and of warps' instructions.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "gpu/gpu_device.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using Halves = std::vector<std::uint16_t>;

float value_of(std::uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const float size = exponent == 31  ? NAN
                     : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                     : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

/// f16 from 1/8 to 1/2, of both signs.
Halves drawn_halves(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Halves values(count);
  for (std::uint16_t& value : values)
    value = static_cast<std::uint16_t>(0x3000 + random() % 2048 + (random() % 2) * 0x8000);
  return values;
}

struct Calls {
  Runtime& runtime;
  Device device;
  std::vector<std::shared_ptr<void>> memory;

  Tensor tensor(std::initializer_list<std::int64_t> shape, unsigned seed) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    const Halves values = drawn_halves(count, seed);
    memory.push_back(runtime.allocate(device, 2 * count));
    runtime.copy(memory.back().get(), device, values.data(), {DeviceKind::cpu, 0}, 2 * count);
    return Tensor::contiguous(memory.back().get(), device, DType::f16, shape);
  }
  Halves result(const Tensor& tensor, std::size_t count) const {
    Halves values(count);
    runtime.synchronize(device);
    runtime.copy(values.data(), {DeviceKind::cpu, 0}, tensor.data, device, 2 * count);
    return values;
  }
};

void check_call(Calls& calls, const std::function<void()>& call, const Tensor& out, std::size_t count,
                const std::string& what) {
  const auto replaced = [&] {
    const Counters counters = calls.runtime.counters();
    return counters.quick_kernels == counters.quick_replaced;
  };
  const std::uint64_t before = calls.runtime.counters().quick_kernels;
  call();
  const Halves quick = calls.result(out, count);
  const bool was_quick = calls.runtime.counters().quick_kernels > before;
  while (!replaced()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  call();
  const Halves best = calls.result(out, count);
  double worst = 0, size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    worst = std::fmax(worst, std::fabs(value_of(quick[i]) - value_of(best[i])));
    size = std::fmax(size, std::fabs(value_of(best[i])));
  }
  std::printf("%s: %s, worst difference %g of %g\n", what.c_str(), was_quick ? "quick" : "no quick kernel", worst,
              size);
  CHECK_MESSAGE(worst <= size / 256, what);
}

TEST_CASE("a quick kernel computes what the best one does") {
  const Device device = test::nvidia_gpu();
  for (const char* target : {"", "sm_90"}) {
    const testing::Scratch scratch;
    Options options;
    options.cache_dir = scratch / "cache";
    options.on_miss = MissPolicy::quick;
    if (*target != '\0' && Runtime::instance().target_of(device) != "sm_90a") continue;
    options.target = target;
    Runtime runtime(options);
    Calls calls{runtime, device, {}};
    FmhaArgs attention;
    attention.q = calls.tensor({1, 2, 512, 128}, 1);
    attention.k = calls.tensor({1, 2, 512, 128}, 2);
    attention.v = calls.tensor({1, 2, 512, 128}, 3);
    attention.o = calls.tensor({1, 2, 512, 128}, 4);
    for (const bool causal : {false, true}) {
      attention.causal = causal;
      check_call(
          calls, [&] { runtime.run(attention); }, attention.o, 2 * 512 * 128,
          std::string(target) + (causal ? " causal attention" : " attention"));
    }
    for (const std::int64_t rows : {384, 2048}) {
      GemmArgs product;
      product.a = calls.tensor({rows, 512}, 5);
      product.b = calls.tensor({rows, 512}, 6);
      product.d = calls.tensor({rows, rows}, 7);
      check_call(
          calls, [&] { runtime.run(product); }, product.d, static_cast<std::size_t>(rows * rows),
          std::string(target) + " product of " + std::to_string(rows));
    }
  }
}

}  // namespace
