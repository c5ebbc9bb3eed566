// Protects: whichever driver call fails, the error names it and its cause, and nothing stays behind (contexts, modules,
// memory, events, the context stack). The fake driver fails each call of a whole run in turn. And that such a run makes
// the calls that it made before, with the same arguments.
#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_cuda.hpp"
#include "launch/driver.hpp"
#include "support/pinned.hpp"

namespace {

using tj::launch::Driver;

constexpr int kUnknownError = 999;
constexpr int kOutOfMemory = 2;

std::string cubin() { return "\177ELF" + std::string(252, '\0'); }

tj::launch::TensorMapDesc map_of(void* base) {
  tj::launch::TensorMapDesc desc;
  desc.base = base;
  desc.rank = 2;
  desc.dims = {128, 64};
  desc.stride_bytes = {2, 256};
  desc.box = {64, 64};
  return desc;
}

/// One use of everything. Returns the reason when the driver does not open.
std::string whole_run() {
  std::string reason;
  const std::shared_ptr<Driver> driver = tj::launch::open_cuda(&reason);
  if (!driver) return reason;
  driver->device_info(0);
  const auto kernel = driver->load(0, cubin(), "kernel", 100000);
  auto memory = driver->allocate(0, 1024);
  auto other = driver->allocate(0, 1024);
  auto scratch = driver->scratch(0, 1024, {});
  char host[1024] = {};
  driver->copy(0, memory.get(), true, host, false, sizeof(host));
  driver->copy(0, other.get(), true, memory.get(), true, sizeof(host));
  driver->copy(0, host, false, other.get(), true, sizeof(host));
  alignas(64) char map[tj::launch::kTensorMapBytes];
  driver->encode_tensor_map(0, map_of(memory.get()), map);
  driver->capturing(0, {});
  const int parameter = 7;
  driver->launch(0, *kernel, {{2, 3, 1}, {.threads = 384, .smem_bytes = 100000}}, &parameter, sizeof(parameter), {});
  const tj::launch::LaunchConfig clusters{{4, 1, 1}, {.threads = 384, .cluster = 2, .smem_bytes = 1000}, true};
  driver->resident_clusters(0, *kernel, clusters);
  driver->launch(0, *kernel, clusters, &parameter, sizeof(parameter), {});
  driver->time_ms(
      0, [&] { driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 128}}, &parameter, sizeof(parameter), {}); });
  driver
      ->record(0,
               [&](tj::Stream stream) {
                 driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 128}}, &parameter, sizeof(parameter), stream);
               })
      ->replay({});
  driver->synchronize(0, {});
  return {};
}

/// (call, which of its uses) for each line of the log.
std::vector<std::pair<std::string, int>> calls_of(const std::string& log) {
  std::map<std::string, int> seen;
  std::vector<std::pair<std::string, int>> calls;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::string call = line.substr(0, line.find(' '));
    calls.emplace_back(call, ++seen[call]);
  }
  return calls;
}

/// Calls whose failure nobody needs to know: releases, and optional ones.
bool may_fail_quietly(const std::string& call) {
  for (const char* quiet : {"cuCtxPopCurrent", "cuDevicePrimaryCtxRelease", "cuModuleUnload", "cuMemFree",
                            "cuEventDestroy", "cuStreamDestroy", "cuGraphDestroy", "cuGraphExecDestroy",
                            "cuFuncGetParamInfo", "cuThreadExchangeStreamCaptureMode", "cuMemPoolCreate",
                            "cuMemPoolSetAttribute", "cuMemPoolDestroy", "cuMemFreeAsync"})
    if (call == quiet) return true;
  return false;
}

TEST_CASE("a whole run leaves nothing behind") {
  tj::test::FakeCuda fake;
  CHECK(whole_run() == "");
  CHECK(std::string(fake.leaks()) == "");
  CHECK(calls_of(fake.log()).size() > 40);
}

TEST_CASE("a whole run makes these calls, in this order and with these arguments") {
  tj::test::FakeCuda fake;
  CHECK(whole_run() == "");
  std::vector<std::string> lines;
  std::istringstream log(fake.log());
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  tj::testing::check_pinned("tests/launch/data/cuda_run.txt", lines);
}

TEST_CASE("each call of a run fails in turn: the error names it, nothing leaks") {
  tj::test::FakeCuda fake;
  REQUIRE(whole_run() == "");
  for (const auto& use : calls_of(fake.log())) {
    const std::string& call = use.first;
    const int nth = use.second;
    CAPTURE(call);
    CAPTURE(nth);
    fake.reset();
    fake.fail(call.c_str(), nth, kUnknownError);
    std::string message;
    try {
      message = whole_run();
    } catch (const tj::Error& error) {
      message = error.message;
      CHECK(error.code == tj::Code::driver_error);
      CHECK((error.stage == tj::Stage::load || error.stage == tj::Stage::launch));
    }
    const bool in_destructor = call == "cuCtxPushCurrent" && message.empty();
    if (!may_fail_quietly(call) && !in_destructor) {
      CHECK(message.find(call) != std::string::npos);
      CHECK(message.find("CUDA_ERROR_FAKE_999 (999)") != std::string::npos);
    }
    // A driver that refuses a context at the very end is going down, and takes what it held along.
    if (!in_destructor) CHECK(std::string(fake.leaks()) == "");
  }
}

TEST_CASE("out of memory keeps its own code") {
  tj::test::FakeCuda fake;
  for (const char* call : {"cuMemAlloc", "cuModuleLoadData", "cuDevicePrimaryCtxRetain"}) {
    CAPTURE(call);
    fake.reset();
    fake.fail(call, 1, kOutOfMemory);
    try {
      whole_run();
      FAIL("no error");
    } catch (const tj::Error& error) {
      CHECK(error.code == tj::Code::out_of_memory);
      CHECK(error.message.find("CUDA_ERROR_OUT_OF_MEMORY (2)") != std::string::npos);
    }
    CHECK(std::string(fake.leaks()) == "");
  }
}

TEST_CASE("a binary that the driver refuses is unsupported, any other failure is the driver's") {
  constexpr std::pair<int, tj::Code> kCodes[] = {{200, tj::Code::unsupported},   // the image is not valid
                                                 {209, tj::Code::unsupported},   // no binary for this GPU
                                                 {500, tj::Code::unsupported},   // a name that is not there
                                                 {201, tj::Code::driver_error},  // a context that is not valid
                                                 {kUnknownError, tj::Code::driver_error}};
  for (const auto& each : kCodes) {
    CAPTURE(each.first);
    tj::test::FakeCuda fake;
    fake.fail("cuModuleLoadData", 1, each.first);
    try {
      whole_run();
      FAIL("no error");
    } catch (const tj::Error& error) {
      CHECK(error.code == each.second);
    }
  }
}

TEST_CASE("an error that the driver has no words for has its number") {
  tj::test::FakeCuda fake;
  fake.fail("cuModuleLoadData", 1, 998);
  try {
    whole_run();
    FAIL("no error");
  } catch (const tj::Error& error) {
    CHECK_MESSAGE(error.message.find("unknown CUDA error (998): no description") != std::string::npos, error.message);
  }
}

TEST_CASE("a driver that does not work in a forked child is told so, at its start and in each call") {
  constexpr int kNotInitialized = 3;
  tj::test::FakeCuda fake;
  for (const char* call : {"cuInit", "cuModuleLoadData", "cuLaunchKernelEx"}) {
    CAPTURE(call);
    fake.reset();
    fake.fail(call, 1, kNotInitialized);
    std::string message;
    try {
      message = whole_run();
    } catch (const tj::Error& error) {
      message = error.message;
    }
    CHECK_MESSAGE(message.find(std::string(call) + " failed with ") != std::string::npos, message);
    CHECK_MESSAGE(message.find("forked from one that had used CUDA cannot use it: fork before the first call") !=
                      std::string::npos,
                  message);
  }
}

}  // namespace
