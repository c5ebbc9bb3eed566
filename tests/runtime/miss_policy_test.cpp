// Protects what calls do whose kernel is not in the cache: they wait, fail at once by a name, or take a quick kernel
// until the best one is there. What asks for a kernel to be made gets the best one, whatever the policy.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Code;
using tj::Counters;
using tj::KernelOrigin;
using tj::MissPolicy;
using tj::Options;
using tj::Runtime;

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

Options with(Machine& machine, MissPolicy policy) {
  Options options = machine.options();
  options.on_miss = policy;
  if (policy == MissPolicy::quick) options.target = "sm_90";  // of sm_90a there are no quick kernels
  return options;
}

/// Until the background has come so far; a test that hangs here is ended from outside.
void wait_until(const std::function<bool()>& there) {
  while (!there()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool settled(const Runtime& runtime) {
  const Counters counters = runtime.counters();
  return counters.quick_kernels == counters.quick_replaced;
}

TEST_CASE("error: a call whose kernel is nowhere fails at once, by its name, and opens no compiler") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::error));
  for (const auto& call : std::vector<std::function<void()>>{[&] { runtime.run(attention()); },
                                                             [&] { static_cast<void>(runtime.plan(attention())); }}) {
    const tj::Error error = error_of(call);
    CHECK(error.code == Code::not_in_cache);
    CHECK(error.stage == tj::Stage::cache);
    CHECK(std::string(tj::to_string(error.code)) == "not_in_cache");
    for (const char* part : {"fmha_f16_d128 for sm_90a is not in the cache at '", "TJ_ON_MISS", "tj-warm", "prepare()"})
      CHECK_MESSAGE(has(error.message, part), std::string(part), " is not in: ", error.message);
  }
  CHECK(machine.nvrtc.compiles() == 0);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
  const Counters counters = runtime.counters();
  CHECK(counters.misses == 2);
  CHECK(counters.refused == 2);
  CHECK(counters.compiles + counters.shared + counters.failed_compiles == 0);
}

TEST_CASE("error: what was made ahead serves, from disk and from memory, and prepare() makes it") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  Runtime runtime(with(machine, MissPolicy::error));
  runtime.run(attention());
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(error_of([&] { runtime.run(attention({}, true)); }).code == Code::not_in_cache);
  CHECK(runtime.prepare(attention({}, true)).origin == KernelOrigin::compiled);
  runtime.run(attention({}, true));
  CHECK(runtime.counters().refused == 1);
  Options memory = with(machine, MissPolicy::error);
  memory.use_disk_cache = false;
  Runtime without(memory);
  CHECK(has(error_of([&] { without.run(attention()); }).message, "in memory, and the cache on disk is not used"));
  without.prepare(attention());
  without.run(attention());
}

TEST_CASE("error: a kernel that the disk could not keep serves the runtime's other devices") {
  Machine machine;
  machine.cuda.set_devices(2);
  Options options = with(machine, MissPolicy::error);
  options.use_disk_cache = false;
  Runtime runtime(options);
  runtime.prepare(config_of(true), kGpu);
  const std::uint64_t compiles = runtime.counters().compiles;
  runtime.prepare(config_of(true), {tj::DeviceKind::cuda, 1});
  CHECK(runtime.counters().compiles == compiles);
}

TEST_CASE("quick: the first call takes a quick kernel, and the best one comes in its place") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  machine.nvrtc.hold(1);
  runtime.run(attention());  // the best one is not there before it is let go
  runtime.run(attention());
  CHECK(machine.nvrtc.quick_compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
  Counters counters = runtime.counters();
  CHECK(counters.misses == 1);
  CHECK(counters.quick_kernels == 1);
  CHECK(counters.quick_replaced == 0);
  CHECK(counters.compiles == 0);
  CHECK(counters.stores == 0);
  CHECK(counters.compile_s >= 0);
  machine.nvrtc.hold(0);
  wait_until([&] { return settled(runtime); });
  counters = runtime.counters();
  CHECK(counters.quick_replaced == 1);
  CHECK(counters.compiles == 1);
  CHECK(counters.misses == 1);
  CHECK(counters.stores == 1);
  runtime.run(attention());
  CHECK(machine.nvrtc.compiles() == 2);
  CHECK(machine.warnings.empty());
  Runtime later(with(machine, MissPolicy::quick));  // the best one is on disk, not the quick one
  CHECK(later.prepare(attention()).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == 2);
}

TEST_CASE("quick: threads on one cold kernel make one quick kernel and one best one between them") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&] { runtime.run(attention()); });
  for (std::thread& each : threads) each.join();
  wait_until([&] { return settled(runtime) && runtime.counters().compiles == 1; });
  CHECK(machine.nvrtc.quick_compiles() <= 1);
  CHECK(machine.nvrtc.compiles() - machine.nvrtc.quick_compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 8);
}

TEST_CASE("quick: who asks for the best kernel waits for it: prepare, plans, and other runtimes") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  runtime.run(attention());
  const auto report = runtime.prepare(attention());
  CHECK(runtime.counters().quick_replaced == 1);
  CHECK(runtime.counters().compiles == 1);
  CHECK(report.name == "fmha_f16_d128");
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::memory);
  const tj::Plan plan = runtime.plan(attention({}, true));
  CHECK(machine.nvrtc.quick_compiles() == 1);
  CHECK(runtime.counters().quick_kernels == 1);
}

TEST_CASE("quick: what is on disk is no miss, and the best one that another process made meanwhile is taken") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  machine.nvrtc.hold(1);
  runtime.run(attention());
  wait_until([&] { return machine.nvrtc.compiles() == 2; });
  machine.nvrtc.hold(0);
  wait_until([&] { return settled(runtime); });
  Runtime other(with(machine, MissPolicy::quick));
  other.run(attention());
  CHECK(other.counters().misses == 0);
  CHECK(other.counters().quick_kernels == 0);
  CHECK(machine.nvrtc.quick_compiles() == 1);
}

TEST_CASE("quick: a best kernel that cannot be made is told once, and the quick one stays") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  machine.nvrtc.refuse_only(0, "error: no");
  runtime.run(attention());
  wait_until([&] { return runtime.counters().failed_compiles == 1; });
  wait_until([&] {
    const std::lock_guard lock(machine.mutex);
    return !machine.warnings.empty();
  });
  for (int i = 0; i < 3; ++i) runtime.run(attention());
  CHECK(machine.warnings.size() == 1);
  CHECK(has(machine.warnings[0], "fmha_f16_d128"));
  CHECK(has(machine.warnings[0], "so the quick one stays"));
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 4);
  CHECK(!settled(runtime));
  CHECK(error_of([&] { runtime.prepare(attention()); }).code == Code::compile_failed);
  machine.nvrtc.refuse(nullptr);
  runtime.prepare(attention());
  CHECK(settled(runtime));
}

TEST_CASE("quick: where no quick kernel can be made the call waits for the best one") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  machine.nvrtc.refuse_only(1, "error: no");
  runtime.run(attention());
  const Counters counters = runtime.counters();
  CHECK(counters.quick_kernels == 0);
  CHECK(counters.compiles == 1);
  CHECK(counters.misses == 1);
  CHECK(machine.warnings.empty());
  machine.nvrtc.refuse("error: neither");
  CHECK(error_of([&] { runtime.run(attention({}, true)); }).code == Code::compile_failed);
}

TEST_CASE("quick: where a quick kernel does not pay the call waits for the best one, and the log says so") {
  Machine machine;
  Options options = with(machine, MissPolicy::quick);
  options.target = "sm_90a";
  options.log_level = tj::LogLevel::info;
  Runtime runtime(options);
  runtime.run(attention());
  CHECK(machine.nvrtc.quick_compiles() == 0);
  CHECK(machine.nvrtc.compiles() == 1);
  const Counters counters = runtime.counters();
  CHECK(counters.quick_kernels == 0);
  CHECK(counters.compiles == 1);
  CHECK(std::any_of(machine.warnings.begin(), machine.warnings.end(), [](const std::string& line) {
    return has(line, "a quick fmha_f16_d128 for sm_90a would take more than half of the best one's time");
  }));
}

TEST_CASE("quick: the runtime's end waits for the best kernel that is being made, and drops the others") {
  Machine machine;
  auto runtime = std::make_unique<Runtime>(with(machine, MissPolicy::quick));
  machine.nvrtc.hold(1);
  runtime->run(attention());
  runtime->run(attention({}, true));
  wait_until([&] { return machine.nvrtc.compiles() == 3; });  // two quick ones, and a best one that waits
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    machine.nvrtc.hold(0);
  });
  runtime.reset();
  opener.join();
  CHECK(machine.nvrtc.compiles() == 3);
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("quick: a call inside a capture is refused as ever") {
  Machine machine;
  Runtime runtime(with(machine, MissPolicy::quick));
  machine.cuda.set_capture(1);
  CHECK(error_of([&] { runtime.run(attention()); }).code == Code::cold_in_capture);
  CHECK(machine.nvrtc.compiles() == 0);
}

TEST_CASE("quick: every device that took the quick kernel gets the best one") {
  Machine machine;
  machine.cuda.set_devices(2);
  Runtime runtime(with(machine, MissPolicy::quick));
  machine.nvrtc.hold(1);
  const auto on = [&](int device) {
    tj::FmhaArgs args = attention();
    for (tj::Tensor* each : {&args.q, &args.k, &args.v, &args.o}) each->device.index = device;
    runtime.run(args);
  };
  on(0);
  on(1);
  CHECK(machine.nvrtc.quick_compiles() == 1);
  CHECK(runtime.counters().quick_kernels == 2);
  machine.nvrtc.hold(0);
  wait_until([&] { return settled(runtime); });
  CHECK(runtime.counters().compiles == 1);
}

}  // namespace
