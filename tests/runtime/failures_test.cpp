// Protects the way back from a driver that fails. Whichever call of a first or a hot tj::fmha fails, the error names it
// and its cause. Nothing is left behind, and the same runtime serves the next call.
#include <doctest/doctest.h>

#include <set>

#include "fakes/fake_hip.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Code;
using tj::Error;
using tj::Runtime;
using tj::Stage;

constexpr int kUnknownError = 999, kOutOfMemory = 2;

/// Opening the driver: its failure is not one of load or launch, and stays for the life of the runtime.
const std::set<std::string> kOpening = {"cuInit", "cuDeviceGetCount"};
/// Releases and optional calls: nobody needs to know.
const std::set<std::string> kQuiet = {"cuCtxPopCurrent", "cuDevicePrimaryCtxRelease", "cuModuleUnload",
                                      "cuFuncGetParamInfo", "cuThreadExchangeStreamCaptureMode"};

void check_names(const Error& error, const std::string& call) {
  CHECK_MESSAGE(has(error.message, call + " failed"), error.message);
  CHECK(has(error.message, "CUDA_ERROR_FAKE_999 (999)"));
}

TEST_CASE("each driver call of a first fmha fails in turn") {
  Machine machine;
  {
    Runtime(machine.options()).run(attention());
  }  // now on disk: what follows is the driver alone
  const auto calls = uses_of(machine.cuda.log());
  REQUIRE(calls.size() > 25);
  int failures = 0;
  for (const auto& use : calls) {
    const std::string call = use.first;
    const int nth = use.second;
    CAPTURE(call);
    CAPTURE(nth);
    machine.cuda.reset();
    machine.cuda.fail(call.c_str(), nth, kUnknownError);
    bool in_destructor = false;
    {
      Runtime runtime(machine.options());
      bool failed = false;
      try {
        runtime.run(attention());
      } catch (const Error& error) {
        failed = true;
        check_names(error, call);
        CHECK((error.stage == Stage::load || error.stage == Stage::launch));
        CHECK(error.code == (kOpening.count(call) > 0 ? Code::not_found : Code::driver_error));
        CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == (call == "cuLaunchKernelEx" ? 1 : 0));
      }
      failures += failed ? 1 : 0;
      in_destructor = !failed && call == "cuCtxPushCurrent";
      CHECK((failed || in_destructor || kQuiet.count(call) > 0));
      if (kOpening.count(call) == 0 && !in_destructor) {
        const int before = count_calls(machine.cuda, "cuLaunchKernelEx");
        runtime.run(attention());
        CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == before + 1);
      }
    }
    // A driver that refuses a context at the very end is going down, and takes what it held along.
    if (!in_destructor) CHECK(std::string(machine.cuda.leaks()) == "");
  }
  CHECK(failures > 15);
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(machine.warnings.empty());
}

TEST_CASE("each driver call of a hot fmha fails in turn, in one runtime") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    runtime.run(attention());
    const std::string before = machine.cuda.log();
    runtime.run(attention());
    for (const auto& use : uses_of(std::string(machine.cuda.log()).substr(before.size()))) {
      const std::string call = use.first;
      CAPTURE(call);
      const int nth = count_calls(machine.cuda, call) + use.second;
      machine.cuda.fail(call.c_str(), nth, kUnknownError);
      if (kQuiet.count(call) > 0) {
        runtime.run(attention());
      } else {
        const Error error = error_of([&] { runtime.run(attention()); });
        check_names(error, call);
        CHECK(error.stage == Stage::launch);
        CHECK(error.code == Code::driver_error);
      }
      const int launches = count_calls(machine.cuda, "cuLaunchKernelEx");
      runtime.run(attention());
      CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == launches + 1);
    }
    CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 1);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("out of memory while loading keeps its own code, and the kernel is loaded when there is memory again") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.cuda.fail("cuModuleLoadData", 1, kOutOfMemory);
  CHECK(error_of([&] { runtime.prepare(attention()); }).code == Code::out_of_memory);
  CHECK(runtime.prepare(attention()).origin == tj::KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("a machine without a device: the error says so and what else there is") {
  Machine machine;
  const FakeHip hip;  // in front of a real one
  machine.cuda.set_devices(0);
  hip.set_devices(0);
  Runtime runtime(machine.options());
  CHECK(runtime.default_device() == tj::Device{tj::DeviceKind::cpu, 0});
  const Error error = error_of([&] { runtime.run(attention()); });
  CHECK(error.code == Code::not_found);
  CHECK_MESSAGE(has(error.message, "no driver for cuda:0"), error.message);
  CHECK(has(error.message, "TJ_TARGET=model:sm_90a"));
  for (const char* target : {"sm_100a", "sm_90+smem=99K", "gfx942"}) {  // the model of what was asked for
    tj::Options options = machine.options();
    options.target = target;
    Runtime asked(options);
    const Error other = error_of([&] { asked.allocate(asked.default_device(), 16); });
    CHECK(other.code == Code::not_found);
    CHECK_MESSAGE(has(other.message, std::string("use cpu tensors and TJ_TARGET=model:") + target), other.message);
  }
  CHECK(machine.nvrtc.compiles() == 0);
}

}  // namespace
