// Protects a runtime that many threads use at once: one compile a kernel, every call launched, and a forked child that
// goes on alone. Readers of the table of kernels never see a half-written slot.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "kernel_table.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"

namespace {

using namespace tj::test;
using tj::HotKey;
using tj::KernelOrigin;
using tj::KernelTable;
using tj::LoadedKernel;
using tj::Runtime;

constexpr int kThreads = 8;

/// Kernels that flags name, most of them in a cache.
struct Many : Machine {
  static constexpr tj::Device kOn{tj::DeviceKind::cuda, 0};
  const std::string cached = std::string("--dtype f16,bf16 --causal true,false --head-dim ") +
                             (tj::testing::share(3) == 3 ? "64,96,128" : "64"),
                    all = cached + " --softcap true,false";
  std::vector<std::string> names;  ///< of those in the cache
  Many() {
    for (const tj::KernelReport& each : Runtime(options()).warm_flags("fmha", cached, "sm_90a"))
      names.push_back(each.name);
    nvrtc.reset();
  }
};

/// All threads enter `work` together; returns how many threw.
int together(const std::function<void(int)>& work, int count = kThreads) {
  std::barrier start(count);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        work(t);
      } catch (const std::exception&) {
        ++failed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failed;
}

TEST_CASE("kernels that the disk has are loaded side by side, each once, and told of in the order of the list") {
  Many many;
  Runtime runtime(many.options());
  const auto reports = runtime.prepare_flags("fmha", many.cached, Many::kOn);
  REQUIRE(reports.size() == many.names.size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    CHECK(reports[i].name == many.names[i]);
    CHECK(reports[i].origin == KernelOrigin::disk);
    CHECK(reports[i].load_ms > 0);
  }
  const tj::Counters counters = runtime.counters();
  CHECK(counters.layers[0].hits == reports.size());
  CHECK(counters.alias_hits == reports.size());
  CHECK(counters.loads == reports.size());
  CHECK(counters.misses + counters.alias_misses + counters.compiles == 0);
  CHECK(count_calls(many.cuda, "cuModuleLoadData") == static_cast<int>(reports.size()));
  for (const tj::KernelReport& each : runtime.prepare_flags("fmha", many.cached, Many::kOn))
    CHECK(each.origin == KernelOrigin::memory);
  CHECK(many.nvrtc.compiles() == 0);
  CHECK(many.warnings.empty());
}

TEST_CASE(
    "what the disk lacks among kernels that are loaded side by side is made behind them, and counts as one miss") {
  Many many;
  Runtime runtime(many.options());
  const auto reports = runtime.prepare_flags("fmha", many.all, Many::kOn);
  std::size_t found = 0;
  for (const tj::KernelReport& each : reports) found += each.origin == KernelOrigin::disk ? 1 : 0;
  CHECK(found == many.names.size());
  CHECK(reports.size() > found);
  const tj::Counters counters = runtime.counters();
  CHECK(counters.misses == reports.size() - found);
  CHECK(counters.alias_misses == reports.size() - found);
  CHECK(counters.compiles == reports.size() - found);
  CHECK(counters.layers[0].hits == found);
  CHECK(counters.loads == reports.size());
}

TEST_CASE("a kernel that the driver does not load among others is an error of the call, and the others are ready") {
  Many many;
  constexpr int kNoMemory = 2;
  {
    Runtime runtime(many.options());
    many.cuda.reset();
    for (const int nth : {3, static_cast<int>(many.names.size()) + 1})
      many.cuda.fail("cuModuleLoadData", nth, kNoMemory);
    CHECK(error_of([&] { runtime.prepare_flags("fmha", many.cached, Many::kOn); }).code == tj::Code::out_of_memory);
    CHECK(runtime.counters().loads == many.names.size() - 1);
    runtime.prepare_flags("fmha", many.cached, Many::kOn);
    CHECK(runtime.counters().loads == many.names.size());
  }
  CHECK(std::string(many.cuda.leaks()) == "");
}

TEST_CASE("a binary among others that the driver refuses is loaded once, and made anew once by the caller's thread") {
  constexpr int kInvalidImage = 200;
  for (const bool compiles : {true, false}) {
    CAPTURE(compiles);
    Many many;
    tj::Options options = many.options();
    std::atomic<int> elsewhere{0};
    options.log_sink = [&, caller = std::this_thread::get_id()](tj::LogLevel, std::string_view text) {
      const std::lock_guard lock(many.mutex);
      many.warnings.emplace_back(text);
      if (std::this_thread::get_id() != caller) ++elsewhere;
    };
    Runtime runtime(options);
    const int kernels = static_cast<int>(many.names.size());
    many.cuda.reset();
    many.cuda.fail("cuModuleLoadData", 3, kInvalidImage);
    if (!compiles) many.nvrtc.refuse("a.cu(1): error: nothing is right\n");
    const auto prepare = [&] { return runtime.prepare_flags("fmha", many.cached, Many::kOn); };
    if (compiles)
      CHECK(prepare().size() == many.names.size());
    else
      CHECK(error_of(prepare).code == tj::Code::compile_failed);
    const tj::Counters counters = runtime.counters();
    CHECK(counters.loads == many.names.size() - (compiles ? 0 : 1));
    CHECK(counters.layers[0].hits == many.names.size());
    CHECK(counters.compiles == (compiles ? 1 : 0));
    CHECK(counters.failed_compiles == (compiles ? 0 : 1));
    CHECK(counters.rejected.back().reason == "driver");
    CHECK(counters.rejected.back().entries == 1);
    REQUIRE(many.warnings.size() == 1);
    CHECK_MESSAGE(has(many.warnings[0], "does not load and is made anew"), many.warnings[0]);
    CHECK(elsewhere == 0);
    CHECK(count_calls(many.cuda, "cuModuleLoadData") == kernels + (compiles ? 1 : 0));
  }
}

TEST_CASE("a child that the log's sink forks while others load kernels of a list makes what they had begun itself") {
  constexpr int kOthers = 3;  // threads beside the caller's
  Many many;
  std::atomic<int> loading{0};
  std::atomic<bool> forked{false};
  pid_t child = -1;
  tj::Options options = many.options();
  options.log_level = tj::LogLevel::trace;
  options.log_sink = [&, caller = std::this_thread::get_id()](tj::LogLevel, std::string_view) {
    if (forked) return;
    if (std::this_thread::get_id() != caller) {
      for (++loading; !forked;) std::this_thread::yield();
      return;
    }
    while (loading < kOthers) std::this_thread::yield();
    child = ::fork();
    forked = true;
    if (child == 0) ::alarm(60);
  };
  std::size_t reports = 0;
  {
    Runtime runtime(options);
    reports = runtime.prepare_flags("fmha", many.cached, Many::kOn).size();
    if (child == 0) ::_exit(reports == many.names.size() && runtime.counters().compiles == 0 ? 0 : 1);
  }
  CHECK(reports == many.names.size());
  REQUIRE(child > 0);
  CHECK(tj::testing::wait_for(child) == 0);
}

TEST_CASE("threads that each prepare many kernels end with each of them once") {
  Many many;
  Runtime runtime(many.options());
  CHECK(together([&](int) { runtime.prepare_flags("fmha", many.cached, Many::kOn); }) == 0);
  std::uint64_t kernels = 0;
  for (const auto& use : runtime.counters().devices) kernels += use.kernels;
  CHECK(kernels == many.names.size());
  CHECK(many.nvrtc.compiles() == 0);
}

TEST_CASE("threads that ask for one kernel at once compile it once, with a disk cache or without") {
  for (const bool disk : {true, false}) {
    CAPTURE(disk);
    Machine machine;
    tj::Options options = machine.options();
    options.use_disk_cache = disk;
    Runtime runtime(options);
    std::atomic<int> compiled{0};
    const int failed = together([&](int t) {
      if (t % 2 == 0 && runtime.prepare(attention()).origin == KernelOrigin::compiled) ++compiled;
      runtime.run(attention());
    });
    CHECK(failed == 0);
    CHECK(machine.nvrtc.compiles() == 1);
    CHECK(compiled <= 1);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == kThreads);
    CHECK(machine.warnings.empty());
  }
}

TEST_CASE("a thousand threads on one cold kernel compile it once, and each launches it") {
  const int kMany = tj::testing::share(1000);
  Machine machine;
  Runtime runtime(machine.options());
  CHECK(together([&](int) { runtime.run(attention()); }, kMany) == 0);
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == kMany);
}

TEST_CASE("threads run one plan at once, each on its own memory") {
  Machine machine;
  Runtime runtime(machine.options());
  const tj::Plan plan = runtime.plan(attention());
  CHECK(together([&](int t) {
          const auto at = [&](std::uint64_t place) {
            return address(kFirstAddress + (4 * static_cast<std::uint64_t>(t) + place) * kAddressStep);
          };
          for (int i = 0; i < 20; ++i) plan.run({at(0), at(1), at(2), at(3)});
        }) == 0);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 20 * kThreads);
}

TEST_CASE("runtimes that share a cache compile once between them") {
  Machine machine;
  std::vector<std::unique_ptr<Runtime>> runtimes;
  for (int t = 0; t < kThreads; ++t) runtimes.push_back(std::make_unique<Runtime>(machine.options()));
  CHECK(together([&](int t) { runtimes[static_cast<std::size_t>(t)]->run(attention()); }) == 0);
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == kThreads);
}

TEST_CASE("different kernels at once, while others are hot") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    const int failed = together([&](int t) {
      for (int i = 0; i < 20; ++i) {
        const bool causal = (t + i) % 2 == 0;
        const std::int64_t head_dim = (t + i) % 4 < 2 ? 64 : 128;
        runtime.run(attention({2, 4, 2, 300, 500, head_dim}, causal));
      }
    });
    CHECK(failed == 0);
    CHECK(machine.nvrtc.compiles() == 4);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == kThreads * 20);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("a refused compile fails in every thread and leaves the kernel to the next caller") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.refuse("error: no");
  CHECK(together([&](int) { runtime.run(attention()); }) == kThreads);
  machine.nvrtc.refuse(nullptr);
  runtime.run(attention());
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
}

HotKey key_of(int i) {
  static const int ops[2] = {};
  return {&ops[i % 2], static_cast<std::uint64_t>(i / 4), {tj::DeviceKind::cuda, i / 2 % 2}};
}

std::unique_ptr<LoadedKernel> kernel_of(int i) {
  auto kernel = std::make_unique<LoadedKernel>();
  kernel->shape.smem_bytes = i;
  return kernel;
}

TEST_CASE("a table finds what was put in, and nothing else") {
  KernelTable table;
  CHECK(!table.find(key_of(0)));
  constexpr int kKeys = 400;
  for (int i = 0; i < kKeys; ++i) table.insert(key_of(i), kernel_of(i));
  for (int i = 0; i < kKeys; ++i) {
    const KernelTable::Hold found = table.find(key_of(i));
    REQUIRE(static_cast<bool>(found));
    CHECK(found->shape.smem_bytes == i);
  }
  for (int i = kKeys; i < 2 * kKeys; ++i) CHECK(!table.find(key_of(i)));
}

TEST_CASE("the first kernel of a key stays") {
  KernelTable table;
  const KernelTable::Hold first = table.insert(key_of(1), kernel_of(1));
  CHECK(&*table.insert(key_of(1), kernel_of(2)) == &*first);
  CHECK(&*table.find(key_of(1)) == &*first);
  CHECK(first->shape.smem_bytes == 1);
}

TEST_CASE("readers beside writers see whole kernels or none, and what they saw stays") {
  KernelTable table;
  constexpr int kKeys = 64;
  std::atomic<int> wrong{0};
  const int failed = together([&](int t) {
    std::vector<const LoadedKernel*> seen(kKeys, nullptr);
    for (int round = 0; round < 20; ++round)
      for (int i = 0; i < kKeys; ++i) {
        const int k = (i * 7 + t * 13 + round) % kKeys;
        const LoadedKernel*& known = seen[static_cast<std::size_t>(k)];
        KernelTable::Hold found = table.find(key_of(k));
        if (known != nullptr && (!found || &*found != known)) ++wrong;
        if (!found && (k + t) % 2 == 0) found = table.insert(key_of(k), kernel_of(k));
        if (found && found->shape.smem_bytes != k) ++wrong;
        known = found ? &*found : nullptr;
      }
  });
  CHECK(failed == 0);
  CHECK(wrong == 0);
  for (int i = 0; i < kKeys; ++i) CHECK(static_cast<bool>(table.find(key_of(i))));
}

}  // namespace
