// Protects what holds for every call of the CUDA driver object: a device that is not there is refused by name before
// the driver hears of it. And launches by the driver's own call alone.
#include <doctest/doctest.h>

#include <functional>
#include <span>
#include <string>

#include "fakes/fake_cuda.hpp"
#include "launch/bare_launch.hpp"
#include "launch/driver.hpp"
#include "support/expect.hpp"

namespace {

using tj::testing::error_of;

std::string cubin() { return "\177ELF" + std::string(252, '\0'); }

std::shared_ptr<tj::launch::Driver> open() {
  std::string reason;
  auto driver = tj::launch::open_cuda(&reason);
  REQUIRE_MESSAGE(driver != nullptr, reason);
  return driver;
}

TEST_CASE("no device is a reason, not an error") {
  tj::test::FakeCuda fake;
  fake.set_devices(0);
  std::string reason;
  CHECK(tj::launch::open_cuda(&reason) == nullptr);
  CHECK(reason.find("finds no device") != std::string::npos);
  CHECK(tj::launch::open_cuda(nullptr) == nullptr);
}

TEST_CASE("a device that is not there is refused by every call, before the driver hears of it") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  alignas(64) char map[tj::launch::kTensorMapBytes];
  tj::launch::TensorMapDesc desc;
  alignas(256) static char memory[4096];
  desc.base = memory;
  desc.rank = 2;
  desc.dims = {128, 64};
  desc.stride_bytes = {2, 256};
  desc.box = {64, 64};
  char byte = 0;
  const std::string before = fake.log();
  for (const int device : {-1, 1}) {
    const std::function<void()> calls[] = {
        [&] { driver->device_info(device); },
        [&] { driver->load(device, cubin(), "kernel", 0); },
        [&] { driver->encode_tensor_map(device, desc, map); },
        [&] { driver->capturing(device, {}); },
        [&] { driver->allocate(device, 16); },
        [&] { driver->scratch(device, 16, {}); },
        [&] { driver->copy(device, memory, true, &byte, false, 1); },
        [&] { driver->synchronize(device, {}); },
        [&] { driver->time_ms(device, [] {}); },
        [&] { driver->record(device, [](tj::Stream) {}); },
    };
    for (const auto& call : calls) {
      CAPTURE(&call - calls);
      const tj::Error error = error_of(call);
      CHECK(error.stage == tj::Stage::argument);
      CHECK_MESSAGE(
          error.message.find("device cuda:" + std::to_string(device) + " does not exist") != std::string::npos,
          error.message);
    }
  }
  CHECK(std::string(fake.log()) == before);
}

TEST_CASE("bare launches are the launch itself, so many times") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  const auto kernel = driver->load(0, cubin(), "kernel", 0);
  const int parameter = 1;
  const std::string before = fake.log();
  tj::launch::launch_bare(*driver, 0, *kernel, {{3, 1, 1}, {.threads = 64}},
                          std::as_bytes(std::span<const int>(&parameter, 1)), {}, 3);
  const std::string added = std::string(fake.log()).substr(before.size());
  std::size_t launches = 0;
  for (std::size_t at = 0;
       (at = added.find("cuLaunchKernelEx grid 3x1x1 threads 64 smem 0\n", at)) != std::string::npos; ++at)
    ++launches;
  CHECK(launches == 3);
}

}  // namespace
