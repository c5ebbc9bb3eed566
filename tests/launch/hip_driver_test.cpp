// Protects: what the HIP driver object promises to its callers: device facts from either name, arguments that arrive
// byte for byte, a hot path of two calls and no allocation, the current device as others left it, owners in any order,
// and named refusals.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fakes/fake_hip.hpp"
#include "launch/bare_launch.hpp"
#include "launch/driver.hpp"
#include "support/allocations.hpp"
#include "support/expect.hpp"
#include "support/made_code_object.hpp"

namespace {

using tj::launch::Driver;
using tj::test::FakeHip;
using tj::testing::error_of;
using tj::testing::has;
using tj::testing::made_code_object;

std::string object(int params_bytes = sizeof(int)) {
  return made_code_object("gfx1100", "kernel", params_bytes, 256, 1024);
}

std::shared_ptr<Driver> open() {
  std::string reason;
  auto driver = tj::launch::open_hip(&reason);
  REQUIRE_MESSAGE(driver != nullptr, reason);
  return driver;
}

std::string added(FakeHip& fake, const std::string& before) { return std::string(fake.log()).substr(before.size()); }

TEST_CASE("a device is described by its own words, with the compute units that kernels run on") {
  FakeHip fake;
  fake.set_processor("gfx90a:sramecc+:xnack-");
  fake.set_devices(3);
  const auto driver = open();
  CHECK(driver->device_count() == 3);
  const tj::launch::DeviceInfo info = driver->device_info(2);
  CHECK(info.vendor == "amd");
  CHECK(info.name == "Fake Radeon");
  CHECK(info.processor == "gfx90a:sramecc+:xnack-");
  CHECK(info.major == 11);
  CHECK(info.minor == 0);
  CHECK(info.sm_count == 96);
  CHECK(info.smem_per_block_bytes == 65536);
  CHECK(has(fake.log(), "hipGetDevicePropertiesR0600"));
  CHECK(has(error_of([&] { driver->device_info(3); }).message, "hip:3 does not exist"));
  // Asked once: the runtime takes its time for it.
  const std::string before = fake.log();
  driver->device_info(2);
  CHECK(added(fake, before) == "");
}

TEST_CASE(
    "a runtime that does not know the number of compute units is believed what its properties say; nonsense is "
    "refused") {
  FakeHip fake;
  fake.set_physical_units(0);
  CHECK(open()->device_info(0).sm_count == 48);
  CHECK(std::string(fake.leaks()) == "");
  fake.set_processor("Z");
  const tj::Error e = error_of([] { open()->device_info(0); });
  CHECK(e.code == tj::Code::driver_error);
  CHECK_MESSAGE(has(e.message, "layout that is not known"), e.message);
}

TEST_CASE("without a device there is no driver, and the reason names the call") {
  FakeHip fake;
  std::string reason;
  fake.fail("hipInit", 1, 101);
  CHECK(tj::launch::open_hip(&reason) == nullptr);
  for (const char* words : {"finds no device", "hipInit", "(101)", "libamdhip64.so.6", "render and video"})
    CHECK_MESSAGE(has(reason, words), reason);
  fake.fail("hipGetDeviceCount", 1, 100);
  CHECK(tj::launch::open_hip(&reason) == nullptr);
  CHECK_MESSAGE(has(reason, "hipGetDeviceCount failed with hipErrorFake100 (100)"), reason);
  fake.set_devices(0);
  CHECK(tj::launch::open_hip(nullptr) == nullptr);
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("the parameter arrives byte for byte, in the size that the kernel takes") {
  FakeHip fake;
  {
    const auto driver = open();
    for (const int bytes : {1, 7, 24, 90, 4000}) {
      CAPTURE(bytes);
      const auto kernel = driver->load(0, object(bytes), "kernel", 0);
      CHECK(kernel->params_bytes() == static_cast<std::size_t>(bytes));
      std::string params(static_cast<std::size_t>(bytes), '\0');
      for (std::size_t i = 0; i < params.size(); ++i) params[i] = static_cast<char>(i * 7 + 1);
      driver->launch(0, *kernel, {{3, 2, 1}, {.threads = 64, .smem_bytes = 512}}, params.data(), params.size(), {});
      std::string arrived(5000, '\0');
      const std::size_t size = fake.last_params(arrived.data(), arrived.size());
      arrived.resize(size);
      CHECK(arrived == params);
      const tj::Error e = error_of(
          [&] { driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 64}}, params.data(), params.size() + 1, {}); });
      CHECK(e.stage == tj::Stage::launch);
      CHECK_MESSAGE(has(e.message, "a parameter of"), e.message);
    }
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("a hot launch is two calls and no allocation, two more where another device is current") {
  FakeHip fake;
  fake.set_devices(2);
  {
    const auto driver = open();
    const auto kernel = driver->load(1, object(), "kernel", 0);
    const int parameter = 1;
    const auto hot = [&] {
      driver->launch(1, *kernel, {{96, 1, 1}, {.threads = 128, .smem_bytes = 1000}}, &parameter, sizeof(parameter), {});
    };
    std::string before = fake.log();
    hot();
    CHECK(added(fake, before) ==
          "hipGetDevice\nhipSetDevice 1\nhipModuleLaunchKernel grid 96x1x1 threads 128 smem 1000 device "
          "1\nhipSetDevice 0\n");
    fake.set_device(1);
    before = fake.log();
    hot();
    CHECK(added(fake, before) == "hipGetDevice\nhipModuleLaunchKernel grid 96x1x1 threads 128 smem 1000 device 1\n");
    fake.record(0);
    const long allocated = tj::testing::allocations();
    hot();
    CHECK(tj::testing::allocations() == allocated);
    fake.record(1);
    fake.set_device(0);
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("another device stays current across every call") {
  FakeHip fake;
  fake.set_devices(2);
  fake.set_device(1);
  {
    const auto driver = open();
    const auto kernel = driver->load(0, object(), "kernel", 0);
    const auto memory = driver->allocate(0, 16);
    const auto scratch = driver->scratch(0, 16, {});
    const int parameter = 1;
    driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), {});
    driver->time_ms(0, [] {});
    driver->record(0, [](tj::Stream) {});
  }
  int current = -1;
  fake.get_device(&current);
  CHECK(current == 1);
  fake.set_device(0);
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("recorded launches run when they are replayed, as often as that is; what throws leaves nothing") {
  FakeHip fake;
  fake.set_block_ms(0.25);
  {
    auto driver = open();
    const auto kernel = driver->load(0, object(), "kernel", 0);
    const int parameter = 1;
    const auto launch = [&](unsigned blocks, tj::Stream stream) {
      driver->launch(0, *kernel, {{blocks, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), stream);
    };
    std::shared_ptr<tj::launch::Recording> recording;
    CHECK(driver->time_ms(0, [&] {
      recording = driver->record(0, [&](tj::Stream stream) {
        launch(8, stream);
        launch(4, stream);
      });
    }) == 0);
    CHECK(driver->time_ms(0, [&] {
      recording->replay({});
      recording->replay({});
    }) == 6);
    const std::string until = fake.log();
    CHECK_THROWS(driver->record(0, [&](tj::Stream stream) {
      launch(1, stream);
      launch(0, stream);
    }));
    CHECK(std::string(fake.log()).find("StreamEndCapture stream", until.size()) != std::string::npos);
    driver.reset();
    recording->replay({});
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("scratch memory comes from a pool of the library's own; a stream that records a graph gets the graph's") {
  FakeHip fake;
  {
    const auto driver = open();
    driver->scratch(0, 1000, {}).reset();
    CHECK(has(fake.log(), "hipMemPoolSetAttribute 134217728"));
    CHECK(has(fake.log(), "hipMallocFromPoolAsync 1000"));
    CHECK(has(fake.log(), "hipFreeAsync"));
    fake.set_capture(1);
    CHECK(driver->capturing(0, {}));
    const std::string before = fake.log();
    driver->scratch(0, 1000, {}).reset();
    CHECK(has(added(fake, before), "hipMallocAsync 1000"));
    CHECK_FALSE(has(added(fake, before), "hipMallocFromPoolAsync"));
    fake.set_capture(0);
    fake.fail("hipStreamIsCapturing", 4, 906);  // hipErrorStreamCaptureImplicit
    CHECK(driver->capturing(0, {}));
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("kernels, memory and scratch memory may outlive the driver object") {
  FakeHip fake;
  auto driver = open();
  auto kernel = driver->load(0, object(), "kernel", 0);
  auto memory = driver->allocate(0, 16), scratch = driver->scratch(0, 16, {});
  driver.reset();
  CHECK(std::string(fake.leaks()) != "");
  kernel.reset();
  memory.reset();
  scratch.reset();
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("threads share one driver") {
  FakeHip fake;
  {
    const auto driver = open();
    const auto kernel = driver->load(0, object(), "kernel", 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        const int parameter = 1;
        for (int i = 0; i < 50; ++i) {
          driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), {});
          const auto own = driver->load(0, object(), "kernel", 0);
          const auto memory = driver->allocate(0, 64), scratch = driver->scratch(0, 64, {});
          driver->device_info(0);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("a binary that does not fit is refused before the runtime sees it") {
  FakeHip fake;
  fake.set_processor("gfx90a:sramecc+:xnack-");
  {
    const auto driver = open();
    const auto refused = [&](const std::string& bytes, const std::string& symbol, std::int64_t smem_bytes) {
      return error_of([&] { driver->load(0, bytes, symbol, smem_bytes); });
    };
    const std::string fits = made_code_object("gfx90a", "kernel", 4, 256, 1024);
    CHECK_NOTHROW(driver->load(0, fits, "kernel", 65536 - 1024));
    const std::string before = fake.log();
    const tj::Error no_object = refused("no elf", "kernel", 0);
    CHECK(no_object.code == tj::Code::unsupported);
    CHECK_MESSAGE(has(no_object.message, "no code object"), no_object.message);
    const tj::Error another = refused(object(), "kernel", 0);
    CHECK(another.code == tj::Code::unsupported);
    CHECK_MESSAGE(has(another.message, "is for gfx1100"), another.message);
    CHECK_MESSAGE(has(another.message, "gfx90a:sramecc+:xnack-"), another.message);
    CHECK(has(refused(fits, "other", 0).message, "no kernel \"other\""));
    const tj::Error large = refused(fits, "kernel", 65536 - 1023);
    CHECK_MESSAGE(has(large.message, "wants 64513 bytes of shared memory"), large.message);
    CHECK(added(fake, before) == "");
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("launches that no AMD device runs are refused by name") {
  FakeHip fake;
  fake.set_devices(2);
  {
    const auto driver = open();
    const auto kernel = driver->load(0, object(), "kernel", 0);
    const int parameter = 1;
    const auto refused = [&](int device, const tj::launch::LaunchConfig& config) {
      return error_of([&] { driver->launch(device, *kernel, config, &parameter, sizeof(parameter), {}); });
    };
    const std::string before = fake.log();
    CHECK(has(refused(0, {{2, 1, 1}, {.threads = 64, .cluster = 2}}).message, "make the cluster 1"));
    CHECK(has(refused(0, {{2, 1, 1}, {.threads = 257}}).message, "at most 256 threads"));
    CHECK(has(refused(1, {{2, 1, 1}, {.threads = 64}}).message, "not loaded on hip:1"));
    CHECK(error_of([&] { driver->resident_clusters(0, *kernel, {{2, 1, 1}, {.threads = 64, .cluster = 2}}); }).code ==
          tj::Code::unsupported);
    tj::launch::TensorMapDesc desc;
    alignas(64) char map[tj::launch::kTensorMapBytes];
    const tj::Error maps = error_of([&] { driver->encode_tensor_map(0, desc, map); });
    CHECK(maps.code == tj::Code::unsupported);
    CHECK_MESSAGE(has(maps.message, "copy engine"), maps.message);
    const tj::Error wide = refused(0, {{1u << 26, 1, 1}, {.threads = 64}});
    CHECK(wide.code == tj::Code::unsupported);
    CHECK_MESSAGE(has(wide.message,
                      "the launch has 67108864 blocks of 64 threads, 4294967296 in all; HIP allows fewer than 2^32"),
                  wide.message);
    CHECK_FALSE(has(added(fake, before), "hipModuleLaunchKernel"));
    driver->launch(0, *kernel, {{(1u << 26) - 1, 1, 1}, {.threads = 64}}, &parameter, sizeof(parameter), {});
    driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 64}, true}, &parameter, sizeof(parameter),
                   {});  // may start early, need not
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("memory becomes zeros in the order of a stream") {
  FakeHip fake;
  const auto driver = open();
  const auto memory = driver->allocate(0, 8);
  driver->copy(0, memory.get(), true, "abcdefg", false, 8);
  driver->zero(0, memory.get(), 6, {});
  CHECK(std::memcmp(memory.get(), "\0\0\0\0\0\0g", 8) == 0);
  CHECK(has(fake.log(), "hipMemsetAsync 6 in "));
}

TEST_CASE("copies go in all four directions") {
  FakeHip fake;
  const auto driver = open();
  const auto a = driver->allocate(0, 8), b = driver->allocate(0, 8);
  CHECK(reinterpret_cast<std::uintptr_t>(a.get()) % 256 == 0);
  const char text[8] = "abcdefg";
  char back[8] = {}, host[8] = {};
  driver->copy(0, a.get(), true, text, false, 8);
  driver->copy(0, b.get(), true, a.get(), true, 8);
  driver->copy(0, host, false, b.get(), true, 8);
  driver->copy(0, back, false, host, false, 8);
  driver->copy(0, back, false, nullptr, true, 0);
  CHECK(std::strcmp(back, text) == 0);
  CHECK(has(fake.log(), "hipMemcpy 8 kind 1\n"));
  CHECK(has(fake.log(), "hipMemcpy 8 kind 3\n"));
  CHECK(has(fake.log(), "hipMemcpy 8 kind 2\n"));
}

TEST_CASE("a device that is not there is refused by every call, before the driver hears of it") {
  FakeHip fake;
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
        [&] { driver->load(device, object(), "kernel", 0); },
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
      CHECK_MESSAGE(error.message.find("device hip:" + std::to_string(device) + " does not exist") != std::string::npos,
                    error.message);
    }
  }
  CHECK(std::string(fake.log()) == before);
}

TEST_CASE("bare launches are the launch itself, so many times") {
  FakeHip fake;
  const auto driver = open();
  const auto kernel = driver->load(0, object(), "kernel", 0);
  const int parameter = 1;
  const std::string before = fake.log();
  tj::launch::launch_bare(*driver, 0, *kernel, {{3, 1, 1}, {.threads = 64}},
                          std::as_bytes(std::span<const int>(&parameter, 1)), {}, 3);
  const std::string added = std::string(fake.log()).substr(before.size());
  std::size_t launches = 0;
  for (std::size_t at = 0;
       (at = added.find("hipModuleLaunchKernel grid 3x1x1 threads 64 smem 0\n", at)) != std::string::npos; ++at)
    ++launches;
  CHECK(launches == 3);
}

}  // namespace
