// Protects unloading on a real device: code is taken away behind launches that still run, and the bits of their results
// are those of launches that nobody disturbed. Loaded again, the kernels compute the same.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "gpu/gpu_device.hpp"

namespace {

using namespace tj;
using Bits = std::vector<std::uint16_t>;

struct TrimmedCalls {
  Runtime& runtime;
  Device device;
  std::vector<std::shared_ptr<void>> memory = {};

  Tensor tensor(std::initializer_list<std::int64_t> shape, unsigned seed) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    std::mt19937 random(seed);
    Bits values(count);
    for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(0x3000 + random() % 2048);  // 1/8 to 1/2
    memory.push_back(runtime.allocate(device, 2 * count));
    runtime.copy(memory.back().get(), device, values.data(), {DeviceKind::cpu, 0}, 2 * count);
    return Tensor::contiguous(memory.back().get(), device, DType::f16, shape);
  }
  Bits result(const Tensor& tensor, std::size_t count) const {
    Bits values(count);
    runtime.synchronize(device);
    runtime.copy(values.data(), {DeviceKind::cpu, 0}, tensor.data, device, 2 * count);
    return values;
  }
};

TEST_CASE("kernels that are unloaded behind their launches finish, and compute the same when they are loaded again") {
  constexpr std::int64_t kQueries = 4096, kHeads = 16, kRows = 4096;
  Options options;
  options.code_max_size_bytes = std::uint64_t{1} << 40;
  Runtime runtime(options);
  TrimmedCalls calls{runtime, test::gpu()};
  FmhaArgs attention;
  attention.q = calls.tensor({1, kHeads, kQueries, 128}, 1);
  attention.k = calls.tensor({1, kHeads, kQueries, 128}, 2);
  attention.v = calls.tensor({1, kHeads, kQueries, 128}, 3);
  attention.o = calls.tensor({1, kHeads, kQueries, 128}, 4);
  GemmArgs product;
  product.a = calls.tensor({kRows, kRows}, 5);
  product.b = calls.tensor({kRows, kRows}, 6);
  product.d = calls.tensor({kRows, kRows}, 7);
  const std::size_t heads = kHeads * kQueries * 128, rows = kRows * kRows;
  runtime.run(attention);
  runtime.run(product);
  const Bits attended = calls.result(attention.o, heads), multiplied = calls.result(product.d, rows);
  for (int round = 0; round < 20; ++round) {
    for (const Tensor* out : {&attention.o, &product.d}) {  // what an earlier round wrote is no result
      const Bits zeros(out == &product.d ? rows : heads);
      runtime.copy(out->data, calls.device, zeros.data(), {DeviceKind::cpu, 0}, 2 * zeros.size());
    }
    for (int i = 0; i < 8; ++i) {
      runtime.run(attention);
      runtime.run(product);
    }
    const TrimReport freed = runtime.trim();  // while most of them have not begun
    CHECK(freed.kernels >= 2);
    CHECK(calls.result(attention.o, heads) == attended);
    CHECK(calls.result(product.d, rows) == multiplied);
  }
  const Counters counters = runtime.counters();
  REQUIRE(counters.devices.size() == 1);
  CHECK(counters.devices[0].kernels == 0);
  std::printf("pool %llu bytes, of these %llu in use; allocated %llu\n",
              static_cast<unsigned long long>(counters.devices[0].workspace_bytes),
              static_cast<unsigned long long>(counters.devices[0].workspace_used_bytes),
              static_cast<unsigned long long>(counters.devices[0].allocated_bytes));
}

}  // namespace
