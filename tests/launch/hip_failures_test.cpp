// Protects: whichever call of the HIP runtime fails, the error names it and its cause, and nothing stays behind
// (modules, memory, events, graphs, the current device, the failure that HIP remembers). The fake runtime fails each
// call of a whole run in turn. And that such a run makes the calls that it made before, with the same arguments.
#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_hip.hpp"
#include "launch/driver.hpp"
#include "support/made_code_object.hpp"
#include "support/pinned.hpp"

namespace {

using tj::launch::Driver;

constexpr int kUnknownError = 999, kOutOfMemory = 2, kNotSupported = 801, kNoBinaryForGpu = 209;

std::string object() { return tj::testing::made_code_object("gfx1100", "kernel", sizeof(int), 384); }

/// One use of everything, on a device that is not current. Returns the reason when the driver does not open.
std::string whole_run() {
  std::string reason;
  const std::shared_ptr<Driver> driver = tj::launch::open_hip(&reason);
  if (!driver) return reason;
  driver->device_info(1);
  const auto kernel = driver->load(1, object(), "kernel", 30000);
  auto memory = driver->allocate(1, 1024);
  auto other = driver->allocate(1, 1024);
  auto scratch = driver->scratch(1, 1024, {});
  char host[1024] = {};
  driver->copy(1, memory.get(), true, host, false, sizeof(host));
  driver->copy(1, other.get(), true, memory.get(), true, sizeof(host));
  driver->copy(1, host, false, other.get(), true, sizeof(host));
  driver->capturing(1, {});
  const int parameter = 7;
  driver->launch(1, *kernel, {{2, 3, 1}, {.threads = 384, .smem_bytes = 30000}}, &parameter, sizeof(parameter), {});
  driver->time_ms(
      1, [&] { driver->launch(1, *kernel, {{1, 1, 1}, {.threads = 128}}, &parameter, sizeof(parameter), {}); });
  driver
      ->record(1,
               [&](tj::Stream stream) {
                 driver->launch(1, *kernel, {{1, 1, 1}, {.threads = 128}}, &parameter, sizeof(parameter), stream);
               })
      ->replay({});
  driver->synchronize(1, {});
  return {};
}

void start(tj::test::FakeHip& fake) {
  fake.reset();
  fake.set_devices(2);
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

/// Calls whose failure nobody needs to know: releases, and those that something else stands in for.
bool may_fail_quietly(const std::string& call) {
  for (const char* quiet :
       {"hipModuleUnload", "hipFree", "hipFreeAsync", "hipEventDestroy", "hipStreamDestroy", "hipGraphDestroy",
        "hipGraphExecDestroy", "hipMemPoolDestroy", "hipMemPoolCreate", "hipMemPoolSetAttribute",
        "hipThreadExchangeStreamCaptureMode", "hipDeviceGetAttribute", "hipPointerGetAttribute"})
    if (call == quiet) return true;
  return false;
}

TEST_CASE("a whole run leaves nothing behind") {
  tj::test::FakeHip fake;
  start(fake);
  CHECK(whole_run() == "");
  CHECK(std::string(fake.leaks()) == "");
  CHECK(calls_of(fake.log()).size() > 60);
}

TEST_CASE("a whole run makes these calls, in this order and with these arguments") {
  tj::test::FakeHip fake;
  start(fake);
  CHECK(whole_run() == "");
  std::vector<std::string> lines;
  std::istringstream log(fake.log());
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  tj::testing::check_pinned("tests/launch/data/hip_run.txt", lines);
}

TEST_CASE("each call of a run fails in turn: the error names it, nothing leaks") {
  tj::test::FakeHip fake;
  start(fake);
  REQUIRE(whole_run() == "");
  for (const auto& use : calls_of(fake.log())) {
    const std::string& call = use.first;
    const int nth = use.second;
    CAPTURE(call);
    CAPTURE(nth);
    start(fake);
    fake.fail(call.c_str(), nth, kUnknownError);
    std::string message;
    try {
      message = whole_run();
    } catch (const tj::Error& error) {
      message = error.message;
      CHECK(error.code == tj::Code::driver_error);
      CHECK((error.stage == tj::Stage::load || error.stage == tj::Stage::launch));
    }
    // A runtime that refuses a device at the very end is going down, and takes what it held along.
    const bool in_destructor = (call == "hipSetDevice" || call == "hipGetDevice") && message.empty();
    if (!may_fail_quietly(call) && !in_destructor) {
      CHECK(message.find(call) != std::string::npos);
      CHECK(message.find("hipErrorFake999 (999): chosen by the fake runtime") != std::string::npos);
    }
    if (!in_destructor) CHECK(std::string(fake.leaks()) == "");
  }
}

TEST_CASE("out of memory and binaries that are not for the device keep codes of their own") {
  tj::test::FakeHip fake;
  const auto code_of = [&](const char* call, int result, const char* words) {
    CAPTURE(call);
    start(fake);
    fake.fail(call, 1, result);
    try {
      whole_run();
    } catch (const tj::Error& error) {
      CHECK_MESSAGE(error.message.find(words) != std::string::npos, error.message);
      CHECK(std::string(fake.leaks()) == "");
      return error.code;
    }
    FAIL("no error");
    return tj::Code::internal;
  };
  CHECK(code_of("hipMalloc", kOutOfMemory, "hipErrorOutOfMemory (2)") == tj::Code::out_of_memory);
  CHECK(code_of("hipModuleLoadData", kOutOfMemory, "free device memory") == tj::Code::out_of_memory);
  CHECK(code_of("hipModuleLoadData", kNoBinaryForGpu, "another architecture") == tj::Code::unsupported);
  for (const int refused : {98, 200, 303})  // no such function, no image, an object that cannot be initialised
    CHECK(code_of("hipModuleLoadData", refused, std::to_string(refused).c_str()) == tj::Code::unsupported);
  CHECK(code_of("hipModuleGetFunction", 500, "clear the kernel cache") == tj::Code::unsupported);
  CHECK(code_of("hipStreamBeginCapture", kNotSupported, "newer ROCm") == tj::Code::unsupported);
}

TEST_CASE("where the runtime has memory in a stream's order and the device has not, plain memory stands in") {
  tj::test::FakeHip fake;
  for (const char* call : {"hipMallocFromPoolAsync", "hipMemPoolCreate"}) {
    CAPTURE(call);
    start(fake);
    fake.fail(call, 1, kNotSupported);
    if (std::string(call) == "hipMemPoolCreate") fake.fail("hipMallocAsync", 1, kNotSupported);
    CHECK(whole_run() == "");
    CHECK(std::string(fake.log()).find("hipFreeAsync") == std::string::npos);
    CHECK(std::string(fake.leaks()) == "");
  }
}

TEST_CASE("a driver that does not work in a forked child is told so, at its start and in each call") {
  constexpr int kNotInitialized = 3;
  tj::test::FakeHip fake;
  for (const char* call : {"hipModuleLoadData", "hipModuleLaunchKernel"}) {
    CAPTURE(call);
    start(fake);
    fake.fail(call, 1, kNotInitialized);
    std::string message;
    try {
      message = whole_run();
    } catch (const tj::Error& error) {
      message = error.message;
    }
    CHECK_MESSAGE(message.find(std::string(call) + " failed with ") != std::string::npos, message);
    CHECK_MESSAGE(message.find("forked from one that had used HIP cannot use it: fork before the first call") !=
                      std::string::npos,
                  message);
  }
}

}  // namespace
