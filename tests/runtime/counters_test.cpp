// Protects the counters of a runtime: each look-up is a hit of a layer or a miss, each miss ends as one thing, and what
// is written, evicted or rejected is counted with its reason. Both texts say the same.
#include <tilejit/counters.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Counters;
using tj::Runtime;

constexpr tj::Device kCounted{tj::DeviceKind::cuda, 0};

std::uint64_t rejected(const Counters& counters, const std::string& reason) {
  for (const Counters::Rejected& each : counters.rejected)
    if (each.reason == reason) return each.entries;
  FAIL(reason);
  return 0;
}

std::uint64_t all_rejected(const Counters& counters) {
  std::uint64_t sum = 0;
  for (const Counters::Rejected& each : counters.rejected) sum += each.entries;
  return sum;
}

std::string path_of(const std::string& directory, const std::string& name) {
  for (const tj::cache::ListedEntry& listed : tj::cache::Store(directory, 0, {}).list())
    if (listed.entry && !listed.alias && *listed.entry->find("name") == name) return listed.path;
  FAIL(name);
  return {};
}

constexpr const char* kKernel = "fmha_f16_d128_causal";

TEST_CASE("a new runtime has counted nothing, and knows its layers and every reason") {
  Machine machine;
  tj::Options options = machine.options();
  options.cache_dir = machine.scratch / "a" + ":" + machine.scratch / "b";
  const Counters counters = Runtime(options).counters();
  REQUIRE(counters.layers.size() == 2);
  CHECK(counters.layers[0].directory == machine.scratch / "a");
  CHECK(counters.layers[1].directory == machine.scratch / "b");
  CHECK(counters.misses + counters.compiles + counters.loads + counters.stores + counters.waits == 0);
  CHECK(all_rejected(counters) == 0);
  CHECK(counters.rejected.size() == 7);
  options.use_disk_cache = false;
  CHECK(Runtime(options).counters().layers.empty());
}

TEST_CASE("each look-up is a hit of its layer or a miss, and each miss a compile or a failure") {
  Machine machine;
  tj::Options options = machine.options();
  options.cache_dir = machine.scratch / "image";
  std::uint64_t kernels = 0;
  {
    Runtime runtime(options);
    for (int i = 0; i < 3; ++i) runtime.prepare(config_of(true), kCounted);
    const Counters counters = runtime.counters();
    kernels = counters.compiles;
    CHECK(kernels >= 1);
    CHECK(counters.misses == kernels);
    CHECK(counters.shared == 0);
    CHECK(counters.loads == kernels);
    CHECK(counters.stores == kernels);
    CHECK(counters.bytes_written > 0);
    CHECK(counters.layers[0].hits == 0);
    CHECK(counters.compile_s > 0);
  }
  options.cache_dir = machine.scratch / "own" + ":" + machine.scratch / "image";
  Runtime runtime(options);
  runtime.prepare(config_of(true), kCounted);
  Counters counters = runtime.counters();
  CHECK(counters.layers[0].hits == 0);
  CHECK(counters.layers[1].hits == kernels);
  CHECK(counters.layers[1].bytes_read > 0);
  CHECK(counters.misses == 0);
  CHECK(counters.loads == kernels);
  machine.nvrtc.refuse("no");
  CHECK_THROWS_AS(runtime.prepare(config_of(false, 64), kCounted), tj::Error);
  counters = runtime.counters();
  CHECK(counters.misses == 1);
  CHECK(counters.failed_compiles == 1);
  CHECK(counters.compiles == 0);
}

TEST_CASE("threads on one cold kernel: one compile, and every other miss is shared or a hit") {
  Machine machine;
  Runtime runtime(machine.options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&] { runtime.prepare(config_of(true), kCounted); });
  for (std::thread& each : threads) each.join();
  const Counters counters = runtime.counters();
  CHECK(counters.misses == counters.shared + counters.compiles);
  CHECK(counters.waits <= counters.misses);
  CHECK(counters.compiles == counters.stores);
  CHECK(machine.nvrtc.compiles() == static_cast<int>(counters.compiles));
}

TEST_CASE("a wait for somebody else who makes the kernel is counted, with its seconds") {
  Machine machine;
  Runtime(machine.options()).prepare(config_of(true), kCounted);
  const std::string path = path_of(machine.cache_dir(), kKernel), name = path.substr(path.rfind('/') + 1);
  std::filesystem::remove(path);
  tj::cache::Store other(machine.cache_dir(), 0, {});
  const auto held = other.lock({name.substr(0, 64), name.substr(65, 64)});
  REQUIRE(held != nullptr);
  tj::Options options = machine.options();
  options.wait_limit_s = 0.05;
  Runtime runtime(options);
  runtime.prepare(config_of(true), kCounted);
  const Counters counters = runtime.counters();
  CHECK(counters.waits == 1);
  CHECK(counters.wait_s > 0);
  CHECK(counters.misses == 1);
  CHECK(counters.compiles == 1);
}

TEST_CASE("entries that are not used are counted by reason, each once") {
  Machine machine;
  Runtime(machine.options()).prepare(config_of(true), kCounted);
  const std::string path = path_of(machine.cache_dir(), kKernel), good = tj::testing::read_bytes(path);
  const auto counted = [&](const std::string& reason) {
    Runtime runtime(machine.options());
    runtime.prepare(config_of(true), kCounted);
    const Counters counters = runtime.counters();
    CHECK_MESSAGE(rejected(counters, reason) == 1, reason);
    CHECK_MESSAGE(all_rejected(counters) == 1, counters.json());
    CHECK(counters.compiles == 1);
  };
  std::string bytes = good;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  tj::testing::write_bytes(path, bytes);
  counted("damaged");
  tj::testing::write_bytes(path, good.substr(0, 10));
  counted("damaged");
  bytes = good;
  bytes[8] = static_cast<char>(bytes[8] + 1);
  tj::testing::write_bytes(path, bytes);
  counted("version");
  std::string other = path;
  other[other.rfind('/') + 1] = other[other.rfind('/') + 1] == 'a' ? 'b' : 'a';
  std::filesystem::rename(path, other);
  std::filesystem::copy_file(other, path);
  const std::string name = path.substr(path.rfind('/') + 1);
  tj::cache::Entry entry = *tj::cache::decode(tj::testing::read_bytes(path), nullptr, nullptr);
  tj::testing::write_bytes(path, tj::cache::encode({std::string(64, 'a'), name.substr(65, 64)}, entry));
  std::filesystem::remove(other);
  counted("other_key");
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  counted("untrusted");
  entry = *tj::cache::decode(tj::testing::read_bytes(path), nullptr, nullptr);
  std::erase_if(entry.metadata, [](const auto& field) { return field.first == "threads"; });
  tj::testing::write_bytes(path, tj::cache::encode({name.substr(0, 64), name.substr(65, 64)}, entry));
  counted("fields");
  std::filesystem::remove(path);
  REQUIRE(::mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0);  // the system opens no socket
  counted("unreadable");
}

TEST_CASE("what is evicted, and what cannot be written, is counted") {
  Machine machine;
  tj::Options options = machine.options();
  Runtime(options).prepare(config_of(true), kCounted);
  const auto size = std::filesystem::file_size(path_of(machine.cache_dir(), kKernel));
  options.cache_max_size_bytes = size + size / 2;
  {
    Runtime runtime(options);
    runtime.prepare(config_of(false), kCounted);
    const Counters counters = runtime.counters();
    CHECK(counters.evictions >= 1);
    CHECK(counters.bytes_evicted >= size / 2);
  }
  options.cache_dir = "/proc/none";
  Runtime runtime(options);
  runtime.prepare(config_of(true), kCounted);
  const Counters counters = runtime.counters();
  CHECK(counters.failed_stores == counters.compiles);
  CHECK(counters.stores == 0);
}

TEST_CASE("the texts: JSON with every number, and Prometheus' format with escaped labels") {
  Counters counters;
  counters.layers = {{"/a", 3, 70}, {"/odd \"\\\n", 1, 2}};
  counters.rejected = {{"damaged", 5}};
  counters.devices = {{"cuda:1", 2, 3000, 4, 5, 6}};
  counters.misses = 7;
  counters.compile_s = 1.5;
  const auto json = nlohmann::json::parse(counters.json());
  CHECK(json["layers"][0]["hits"] == 3);
  CHECK(json["layers"][1]["bytes_read"] == 2);
  CHECK(json["devices"][0]["device"] == "cuda:1");
  CHECK(json["devices"][0]["code_bytes"] == 3000);
  CHECK(json["devices"][0]["allocated_bytes"] == 6);
  CHECK(json["misses"] == 7);
  CHECK(json["compile_s"] == 1.5);
  CHECK(json["rejected"]["damaged"] == 5);
  const std::string page = counters.prometheus();
  for (const char* part :
       {"# HELP tilejit_cache_hits_total Kernels found on disk.\n# TYPE tilejit_cache_hits_total counter\n"
        "tilejit_cache_hits_total{layer=\"/a\"} 3\n",
        "tilejit_cache_hits_total{layer=\"/odd \\\"\\\\\\n\"} 1\n", "\ntilejit_cache_misses_total 7\n",
        "# TYPE tilejit_loaded_kernels gauge\ntilejit_loaded_kernels{device=\"cuda:1\"} 2\n",
        "tilejit_workspace_used_bytes{device=\"cuda:1\"} 5\n", "tilejit_stage_seconds_total{stage=\"compile\"} 1.5\n",
        "tilejit_cache_rejected_total{reason=\"damaged\"} 5\n"})
    CHECK_MESSAGE(has(page, part), std::string(part), " is not in: ", page);
  CHECK(page.back() == '\n');
  std::size_t helps = 0, types = 0;
  for (std::size_t at = 0; (at = page.find("# HELP tilejit_", at)) != std::string::npos; ++at) ++helps;
  for (const char* type : {" counter\n", " gauge\n"})
    for (std::size_t at = 0; (at = page.find(type, at)) != std::string::npos; ++at) ++types;
  CHECK(helps == types);
  CHECK(helps == 37);
}

}  // namespace
