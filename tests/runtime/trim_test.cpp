// Protects what is unloaded while a runtime lives: what nothing needs, and nothing else. Plans, calls under way and
// graphs keep their kernels, and what was unloaded is loaded again by the next call.
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernel_table.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Counters;
using tj::FmhaArgs;
using tj::Plan;
using tj::Runtime;
using tj::TrimReport;

constexpr tj::Device kTrimmed{tj::DeviceKind::cuda, 0};

FmhaArgs call_number(int number) {
  const Shape shape{1, 1, 1, 300, 600, number % 2 == 0 ? 128 : 64};
  return attention(shape, number / 2 % 2 == 1, Layout::bhsd, number / 4 == 0 ? tj::DType::f16 : tj::DType::bf16);
}
Counters::DeviceUse use_of(const Runtime& runtime) {
  const Counters counters = runtime.counters();
  REQUIRE(counters.devices.size() == 1);
  CHECK(counters.devices[0].device == "cuda:0");
  return counters.devices[0];
}
std::vector<void*> addresses_of(const FmhaArgs& args) { return {args.q.data, args.k.data, args.v.data, args.o.data}; }

/// Options with a bound that this many of the kernels of call_number() fit into.
tj::Options bounded(Machine& machine, int kernels) {
  tj::Options options = machine.options();
  std::uint64_t bytes = 0;
  {
    Runtime runtime(options);
    for (int i = 0; i < 8; ++i) runtime.prepare(call_number(i));
    bytes = use_of(runtime).code_bytes / 8;
  }
  options.code_max_size_bytes = bytes * static_cast<std::uint64_t>(kernels) + bytes / 2;
  return options;
}

TEST_CASE("trim() refuses a device that there is not, by its name, and then unloads nothing") {
  Machine machine;
  Runtime runtime(machine.options());
  runtime.run(call_number(0));
  CHECK(has(error_of([&] { runtime.trim(tj::Device{tj::DeviceKind::cuda, 99}); }).message,
            "device cuda:99 does not exist; there are "));
  CHECK(has(error_of([&] { runtime.trim(tj::Device{tj::DeviceKind::cuda, -1}); }).message,
            "device cuda:-1 does not exist"));
  CHECK(has(error_of([&] { runtime.trim(tj::Device{tj::DeviceKind::cpu, 1}); }).message, "device cpu has index 1"));
  CHECK(use_of(runtime).kernels == 1);
  CHECK(runtime.trim(kTrimmed).kernels == 1);
}

TEST_CASE("trim() unloads what nothing needs, says how much, and the next call loads it again") {
  Machine machine;
  machine.cuda.set_devices(2);
  {
    Runtime runtime(machine.options());
    for (int i = 0; i < 3; ++i) runtime.run(call_number(i));
    const Counters::DeviceUse before = use_of(runtime);
    CHECK(before.kernels == 3);
    CHECK(before.code_bytes > 0);
    const TrimReport freed = runtime.trim();
    CHECK(freed.kernels == 3);
    CHECK(freed.code_bytes == before.code_bytes);
    CHECK(count_calls(machine.cuda, "cuModuleUnload") == 3);
    CHECK(use_of(runtime).kernels == 0);
    CHECK(use_of(runtime).code_bytes == 0);
    CHECK(runtime.trim().kernels == 0);
    CHECK(runtime.counters().unloads == 3);
    CHECK(runtime.counters().bytes_unloaded == before.code_bytes);

    const int compiles = machine.nvrtc.compiles();
    for (int round = 0; round < 2; ++round)
      for (int i = 0; i < 3; ++i) runtime.run(call_number(i));
    CHECK(machine.nvrtc.compiles() == compiles);
    CHECK(use_of(runtime).kernels == 3);
    CHECK(use_of(runtime).code_bytes == before.code_bytes);
    CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 6);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 9);
    CHECK(runtime.trim(tj::Device{tj::DeviceKind::cuda, 1}).kernels == 0);
    CHECK(runtime.trim(kTrimmed).kernels == 3);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("without the disk, too, what was unloaded comes back without a compiler") {
  Machine machine;
  tj::Options options = machine.options();
  options.use_disk_cache = false;
  Runtime runtime(options);
  runtime.run(call_number(0));
  CHECK(runtime.trim().kernels == 1);
  runtime.run(call_number(0));
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("a plan keeps its kernels loaded, also beyond its runtime, and no longer than it lives") {
  Machine machine;
  {
    std::optional<Runtime> runtime(std::in_place, machine.options());
    std::optional<Plan> plan(runtime->plan(call_number(0)));
    runtime->run(call_number(1));
    CHECK(runtime->trim().kernels == 1);
    plan->run(addresses_of(call_number(0)));
    plan.reset();
    CHECK(runtime->trim().kernels == 1);
    plan.emplace(runtime->plan(call_number(0)));
    runtime.reset();
    plan->run(addresses_of(call_number(0)));
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 3);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("a bound on loaded code: the kernels whose last use is longest ago go first, and plans keep theirs") {
  Machine machine;
  Runtime runtime(bounded(machine, 3));
  for (int i = 0; i < 3; ++i) runtime.run(call_number(i));
  CHECK(runtime.counters().unloads == 0);
  runtime.run(call_number(3));  // unloads 0
  CHECK(runtime.counters().unloads == 1);
  runtime.run(call_number(1));
  runtime.run(call_number(4));  // unloads 2, as 1 was used since
  CHECK(runtime.counters().unloads == 2);
  const std::uint64_t loads = runtime.counters().loads;
  for (const int present : {1, 3, 4}) runtime.run(call_number(present));
  CHECK(runtime.counters().loads == loads);
  CHECK(use_of(runtime).kernels == 3);

  const Plan held = runtime.plan(call_number(0));
  for (int round = 0; round < 2; ++round)
    for (int i = 1; i < 8; ++i) runtime.run(call_number(i));
  const std::uint64_t then = runtime.counters().loads;
  held.run(addresses_of(call_number(0)));
  runtime.run(call_number(0));
  CHECK(runtime.counters().loads == then);
  CHECK(use_of(runtime).kernels == 3);
  CHECK(machine.warnings.empty());
}

TEST_CASE("a kernel that is larger than the bound is loaded all the same, and serves while it is the last one") {
  Machine machine;
  tj::Options options = machine.options();
  options.code_max_size_bytes = 1;
  Runtime runtime(options);
  for (int i = 0; i < 2; ++i) runtime.run(call_number(0));
  CHECK(runtime.counters().loads == 1);
  runtime.run(call_number(1));
  CHECK(use_of(runtime).kernels == 1);
  for (int i = 0; i < 2; ++i) runtime.run(call_number(0));
  CHECK(runtime.counters().loads == 3);
}

TEST_CASE("what a graph may launch stays: with a bound what was recorded, without one what was on a stream") {
  Machine machine;
  const tj::Stream stream{address(0x5000)};
  tj::Options options = machine.options();
  {
    Runtime runtime(options);
    runtime.run(call_number(0));
    runtime.run(call_number(1), stream);
    {
      const Plan plan = runtime.plan(call_number(2));
      plan.run(addresses_of(call_number(2)), stream);
    }
    CHECK(count_calls(machine.cuda, "cuStreamIsCapturing") == 2);  // by the calls that made kernels
    CHECK(runtime.trim().kernels == 1);
    CHECK(use_of(runtime).kernels == 2);
  }
  options.code_max_size_bytes = std::uint64_t{1} << 40;
  Runtime runtime(options);
  for (int i = 0; i < 3; ++i) runtime.prepare(call_number(i));
  runtime.run(call_number(0), stream);
  machine.cuda.set_capture(1);
  runtime.run(call_number(1), stream);
  machine.cuda.set_capture(0);
  CHECK(runtime.trim().kernels == 2);
  CHECK(use_of(runtime).kernels == 1);
  const int asked = count_calls(machine.cuda, "cuStreamIsCapturing");
  runtime.run(call_number(1), stream);
  CHECK(count_calls(machine.cuda, "cuStreamIsCapturing") == asked);  // it is known to stay
}

TEST_CASE("a call of an unloaded kernel under a capture is refused with the remedy, and the capture goes on") {
  Machine machine;
  Runtime runtime(bounded(machine, 1));
  runtime.prepare(call_number(0));
  runtime.prepare(call_number(1));
  const tj::Stream stream{address(0x5000)};
  machine.cuda.set_capture(1);
  const tj::Error error = error_of([&] { runtime.run(call_number(0), stream); });
  CHECK(error.code == tj::Code::cold_in_capture);
  CHECK(has(error.message, "keep a plan of the call"));
  runtime.run(call_number(1), stream);
  machine.cuda.set_capture(0);
  const Plan plan = runtime.plan(call_number(0));
  machine.cuda.set_capture(1);
  plan.run(addresses_of(call_number(0)), stream);
  machine.cuda.set_capture(0);
}

TEST_CASE("threads call, plan and trim at once, under a small bound: every launch has its module") {
  Machine machine;
  {
    Runtime runtime(bounded(machine, 2));
    std::atomic<bool> ended{false};
    std::atomic<int> launches{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 150; ++i) {
          const FmhaArgs args = call_number((i * (t + 1)) % 8);
          if (i % 5 == 0)
            runtime.plan(args).run(addresses_of(args));
          else
            runtime.run(args);
          ++launches;
        }
      });
    std::thread trimmer([&] {
      while (!ended) {
        runtime.trim();
        std::this_thread::yield();
      }
    });
    for (std::thread& each : threads) each.join();
    ended = true;
    trimmer.join();
    CHECK(launches == 450);  // a launch without its module would have thrown
    runtime.trim();
    CHECK(use_of(runtime).kernels == 0);
    CHECK(runtime.counters().loads == runtime.counters().unloads);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("memory of pools and of allocate() is counted, and trim() gives free memory of pools back") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  Runtime runtime(machine.options());
  const auto matrix = [&](int place, std::int64_t rows, std::int64_t columns) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), kTrimmed,
                                  tj::DType::f16, {rows, columns});
  };
  tj::GemmArgs args;  // in parts of K
  args.a = matrix(0, 128, 16384);
  args.b = matrix(1, 128, 16384);
  args.d = matrix(2, 128, 128);
  runtime.run(args);
  std::shared_ptr<void> memory = runtime.allocate(kTrimmed, 1000);
  Counters::DeviceUse use = use_of(runtime);
  CHECK(use.workspace_bytes > 0);
  CHECK(use.workspace_used_bytes == 0);
  CHECK(use.allocated_bytes == 1000);
  machine.cuda.set_capture(1);  // of any thread: asking does not break it
  CHECK(use_of(runtime).workspace_bytes == use.workspace_bytes);
  machine.cuda.set_capture(0);
  CHECK_FALSE(has(machine.cuda.leaks(), "capture"));
  memory.reset();
  CHECK(runtime.trim().workspace_bytes == use.workspace_bytes);
  use = use_of(runtime);
  CHECK(use.workspace_bytes == 0);
  CHECK(use.allocated_bytes == 0);
}

TEST_CASE("a driver that tells nothing of its pool, or refuses, costs no call") {
  Machine machine;
  Runtime runtime(machine.options());
  runtime.run(call_number(0));
  for (const char* call : {"cuMemPoolGetAttribute", "cuMemPoolTrimTo", "cuCtxPushCurrent", "cuModuleUnload"})
    for (int nth = 1; nth < 20; ++nth) machine.cuda.fail(call, nth, 999);
  CHECK(use_of(runtime).workspace_bytes == 0);
  CHECK(runtime.trim().kernels == 1);
}

TEST_CASE("a quick kernel that serves is not unloaded, and one that was replaced is") {
  const auto kernel = [](bool quick) {
    auto made = std::make_unique<tj::LoadedKernel>();
    made->quick = quick;
    made->code_bytes = 10;
    return made;
  };
  const tj::HotKey key{nullptr, 1, kTrimmed};
  tj::KernelTable table;
  tj::KernelTable::Kept kept;
  CHECK(table.insert(key, kernel(true), &kept)->quick);
  CHECK(kept == tj::KernelTable::Kept::own);
  CHECK(table.unload(kTrimmed, 0).kernels.empty());
  table.insert(key, kernel(false), &kept);
  CHECK(kept == tj::KernelTable::Kept::replaced);
  {
    const auto held = table.find(key);
    const auto out = table.unload(kTrimmed, 0);
    CHECK(out.kernels.size() == 1);
    CHECK(out.bytes == 10);
    CHECK_FALSE(held->quick);
  }
  CHECK(table.unload(kTrimmed, 10).kernels.empty());  // as many as may stay
  CHECK(table.unload(kTrimmed, 9).kernels.size() == 1);
  CHECK(!table.find(key));
  CHECK(!table.find_settled(key));
  table.insert(key, kernel(false), &kept);
  CHECK(kept == tj::KernelTable::Kept::own);
  REQUIRE(table.uses().size() == 1);
  CHECK(table.uses()[0].kernels == 1);
  CHECK(table.uses()[0].code_bytes == 10);
}

}  // namespace
