// Protects the two steps of a look-up: another build of the library loses its aliases alone, makes the text again and
// compiles nothing; and no alias, whatever it names, leads to another kernel than the one that was asked for.
#include <doctest/doctest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"

namespace {

using namespace tj::test;
using tj::Counters;
using tj::KernelOrigin;
using tj::Runtime;

constexpr tj::Device kAliasGpu{tj::DeviceKind::cuda, 0};

std::vector<std::string> aliases_in(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& item : tj::cache::Store(directory, 0, {}).list())
    if (item.alias) paths.push_back(item.path);
  return paths;
}

/// The cache as another build of the library finds it.
void forget_aliases(const std::string& directory) {
  for (const std::string& path : aliases_in(directory)) std::filesystem::remove(path);
}

TEST_CASE("a kernel has an alias, by which the next runtime finds it without making its text") {
  Machine machine;
  std::uint64_t kernels = 0;
  {
    Runtime runtime(machine.options());
    runtime.prepare(config_of(true), kAliasGpu);
    const Counters counters = runtime.counters();
    kernels = counters.compiles;
    CHECK(counters.alias_misses == kernels);
    CHECK(counters.alias_hits == 0);
    CHECK(counters.alias_stores == kernels);
    CHECK(counters.stores == kernels);
  }
  CHECK(aliases_in(machine.cache_dir()).size() == kernels);
  Runtime runtime(machine.options());
  CHECK(runtime.prepare(config_of(true), kAliasGpu).origin == KernelOrigin::disk);
  const Counters counters = runtime.counters();
  CHECK(counters.alias_hits == kernels);
  CHECK(counters.alias_misses == 0);
  CHECK(counters.layers[0].hits == kernels);
  CHECK(counters.schedule_s + counters.codegen_s == 0);
  CHECK(counters.stores + counters.alias_stores == 0);
}

TEST_CASE("another build loses aliases alone: the text is made again, the binary is found, nothing is compiled") {
  Machine machine;
  Runtime(machine.options()).prepare(config_of(true), kAliasGpu);
  const int compiles = machine.nvrtc.compiles();
  const std::size_t kernels = aliases_in(machine.cache_dir()).size();
  for (const tj::MissPolicy policy : {tj::MissPolicy::wait, tj::MissPolicy::error, tj::MissPolicy::quick}) {
    forget_aliases(machine.cache_dir());
    tj::Options options = machine.options();
    options.on_miss = policy;
    Runtime runtime(options);
    runtime.run(attention({}, true));
    runtime.prepare(config_of(true), kAliasGpu);
    const Counters counters = runtime.counters();
    CHECK(counters.alias_misses == kernels);
    CHECK(counters.alias_stores == kernels);
    CHECK(counters.layers[0].hits == kernels);
    CHECK(counters.misses + counters.compiles + counters.refused + counters.stores == 0);
    CHECK(counters.quick_kernels == 0);
    CHECK(counters.schedule_s > 0);
    CHECK(aliases_in(machine.cache_dir()).size() == kernels);
  }
  CHECK(machine.nvrtc.compiles() == compiles);
  CHECK(machine.warnings.empty());
}

TEST_CASE("a pack without an alias for this build serves, also where no alias can be left, and once for all devices") {
  Machine machine;
  machine.cuda.set_devices(2);
  Runtime(machine.options()).prepare(config_of(true), kAliasGpu);
  forget_aliases(machine.cache_dir());
  const int compiles = machine.nvrtc.compiles();
  REQUIRE(tj::cache::Store(machine.cache_dir(), 0, {}).pack(machine.scratch / "model.tjp", nullptr).problem.empty());
  tj::Options options = machine.options();
  options.cache_dir = machine.scratch / "model.tjp";
  options.on_miss = tj::MissPolicy::error;
  Runtime runtime(options);
  for (const int device : {0, 1}) {
    tj::FmhaArgs args = attention({}, true);
    for (tj::Tensor* each : {&args.q, &args.k, &args.v, &args.o}) each->device.index = device;
    runtime.run(args);
  }
  const Counters counters = runtime.counters();
  CHECK(counters.alias_misses == 1);  // the second device knows the text
  CHECK(counters.layers[0].hits == 2);
  CHECK(counters.misses == 0);
  CHECK(machine.nvrtc.compiles() == compiles);
  CHECK(machine.warnings.empty());
}

TEST_CASE("an alias that names another kernel, or none, leads to no wrong one, and is replaced") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  const std::string path = aliases_in(machine.cache_dir()).at(0);
  const std::string good = tj::testing::read_bytes(path);
  Runtime(machine.options()).prepare(attention({}, true));
  const int compiles = machine.nvrtc.compiles();
  const std::string request = path.substr(path.rfind('/') + 1, 64);
  for (const auto& item : tj::cache::Store(machine.cache_dir(), 0, {}).list()) {
    if (item.alias || !has(*item.entry->find("name"), "causal")) continue;
    const std::string text_hex = item.path.substr(item.path.rfind('/') + 1, 64);
    const tj::cache::Entry forged = tj::cache::alias_entry(text_hex, {});
    tj::testing::write_bytes(path, tj::cache::encode(tj::cache::alias_key(request), forged));
    Runtime runtime(machine.options());
    CHECK(runtime.prepare(attention()).name == "fmha_f16_d128");
    CHECK(runtime.counters().layers[0].hits == 1);
    CHECK(tj::testing::read_bytes(path) == good);
  }
  tj::testing::write_bytes(
      path, tj::cache::encode(tj::cache::alias_key(request), tj::cache::alias_entry(std::string(64, 'a'), {})));
  Runtime runtime(machine.options());
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::disk);
  CHECK(tj::testing::read_bytes(path) == good);
  CHECK(machine.nvrtc.compiles() == compiles);
}

TEST_CASE("each byte of an alias that is changed, and each cut, costs a text and no compile, and heals") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  const std::string path = aliases_in(machine.cache_dir()).at(0);
  const std::string good = tj::testing::read_bytes(path);
  const std::size_t step = tj::testing::full_run() ? 1 : 7;
  for (std::size_t i = 0; i < good.size(); i += step) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    for (const std::string& bytes : {bad, good.substr(0, i)}) {
      tj::testing::write_bytes(path, bytes);
      CHECK(Runtime(machine.options()).prepare(attention()).name == "fmha_f16_d128");
      CHECK(tj::testing::read_bytes(path) == good);
    }
  }
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("threads whose alias is gone: no compile, no miss, and one alias that is right again") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  const int compiles = machine.nvrtc.compiles();
  forget_aliases(machine.cache_dir());
  Runtime runtime(machine.options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&] { runtime.run(attention()); });
  for (std::thread& each : threads) each.join();
  CHECK(machine.nvrtc.compiles() == compiles);
  CHECK(runtime.counters().misses == 0);
  CHECK(aliases_in(machine.cache_dir()).size() == 1);
}

}  // namespace
