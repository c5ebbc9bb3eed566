// Protects GPUs that are newer than this version or than the compiler at hand. They run PTX, which is reported, has
// entries of its own, and never goes before a binary. A driver that refuses it is an error that names the remedy.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include <tilejit/tilejit.h>

#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"

namespace {

using namespace tj::test;
using tj::Code;
using tj::Error;
using tj::KernelOrigin;
using tj::KernelReport;
using tj::Runtime;

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};
constexpr int kPtxVersion = 222, kNoJit = 221, kJitForbidden = 223, kInvalidPtx = 218;

TEST_CASE("GPUs newer than NVRTC, or than this version, run PTX of the closest generation before them, reported once") {
  struct Case {
    int major, minor;
    const char *target, *loaded, *why;
  };
  // The fake NVRTC knows 9.0, 10.0 and 10.3.
  const Case cases[] = {
      {13, 0, "sm_120a+code=ptx", "PTX of 103", "compute capability 13.0 is not known to this version"},
      {12, 5, "sm_120a+code=ptx", "PTX of 103", "compute capability 12.5 is not known to this version"},
      {10, 7, "sm_100+code=ptx", "PTX of 100", "compute capability 10.7 is not known to this version"},
      {9, 9, "sm_90+code=ptx", "PTX of 90", "compute capability 9.9 is not known to this version"},
      {11, 0, "sm_110+code=ptx", "PTX of 103", "\"sm_110\" is not one that NVRTC 13.0"},
      {12, 0, "sm_120a+code=ptx", "PTX of 103", "\"sm_120a\" is not one that NVRTC 13.0"}};
  for (const Case& each : cases) {
    CAPTURE(each.major);
    CAPTURE(each.minor);
    Machine machine;
    machine.cuda.set_capability(each.major, each.minor);
    {
      Runtime runtime(machine.options());
      const KernelReport report = runtime.prepare(attention());
      CHECK(report.origin == KernelOrigin::compiled);
      CHECK(report.target == each.target);
      runtime.run(attention());
      runtime.run(square_product(512));
      CHECK(has(machine.cuda.log(), std::string("cuModuleLoadData ") + each.loaded + "\n"));
      CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
      REQUIRE(machine.warnings.size() == 1);
      CHECK_MESSAGE(has(machine.warnings[0], std::string("cuda:0 takes kernels as PTX, target '") + each.target + "'"),
                    machine.warnings[0]);
      CHECK_MESSAGE(has(machine.warnings[0], each.why), machine.warnings[0]);
    }
    const int compiles = machine.nvrtc.compiles();
    CHECK(Runtime(machine.options()).prepare(attention()).origin == KernelOrigin::disk);
    tj::Options strict = machine.options();
    strict.on_miss = tj::MissPolicy::error;
    Runtime(strict).run(attention());
    CHECK(machine.nvrtc.compiles() == compiles);
    CHECK(std::string(machine.cuda.leaks()) == "");
  }
}

TEST_CASE("what a compiler refused is remembered: later processes do not ask it again, and a newer one is asked") {
  Machine machine;
  machine.cuda.set_capability(11, 0);
  std::uint64_t kernels = 0;
  {
    Runtime runtime(machine.options());
    runtime.prepare(attention());
    runtime.prepare(square_product(512));
    const tj::Counters counters = runtime.counters();
    kernels = counters.compiles;
    CHECK(kernels == 2);
    CHECK(counters.failed_compiles == 1);  // the first alone
  }
  {
    Runtime runtime(machine.options());
    for (const bool hot : {false, true}) CHECK((runtime.prepare(attention()).origin == KernelOrigin::memory) == hot);
    runtime.prepare(attention({}, true));  // new to this machine
    const tj::Counters counters = runtime.counters();
    CHECK(counters.failed_compiles == 0);
    CHECK(counters.misses == 1);
    CHECK(counters.compiles == 1);
    CHECK(has(machine.warnings.back(), "has refused 'sm_110' before"));
  }
  {
    const FakeNvrtc other;  // a compiler at another place is another one
    Runtime runtime(machine.options());
    runtime.prepare(attention());
    CHECK(runtime.counters().failed_compiles == 1);
  }
  tj::Options in_memory = machine.options();
  in_memory.use_disk_cache = false;
  Runtime runtime(in_memory);
  runtime.prepare(attention());
  runtime.prepare(square_product(512));
  CHECK(runtime.counters().failed_compiles == 1);
}

TEST_CASE("a machine without a compiler takes the PTX that the cache has") {
  Machine machine;
  machine.cuda.set_capability(11, 0);
  Runtime(machine.options()).prepare(attention());
  const tj::testing::Variable nowhere("LD_LIBRARY_PATH", "/none");
  const char* about = nullptr;
  REQUIRE(tj_describe(&about) == TJ_OK);
  if (!has(about, "\"nvrtc\": null")) return;  // a toolkit is installed, and that has one
  Runtime runtime(machine.options());
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::disk);
  CHECK(runtime.counters().failed_compiles == 0);
}

TEST_CASE("quick kernels on a GPU newer than NVRTC are PTX too, and so is what replaces them") {
  Machine machine;
  machine.cuda.set_capability(11, 0);
  tj::Options options = machine.options();
  options.on_miss = tj::MissPolicy::quick;
  {
    Runtime runtime(options);
    runtime.run(attention());
    while (runtime.counters().quick_replaced == 0 && machine.warnings.size() < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(machine.nvrtc.quick_compiles() == 1);
  CHECK(machine.warnings.size() == 1);
  CHECK(Runtime(machine.options()).prepare(attention()).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == 2);
}

TEST_CASE("a GPU that NVRTC knows takes a binary, although its arch could be PTX") {
  Machine machine;
  machine.cuda.set_capability(10, 3);
  CHECK(Runtime(machine.options()).prepare(attention()).target == "sm_103");
  CHECK(machine.warnings.empty());
}

TEST_CASE("a driver that does not take the PTX is an error that names the remedy") {
  for (const auto& [number, remedy] :
       {std::pair{kPtxVersion, "the driver is older than the NVRTC that wrote the PTX: update the driver"},
        std::pair{kInvalidPtx, "update the driver"}, std::pair{kNoJit, "libnvidia-ptxjitcompiler"},
        std::pair{kJitForbidden, "CUDA_DISABLE_PTX_JIT"}}) {
    Machine machine;
    machine.cuda.set_capability(13, 0);
    machine.cuda.fail("cuModuleLoadData", 1, number);
    Runtime runtime(machine.options());
    const Error error = error_of([&] { runtime.run(attention()); });
    CHECK(error.code == Code::unsupported);
    CHECK_MESSAGE(has(error.message, remedy), error.message);
    runtime.run(attention());  // under a driver that takes it
  }
}

TEST_CASE("PTX that was asked for runs on each later GPU, and on no earlier one") {
  for (const char* target : {"sm_80+code=ptx", "sm_90+code=ptx", "sm_90+code=ptx+smem=99K"}) {
    CAPTURE(target);
    Machine machine;
    machine.cuda.set_capability(10, 0);
    tj::Options options = machine.options();
    options.target = target;
    if (!has(target, "sm_80")) {  // which the fake NVRTC does not know
      Runtime runtime(options);
      CHECK(runtime.target_of(kGpu) == target);
      runtime.run(attention());
      CHECK(has(machine.cuda.log(), "cuModuleLoadData PTX of 90\n"));
    }
    CHECK(machine.warnings.empty());
    machine.cuda.set_capability(7, 5);
    CHECK(error_of([&] { Runtime(options).run(attention()); }).code == Code::unsupported);
  }
  Machine machine;  // 9.0
  tj::Options options = machine.options();
  options.target = "sm_100+code=ptx";
  CHECK(has(error_of([&] { Runtime(options).run(attention()); }).message, "does not run on cuda:0 (sm_90a)"));
  machine.cuda.set_capability(13, 0);
  options.target = "sm_120a";  // a binary
  CHECK(has(error_of([&] { Runtime(options).run(attention()); }).message,
            "target 'sm_120a' does not run on cuda:0 (sm_120a+code=ptx)"));
}

}  // namespace
