// Protects the runtime on AMD devices: which device and target are taken. A call compiles once, launches what it was
// given, and costs nothing when it is hot. Each failure of runtime and compiler is named. All on fakes.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <tilejit/tilejit.h>
#include <tilejit/tilejit.hpp>

#include "custom/amd_kernel.hpp"
#include "fakes/fake_cuda.hpp"
#include "fakes/fake_hip.hpp"
#include "fakes/fake_hiprtc.hpp"
#include "ops/fmha/params.cuh"
#include "support/allocations.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using testing::error_of;
using testing::has;

constexpr Device kGpu{DeviceKind::hip, 0};

/// An AMD GPU, its runtime and its compiler that are none, beside an NVIDIA driver without a device, and an empty
/// cache.
struct Machine {
  test::FakeCuda cuda;
  test::FakeHip hip;
  test::FakeHiprtc hiprtc;
  testing::Scratch scratch;
  std::mutex mutex;
  std::vector<std::string> warnings;

  Machine() { cuda.set_devices(0); }
  Options options(const std::string& target = {}) {
    Options options;
    options.cache_dir = scratch / "cache";
    options.target = target;  // empty: by device, whatever the environment says
    options.dump_dir = "";
    options.hip_compiler = "auto";
    options.log_level = LogLevel::warn;
    options.log_sink = [this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex);
      warnings.emplace_back(text);
    };
    return options;
  }
};

int count_of(const std::string& log, const std::string& call) {
  int count = 0;
  for (std::size_t at = log.find(call); at != std::string::npos; at = log.find(call, at + 1)) ++count;
  return count;
}

TEST_CASE(
    "the default device is the AMD GPU where there is no other, and a target of either vendor looks for its own") {
  Machine machine;
  CHECK(Runtime(machine.options()).default_device() == kGpu);
  CHECK(Runtime(machine.options()).target_of(kGpu) == "gfx1100");
  CHECK(Runtime(machine.options("sm_90a")).default_device() ==
        Device{DeviceKind::cuda, 0});  // whose use says why it is not there
  CHECK(Runtime(machine.options("model:gfx1100")).default_device().kind == DeviceKind::cpu);
  machine.cuda.set_devices(1);
  CHECK(Runtime(machine.options()).default_device().kind == DeviceKind::cuda);
  CHECK(Runtime(machine.options("gfx1100")).default_device() == kGpu);
  machine.hip.set_devices(0);
  Runtime without(machine.options("gfx1100"));
  CHECK(without.default_device() == kGpu);
  const Error error = error_of([&] { without.allocate(kGpu, 16); });
  CHECK(error.code == Code::not_found);
  CHECK_MESSAGE(has(error.message, "no driver for hip:0: "), error.message);
  CHECK_MESSAGE(has(error.message, "TJ_TARGET=model:gfx1100"), error.message);
  CHECK(Runtime(machine.options()).default_device().kind == DeviceKind::cuda);
  machine.cuda.set_devices(0);
  CHECK(Runtime(machine.options()).default_device().kind == DeviceKind::cpu);
}

TEST_CASE("a ROCM_PATH that nothing is taken from is said once, where another runtime serves") {
  Machine machine;
  ::setenv("ROCM_PATH", "/does/not/exist", 1);
  {
    Runtime runtime(machine.options());
    CHECK(runtime.default_device() == kGpu);
    CHECK(runtime.default_device() == kGpu);
  }
  ::unsetenv("ROCM_PATH");
  REQUIRE(machine.warnings.size() == 1);
  CHECK_MESSAGE(has(machine.warnings.front(), "ROCM_PATH is '/does/not/exist', which does not exist; "),
                machine.warnings.front());
  CHECK_MESSAGE(has(machine.warnings.front(), "libamdhip64.so.6 is used instead"), machine.warnings.front());
  CHECK(Runtime(machine.options()).default_device() == kGpu);
  CHECK(machine.warnings.size() == 1);
}

TEST_CASE("a processor's own graphics are passed over for the card that is served, or that a target asks for") {
  Machine machine;
  machine.hip.set_devices(3);
  machine.hip.set_processor("gfx1036,gfx1100,gfx1201");
  CHECK(Runtime(machine.options()).default_device() == Device{DeviceKind::hip, 1});
  CHECK(Runtime(machine.options("gfx1201")).default_device() == Device{DeviceKind::hip, 2});
  CHECK(Runtime(machine.options("gfx90a")).default_device() == kGpu);  // none has it: using the first one says so
  machine.hip.fail("hipGetDevicePropertiesR0600", 1, 999);
  CHECK(Runtime(machine.options()).default_device() == Device{DeviceKind::hip, 1});
  machine.hip.set_processor("gfx1036");
  Runtime none(machine.options());
  CHECK(none.default_device() == kGpu);
  CHECK(has(error_of([&] { none.target_of(kGpu); }).message, "gfx1036"));
  CHECK(std::string(machine.hip.leaks()) == "");
}

TEST_CASE("a device is known by its name without features; one that is not served is refused with those that are") {
  Machine machine;
  for (const auto& [name, target] : {std::pair{"gfx90a:sramecc+:xnack-", "gfx90a"},
                                     {"gfx942:sramecc+:xnack-", "gfx942"},
                                     {"gfx1151", "gfx1151"},
                                     {"gfx1201", "gfx1201"}}) {
    machine.hip.set_processor(name);
    CHECK(Runtime(machine.options()).target_of(kGpu) == target);
  }
  machine.hip.set_processor("gfx906:sramecc+:xnack-");
  const Error unserved = error_of([&] { Runtime(machine.options()).target_of(kGpu); });
  CHECK(unserved.code == Code::unsupported);
  for (const char* words : {"hip:0 (Fake Radeon)", "gfx906", "gfx1100"})
    CHECK_MESSAGE(has(unserved.message, words), unserved.message);
  machine.hip.set_processor("gfx90a:sramecc+:xnack-");
  const Error another = error_of([&] { Runtime(machine.options("gfx1100")).target_of(kGpu); });
  CHECK_MESSAGE(has(another.message, "target 'gfx1100' does not run on hip:0 (gfx90a)"), another.message);
  CHECK(has(error_of([&] { Runtime(machine.options()).target_of({DeviceKind::hip, 1}); }).message,
            "hip:1 does not exist"));
}

TEST_CASE("a kernel is compiled once, for the device's arch, by hiprtc; later runtimes find it on disk") {
  Machine machine;
  machine.hiprtc.set_param_bytes(sizeof(test::AmdKernel::Params));
  const test::AmdKernel source("gfx1100");
  const test::AmdKernel::Params params{nullptr, nullptr, 1000, 2};
  for (int i = 0; i < 2; ++i) {
    Runtime runtime(machine.options());
    const custom::Kernel kernel(runtime, source.description);
    const KernelReport report = kernel.prepare(kGpu);
    CHECK(report.origin == (i == 0 ? KernelOrigin::compiled : KernelOrigin::disk));
    CHECK(report.target == "gfx1100");
    CHECK(report.registers == 64);
    CHECK(kernel.sm_count(kGpu) == 96);
    kernel.launch(kGpu, params, 4);
    kernel.launch(kGpu, params, 4);
  }
  CHECK(machine.hiprtc.compiles() == 1);
  CHECK(std::string(machine.hiprtc.options()) ==
        "--offload-arch=gfx1100\n-std=c++17\n-O3\n-ffp-contract=fast\n-mcumode\n");
  CHECK(count_of(machine.hip.log(), "hipModuleLaunchKernel grid 4x1x1 threads 64 smem 0\n") == 4);
  test::AmdKernel::Params arrived{};
  CHECK(machine.hip.last_params(&arrived, sizeof(arrived)) == sizeof(arrived));
  CHECK(std::memcmp(&arrived, &params, sizeof(params)) == 0);
  CHECK(std::string(machine.hip.leaks()) == "");
  CHECK(machine.warnings.empty());
}

TEST_CASE("a parameter of another size than the code object says is refused") {
  Machine machine;
  machine.hiprtc.set_param_bytes(sizeof(test::AmdKernel::Params) + 8);
  const test::AmdKernel source("gfx1100");
  Runtime runtime(machine.options());
  const custom::Kernel kernel(runtime, source.description);
  const Error e = error_of([&] { kernel.launch(kGpu, test::AmdKernel::Params{}, 1); });
  CHECK(e.code == Code::invalid_argument);
  CHECK_MESSAGE(has(e.message, "params_type has 32 bytes"), e.message);
}

TEST_CASE("a hot launch is two calls of the runtime and allocates nothing") {
  Machine machine;
  const test::AmdKernel source("gfx1100");
  Runtime runtime(machine.options());
  const custom::Kernel kernel(runtime, source.description);
  const test::AmdKernel::Params params{nullptr, nullptr, 1000, 2};
  kernel.launch(kGpu, params, 4);
  const std::string before = machine.hip.log();
  kernel.launch(kGpu, params, 5);
  CHECK(std::string(machine.hip.log()).substr(before.size()) ==
        "hipGetDevice\nhipModuleLaunchKernel grid 5x1x1 threads 64 smem 0\n");
  machine.hip.record(0);
  const long allocated = testing::allocations();
  kernel.launch(kGpu, params, 6);
  CHECK(testing::allocations() == allocated);
  machine.hip.record(1);
}

/// Attention arguments at addresses that nobody follows.
FmhaArgs attention(std::int64_t heads, std::int64_t queries, std::int64_t keys, bool causal) {
  const auto tensor = [](std::uintptr_t place, std::initializer_list<std::int64_t> shape) {
    return Tensor::contiguous(reinterpret_cast<void*>(0x100000000000 + place * 0x10000000000), kGpu, DType::f16, shape);
  };
  FmhaArgs args;
  args.q = tensor(0, {2, heads, queries, 128});
  args.k = tensor(1, {2, heads / 2, keys, 128});
  args.v = tensor(2, {2, heads / 2, keys, 128});
  args.o = tensor(3, {2, heads, queries, 128});
  args.causal = causal;
  return args;
}

TEST_CASE(
    "attention: one call of the runtime does all, hot calls allocate nothing and launch once, whatever the sizes") {
  Machine machine;
  Runtime runtime(machine.options());
  runtime.run(attention(4, 1, 1, false));
  CHECK(machine.hiprtc.compiles() == 1);
  for (const auto& args :
       {attention(4, 300, 500, false), attention(32, 4097, 16384, false), attention(2, 1, 1, false)}) {
    const std::string before = machine.hip.log();
    runtime.run(args);
    const std::string added = std::string(machine.hip.log()).substr(before.size());
    CHECK_MESSAGE(added.starts_with("hipGetDevice\nhipModuleLaunchKernel grid "), added);
    CHECK(count_of(added, "\n") == 2);
    machine.hip.record(0);
    const long allocated = testing::allocations();
    runtime.run(args);
    CHECK(testing::allocations() == allocated);
    machine.hip.record(1);
  }
  CHECK(machine.hiprtc.compiles() == 1);
  runtime.run(attention(4, 300, 500, true));
  CHECK(machine.hiprtc.compiles() == 2);
  CHECK(runtime.prepare(attention(4, 300, 500, true)).origin == KernelOrigin::memory);
  CHECK(machine.warnings.empty());
}

TEST_CASE(
    "matrix products: hot calls allocate nothing; sums over parts of K take scratch memory in the stream's order") {
  Machine machine;
  Runtime runtime(machine.options());
  const auto matrix = [](std::uintptr_t place, std::int64_t rows, std::int64_t columns) {
    return Tensor::contiguous(reinterpret_cast<void*>(0x100000000000 + place * 0x10000000000), kGpu, DType::f16,
                              {rows, columns});
  };
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    GemmArgs args;
    args.a = matrix(0, m, k);
    args.b = matrix(1, n, k);
    args.d = matrix(2, m, n);
    return args;
  };
  for (const auto& [m, n, k] : {std::array{1, 64, 512}, {128, 4096, 512}, {4096, 4096, 512}}) {
    const GemmArgs args = product(m, n, k);
    runtime.run(args);
    machine.hip.record(0);
    const long allocated = testing::allocations();
    runtime.run(args);
    const long after = testing::allocations();
    machine.hip.record(1);
    CHECK(after == allocated);
  }
  CHECK_FALSE(has(machine.hip.log(), "Async"));
  const GemmArgs in_parts = product(64, 64, 65536);
  CHECK(has(runtime.prepare(in_parts).name, "_parts"));
  runtime.run(in_parts);
  CHECK(has(machine.hip.log(), "hipMallocFromPoolAsync"));
  CHECK(has(machine.hip.log(), "hipFreeAsync"));
  CHECK(machine.warnings.empty());
}

TEST_CASE("the parameter of attention is the one that the host fills") {
  Machine machine;
  machine.hiprtc.set_param_bytes(sizeof(ops::fmha::Params));
  Runtime runtime(machine.options());
  const FmhaArgs args = attention(6, 300, 500, true);
  runtime.run(args);
  ops::fmha::Params params{};
  REQUIRE(machine.hip.last_params(&params, sizeof(params)) == sizeof(params));
  CHECK(params.o == args.o.data);
  CHECK(params.queries == 300);
  CHECK(params.keys == 500);
  CHECK(params.heads == 6);
  CHECK(params.heads_per_kv_head == 2);
}

TEST_CASE("nothing is made inside a capture") {
  Machine machine;
  const test::AmdKernel source("gfx1100");
  Runtime runtime(machine.options());
  const custom::Kernel kernel(runtime, source.description);
  machine.hip.set_capture(1);
  CHECK(error_of([&] { kernel.launch(kGpu, test::AmdKernel::Params{}, 1); }).code == Code::cold_in_capture);
  CHECK(machine.hiprtc.compiles() == 0);
  machine.hip.set_capture(0);
  kernel.prepare(kGpu);
  machine.hip.set_capture(1);
  kernel.launch(kGpu, test::AmdKernel::Params{}, 1);
  CHECK(machine.hiprtc.compiles() == 1);
}

TEST_CASE(
    "each call that a first launch makes fails in turn: the error names it, nothing leaks, and the next try works") {
  Machine machine;
  const test::AmdKernel source("gfx1100");
  const auto run = [&] {
    Options options = machine.options();
    options.use_disk_cache = false;
    Runtime runtime(options);
    custom::Kernel(runtime, source.description).launch(kGpu, test::AmdKernel::Params{}, 1);
  };
  run();
  const std::string log = machine.hip.log();
  for (const char* call : {"hipGetDevicePropertiesR0600", "hipStreamIsCapturing", "hipModuleLoadData",
                           "hipModuleGetFunction", "hipModuleLaunchKernel", "hipGetDevice"}) {
    CAPTURE(call);
    REQUIRE(has(log, call));
    machine.hip.reset();
    machine.hip.fail(call, 1, 999);
    const Error e = error_of(run);
    CHECK(e.code == Code::driver_error);
    CHECK_MESSAGE(has(e.message, std::string(call) + " failed with hipErrorFake999 (999)"), e.message);
    CHECK(std::string(machine.hip.leaks()) == "");
    CHECK_NOTHROW(run());
  }
}

TEST_CASE("a binary on disk that the device does not take is made anew, once") {
  Machine machine;
  const test::AmdKernel source("gfx1100");
  {
    Runtime runtime(machine.options());
    custom::Kernel(runtime, source.description).prepare(kGpu);
  }
  machine.hip.reset();
  machine.hip.fail("hipModuleLoadData", 1, 209);
  Runtime runtime(machine.options());
  custom::Kernel(runtime, source.description).prepare(kGpu);
  CHECK(machine.hiprtc.compiles() == 2);
  REQUIRE(machine.warnings.size() == 1);
  CHECK_MESSAGE(has(machine.warnings[0], "does not load and is made anew"), machine.warnings[0]);
}

TEST_CASE("what the compiler refuses is an error with its log") {
  Machine machine;
  machine.hiprtc.refuse("doubled.cu:3:1: error: nothing is right\n");
  const test::AmdKernel source("gfx1100");
  Runtime runtime(machine.options());
  const Error e = error_of([&] { custom::Kernel(runtime, source.description).prepare(kGpu); });
  CHECK(e.stage == Stage::compile);
  CHECK(e.code == Code::compile_failed);
  for (const char* words : {"hiprtc 6.4 refused doubled.cu for gfx1100", "nothing is right", "TJ_DUMP_DIR"})
    CHECK_MESSAGE(has(e.message, words), e.message);
  CHECK(has(e.log, "nothing is right"));
}

TEST_CASE("memory, copies and times of the device, in C++ and in C") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    const auto memory = runtime.allocate(kGpu, 16);
    const char text[16] = "sixteen letters";
    char back[16] = {};
    runtime.copy(memory.get(), kGpu, text, {DeviceKind::cpu, 0}, 16);
    runtime.copy(back, {DeviceKind::cpu, 0}, memory.get(), kGpu, 16);
    CHECK(std::memcmp(text, back, 16) == 0);
    CHECK(runtime.time_ms(kGpu, [] {}) == 1.5);
    runtime.synchronize(kGpu);
    CHECK(has(error_of([&] { runtime.copy(memory.get(), kGpu, memory.get(), {DeviceKind::cuda, 0}, 16); }).message,
              "copy from cuda:0 to hip:0"));

    tj_options options;
    tj_options_init(&options);
    const std::string cache = machine.scratch / "cache";
    options.cache_dir = cache.c_str();
    tj_runtime* c_runtime = nullptr;
    REQUIRE(tj_runtime_create(&options, &c_runtime) == TJ_OK);
    tj_device device{};
    CHECK(tj_default_device(c_runtime, &device) == TJ_OK);
    CHECK(device.kind == TJ_HIP);
    void* c_memory = nullptr;
    CHECK(tj_allocate(c_runtime, device, 16, &c_memory) == TJ_OK);
    CHECK(tj_free(c_runtime, c_memory) == TJ_OK);
    tj_runtime_destroy(c_runtime);
  }
  CHECK(std::string(machine.hip.leaks()) == "");
}

}  // namespace
