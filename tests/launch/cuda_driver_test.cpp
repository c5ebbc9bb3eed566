// Protects: what the CUDA driver object promises to its callers: device facts, a hot path of two driver calls and no
// allocation, contexts as other users of the process left them, owners in any order, and named refusals.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fakes/fake_cuda.hpp"
#include "launch/driver.hpp"
#include "support/allocations.hpp"
#include "support/expect.hpp"

namespace {

using tj::launch::Driver;
using tj::testing::error_of;

std::string cubin() { return "\177ELF" + std::string(252, '\0'); }

std::shared_ptr<Driver> open() {
  std::string reason;
  auto driver = tj::launch::open_cuda(&reason);
  REQUIRE_MESSAGE(driver != nullptr, reason);
  return driver;
}

bool has_text(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }
bool has(const tj::Error& error, const char* words) { return has_text(error.message, words); }

tj::launch::TensorMapDesc good_map() {
  alignas(256) static char memory[4096];
  tj::launch::TensorMapDesc desc;
  desc.base = memory;
  desc.rank = 3;
  desc.dims = {128, 100, 6};
  desc.stride_bytes = {2, 256, 25600};
  desc.box = {64, 128, 1};
  return desc;
}

TEST_CASE("the device is described") {
  tj::test::FakeCuda fake;
  fake.set_devices(2);
  const auto driver = open();
  CHECK(driver->device_count() == 2);
  const tj::launch::DeviceInfo info = driver->device_info(1);
  CHECK(info.vendor == "nvidia");
  CHECK(info.name == "Fake H200");
  CHECK(info.major == 9);
  CHECK(info.minor == 0);
  CHECK(info.sm_count == 132);
  CHECK(info.smem_per_block_bytes == 232448);
  fake.set_capability(8, 6);
  CHECK(driver->device_info(0).major == 8);
  CHECK(driver->device_info(0).minor == 6);
  const tj::Error error = error_of([&] { driver->device_info(2); });
  CHECK(error.stage == tj::Stage::argument);
  CHECK(has(error, "cuda:2"));
}

TEST_CASE("only a kernel that waits itself may start while the work before it runs") {
  tj::test::FakeCuda fake;
  {
    const auto driver = open();
    const auto kernel = driver->load(0, cubin(), "kernel", 0);
    const int parameter = 1;
    driver->launch(0, *kernel, {{2, 1, 1}, {.threads = 128}, true}, &parameter, sizeof(parameter), {});
    driver->launch(0, *kernel, {{2, 1, 1}, {.threads = 128}}, &parameter, sizeof(parameter), {});
    driver->launch(0, *kernel, {{3, 1, 1}, {.threads = 128}, true, {}, false}, &parameter, sizeof(parameter), {});
  }
  const std::string log = fake.log();
  CHECK(log.find("cuLaunchKernelEx grid 3x1x1 threads 128 smem 0\n") != std::string::npos);  // its op says so
  CHECK(log.find("cuLaunchKernelEx grid 2x1x1 threads 128 smem 0 waits itself\n") != std::string::npos);
  CHECK(log.find("cuLaunchKernelEx grid 2x1x1 threads 128 smem 0\n") != std::string::npos);
}

TEST_CASE("with the context current, a launch is two driver calls and no allocation") {
  tj::test::FakeCuda fake;
  {
    const auto driver = open();
    const auto kernel = driver->load(0, cubin(), "kernel", 0);
    void* context = nullptr;
    fake.retain(&context, 0);
    fake.push(context);
    const int parameter = 1;
    alignas(64) char map[tj::launch::kTensorMapBytes];
    const tj::launch::TensorMapDesc desc = good_map();
    const auto hot = [&] {
      driver->encode_tensor_map(0, desc, map);
      driver->launch(0, *kernel, {{132, 1, 1}, {.threads = 384, .smem_bytes = 1000}}, &parameter, sizeof(parameter),
                     {});
    };
    const std::string before = fake.log();
    hot();
    const std::string added = std::string(fake.log()).substr(before.size());
    CHECK(added ==
          "cuCtxGetCurrent\ncuTensorMapEncodeTiled\ncuCtxGetCurrent\ncuLaunchKernelEx grid 132x1x1 threads 384 smem "
          "1000\n");
    fake.record(0);
    const long allocated = tj::testing::allocations();
    hot();
    CHECK(tj::testing::allocations() == allocated);
    fake.record(1);
    fake.pop(&context);
    fake.release(0);
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE(
    "a launch in clusters says so, allocates nothing, and a grid that they do not divide is refused by the driver's "
    "name") {
  tj::test::FakeCuda fake;
  {
    const auto driver = open();
    const auto kernel = driver->load(0, cubin(), "kernel", 0);
    const int parameter = 1;
    const std::string before = fake.log();
    const auto launch = [&](unsigned blocks) {
      driver->launch(0, *kernel, {{blocks, 1, 1}, {.threads = 384, .cluster = 2, .smem_bytes = 1000}}, &parameter,
                     sizeof(parameter), {});
    };
    launch(66);
    CHECK(has_text(std::string(fake.log()).substr(before.size()),
                   "cuLaunchKernelEx grid 66x1x1 threads 384 smem 1000 cluster 2\n"));
    const tj::Error error = error_of([&] { launch(65); });
    CHECK(error.stage == tj::Stage::launch);
    CHECK(has(error, "cuLaunchKernelEx"));
    CHECK(has(error, "(912)"));
    CHECK(has(error, "a multiple of the cluster"));
    CHECK(driver->resident_clusters(0, *kernel, {{2, 1, 1}, {.threads = 384, .cluster = 2, .smem_bytes = 1000}}) == 66);
    CHECK(driver->resident_clusters(0, *kernel, {{4, 1, 1}, {.threads = 384, .cluster = 4, .smem_bytes = 1000}}) == 29);
    fake.fail("cuOccupancyMaxActiveClusters", 3, 912);
    CHECK(error_of([&] {
            driver->resident_clusters(0, *kernel, {{4, 1, 1}, {.threads = 384, .cluster = 4, .smem_bytes = 1000}});
          }).stage == tj::Stage::load);
    fake.record(0);
    const long allocated = tj::testing::allocations();
    launch(66);
    CHECK(tj::testing::allocations() == allocated);
    fake.record(1);
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("another context stays current across every call") {
  tj::test::FakeCuda fake;
  fake.set_devices(2);
  void* other = nullptr;
  fake.retain(&other, 1);
  fake.push(other);
  {
    const auto driver = open();
    const auto kernel = driver->load(0, cubin(), "kernel", 0);
    const auto memory = driver->allocate(0, 16);
    const int parameter = 1;
    driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), {});
    driver->time_ms(0, [] {});
  }
  void* current = nullptr;
  fake.pop(&current);
  CHECK(current == other);
  fake.release(1);
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE(
    "recorded launches run when they are replayed, as often as that is; a recording may outlive the driver object") {
  tj::test::FakeCuda fake;
  fake.set_block_ms(0.25);
  auto driver = open();
  const auto kernel = driver->load(0, cubin(), "kernel", 0);
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
  CHECK(driver->time_ms(0, [&] { recording->replay({}); }) == 3);
  CHECK(driver->time_ms(0, [&] {
    recording->replay({});
    recording->replay({});
  }) == 6);
  // Work that throws: nothing of it stays.
  const std::string until = fake.log();
  CHECK_THROWS(driver->record(0, [&](tj::Stream stream) {
    launch(1, stream);
    launch(0, stream);
  }));
  CHECK(std::string(fake.log()).find("StreamEndCapture stream", until.size()) != std::string::npos);
  driver.reset();
  recording->replay({});
  recording.reset();
  CHECK(std::string(fake.leaks()) != "");  // the kernel's
}

TEST_CASE("kernels and memory may outlive the driver object") {
  tj::test::FakeCuda fake;
  auto driver = open();
  auto kernel = driver->load(0, cubin(), "kernel", 0);
  auto memory = driver->allocate(0, 16);
  driver.reset();
  CHECK(std::string(fake.leaks()) != "");
  kernel.reset();
  memory.reset();
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("threads share one driver") {
  tj::test::FakeCuda fake;
  {
    const auto driver = open();
    const auto kernel = driver->load(0, cubin(), "kernel", 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        const int parameter = 1;
        for (int i = 0; i < 50; ++i) {
          driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), {});
          const auto own = driver->load(0, cubin(), "kernel", 0);
          const auto memory = driver->allocate(0, 64);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("a binary or kernel that does not fit is named") {
  tj::test::FakeCuda fake;
  {
    const auto driver = open();
    const std::string short_elf = cubin().substr(0, 63), no_elf(100, 'x');
    for (const std::string& bytes : {std::string("no elf"), short_elf, no_elf, std::string()})
      CHECK(has(error_of([&] { driver->load(0, bytes, "kernel", 0); }), "no cubin"));
    CHECK_NOTHROW(driver->load(0, cubin().substr(0, 64), "kernel", 0));
    CHECK(has(error_of([&] { driver->load(0, cubin(), "missing_kernel", 0); }), "\"missing_kernel\""));
    CHECK(has(error_of([&] { driver->load(0, cubin(), "kernel", 232449); }), "232449"));
    const auto too_long = [&] { driver->load(0, cubin(), "kernel", std::int64_t{1} << 40); };
    CHECK(has(error_of(too_long), "shared memory"));
    fake.set_param_bytes(64);
    const auto kernel = driver->load(0, cubin(), "kernel", 0);
    const int parameter = 1;
    const tj::Error error =
        error_of([&] { driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}}, &parameter, sizeof(parameter), {}); });
    CHECK(has(error, "64 bytes"));
    CHECK(std::string(fake.log()).find("cuLaunchKernelEx") == std::string::npos);
  }
  CHECK(std::string(fake.leaks()) == "");
}

TEST_CASE("a capture is seen, also one that the default stream would break") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  CHECK_FALSE(driver->capturing(0, {}));
  fake.set_capture(1);
  CHECK(driver->capturing(0, {}));
  fake.set_capture(0);
  fake.fail("cuStreamIsCapturing", 3, 906);  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
  CHECK(driver->capturing(0, {}));
}

TEST_CASE("copies go in all four directions") {
  tj::test::FakeCuda fake;
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
  driver->zero(0, b.get(), 6, {});
  CHECK(std::memcmp(b.get(), "\0\0\0\0\0\0g", 8) == 0);
  // Each by the call for its direction: the fake's device memory is the host's, so the bytes alone would not tell.
  std::string copies;
  std::istringstream lines(fake.log());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuMemcpy") || line.starts_with("cuStreamSynchronize"))
      copies += line.substr(0, line.find(' ')) + ' ';
  CHECK(copies == "cuMemcpyHtoD cuStreamSynchronize cuMemcpyDtoD cuStreamSynchronize cuMemcpyDtoH ");
}

TEST_CASE("a tensor map reaches the driver whole") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  alignas(64) std::array<std::uint64_t, 16> map{};
  const tj::launch::TensorMapDesc desc = good_map();
  driver->encode_tensor_map(0, desc, map.data());
  CHECK(map[0] == reinterpret_cast<std::uint64_t>(desc.base));
  CHECK((map[1] & 0xff) == 6);        // FLOAT16
  CHECK((map[1] >> 8 & 0xff) == 3);   // rank
  CHECK((map[1] >> 16 & 0xff) == 0);  // no interleaving
  CHECK((map[1] >> 24 & 0xff) == 3);  // 128-byte swizzle
  CHECK((map[1] >> 32 & 0xff) == 3);  // L2 promotion 256 bytes
  CHECK((map[1] >> 40 & 0xff) == 0);  // zero fill
  CHECK(map[3] == (100u << 16 | 128u << 4 | 1u));
  CHECK(map[8] == 256);
  CHECK(map[9] == 25600);
  tj::launch::TensorMapDesc narrow = desc;
  const auto word = [&] { return driver->encode_tensor_map(0, narrow, map.data()), map[1]; };
  narrow.read_once = true;
  CHECK((word() >> 32 & 0xff) == 2);  // L2 promotion 128 bytes
  narrow.read_once = false, narrow.dtype = tj::DType::e4m3, narrow.stride_bytes[0] = 1;
  CHECK((word() & 0xff) == 0);        // UINT8
  narrow.stride_bytes[1] += 16;       // rows begin anywhere in lines of memory
  CHECK((word() >> 32 & 0xff) == 2);  // L2 promotion 128 bytes
}

TEST_CASE("a tensor map is encoded in the device's context, also where none is current") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  alignas(64) std::array<std::uint64_t, 16> map{};
  driver->encode_tensor_map(0, good_map(), map.data());
  const std::string before = fake.log();
  driver->encode_tensor_map(0, good_map(), map.data());
  const std::string added = std::string(fake.log()).substr(before.size());
  CHECK(added.find("cuCtxPushCurrent") < added.find("cuTensorMapEncodeTiled"));
  CHECK(added.find("cuCtxPopCurrent") != std::string::npos);
}

TEST_CASE("each rule of tensor maps is refused by name") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  alignas(64) char map[tj::launch::kTensorMapBytes];
  const std::string before = fake.log();
  const auto refused = [&](const char* words, auto change) {
    CAPTURE(words);
    tj::launch::TensorMapDesc desc = good_map();
    change(desc);
    const tj::Error error = error_of([&] { driver->encode_tensor_map(0, desc, map); });
    CHECK(error.stage == tj::Stage::launch);
    CHECK(error.code == tj::Code::invalid_argument);
    CHECK_MESSAGE(has(error, words), error.message);
  };
  refused("base is", [](auto& d) { d.base = static_cast<char*>(d.base) + 8; });
  refused("base is 0", [](auto& d) { d.base = nullptr; });
  refused("rank is 6", [](auto& d) { d.rank = 6; });
  refused("rank is 0", [](auto& d) { d.rank = 0; });
  refused("dims[1] is 0", [](auto& d) { d.dims[1] = 0; });
  refused("dims[2] is 4294967297", [](auto& d) { d.dims[2] = (std::uint64_t{1} << 32) + 1; });
  refused("stride_bytes[0] is 4", [](auto& d) { d.stride_bytes[0] = 4; });
  refused("stride_bytes[1] is 250", [](auto& d) { d.stride_bytes[1] = 250; });
  refused("stride_bytes[2] is 1099511627776", [](auto& d) { d.stride_bytes[2] = std::uint64_t{1} << 40; });
  refused("box[1] is 257", [](auto& d) { d.box[1] = 257; });
  refused("box[0] is 0", [](auto& d) { d.box[0] = 0; });
  refused("box[0] in bytes is 130", [](auto& d) { d.box[0] = 65; });
  refused("box[0] in bytes is 144", [](auto& d) { d.box[0] = 72; });
  refused("swizzle_bytes is 96", [](auto& d) { d.swizzle_bytes = 96; });
  refused("swizzle_bytes is", [](auto& d) { d.swizzle_bytes = -32; });
  refused("rank is", [](auto& d) { d.rank = -1; });
  refused("stride_bytes[1] is 264", [](auto& d) { d.stride_bytes[1] = 264; });
  for (const int bytes : {32, 64, 128})  // 16 bytes more than the swizzle's
    refused("box[0] in bytes is", [&](auto& d) {
      d.swizzle_bytes = bytes;
      d.box[0] = static_cast<std::uint32_t>(bytes) / 2 + 8;
    });
  CHECK(std::string(fake.log()) == before);
  for (const int off : {1, 16, 32, 63})
    CHECK(has(error_of([&] { driver->encode_tensor_map(0, good_map(), map + off); }), "address of the map"));
  CHECK(has(error_of([&] { driver->encode_tensor_map(0, good_map(), nullptr); }), "address of the map"));
}

TEST_CASE("the last value that each rule of tensor maps allows passes") {
  tj::test::FakeCuda fake;
  const auto driver = open();
  alignas(64) char map[tj::launch::kTensorMapBytes];
  const auto passes = [&](auto change) {
    tj::launch::TensorMapDesc desc = good_map();
    change(desc);
    CHECK_NOTHROW(driver->encode_tensor_map(0, desc, map));
  };
  passes([](auto& d) { d.base = static_cast<char*>(d.base) + 16; });
  passes([](auto& d) { d.rank = 1; });
  passes([](auto& d) {
    d.rank = 5, d.dims[3] = d.dims[4] = 1, d.box[3] = d.box[4] = 1, d.stride_bytes[3] = d.stride_bytes[4] = 16;
  });
  passes([](auto& d) { d.dims = {1, std::uint64_t{1} << 32, 1}; });
  passes([](auto& d) { d.stride_bytes[1] = 0, d.stride_bytes[2] = (std::uint64_t{1} << 40) - 16; });
  passes([](auto& d) { d.box = {8, 256, 1}; });
  passes([](auto& d) { d.swizzle_bytes = 0, d.box[0] = 256; });
  for (const int bytes : {32, 64, 128})
    passes([&](auto& d) { d.swizzle_bytes = bytes, d.box[0] = static_cast<std::uint32_t>(bytes) / 2; });
}

}  // namespace
