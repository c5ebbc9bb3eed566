// Protects the order of look-ups: memory, disk, compiler. A cache that is absent, damaged or unwritable changes time,
// never results. Also the report's words about the kernel.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "cache/cache.hpp"
#include "description.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"

namespace {

// Kernels of a configuration with a full mask: calls take one by their sizes, or one for few queries. All
// configurations have one kernel that merges parts.
constexpr int kOfFull = 4, kMerging = 1;

using namespace tj::test;
using tj::KernelOrigin;
using tj::KernelReport;
using tj::Runtime;
using tj::testing::names_in;
using tj::testing::read_bytes;
using tj::testing::write_bytes;

std::string only_entry(const std::string& cache_dir) {
  std::vector<std::string> entries;
  for (const std::string& name : names_in(cache_dir))
    if (name.ends_with(".tjk") && !name.ends_with("-alias.tjk")) entries.push_back(cache_dir + "/" + name);
  REQUIRE(entries.size() == 1);
  return entries.front();
}

TEST_CASE("a process that has found NVRTC stays with it, and describes itself by it") {
  Machine machine;
  const char* path = std::getenv("LD_LIBRARY_PATH");
  const std::string earlier = machine.scratch / "earlier";
  std::filesystem::create_directory(earlier);
  const tj::testing::Variable search("LD_LIBRARY_PATH", earlier + ":" + path);
  const auto described = [] { return nlohmann::json::parse(tj::description()).at("nvrtc").get<std::string>(); };
  Runtime first(machine.options());
  CHECK(first.prepare(config_of()).origin == KernelOrigin::compiled);
  const std::string in_use = described();
  CHECK(has(in_use, "libnvrtc.so.13"));
  std::filesystem::create_symlink(TJ_FAKES_DIR "/libnvrtc.so.1", earlier + "/libnvrtc.so.13");
  CHECK(described() == in_use);
  Runtime second(machine.options());
  CHECK(second.prepare(config_of()).origin == KernelOrigin::disk);
}

TEST_CASE("the first call compiles, the second finds memory, another runtime the disk") {
  Machine machine;
  {
    Runtime first(machine.options());
    CHECK(first.prepare(config_of()).origin == KernelOrigin::compiled);
    CHECK(first.prepare(config_of()).origin == KernelOrigin::memory);
    CHECK(first.prepare(attention()).origin == KernelOrigin::memory);  // the same kernel, asked for by arguments
    first.run(attention());
    CHECK(machine.nvrtc.compiles() == kOfFull + kMerging);
    CHECK(first.prepare(config_of(false, 64)).origin == KernelOrigin::compiled);
    CHECK(machine.nvrtc.compiles() == 2 * kOfFull + kMerging);
  }
  Runtime second(machine.options());
  second.run(attention());
  CHECK(second.prepare(attention()).origin == KernelOrigin::memory);
  CHECK(second.prepare(config_of(false, 64)).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == 2 * kOfFull + kMerging);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
  CHECK(machine.warnings.empty());
}

TEST_CASE("warm needs no device and fills the disk for others") {
  Machine machine;
  machine.cuda.set_devices(0);
  {
    Runtime warmer(machine.options());
    CHECK(warmer.warm(config_of(), "sm_90a").origin == KernelOrigin::compiled);
    CHECK(warmer.warm(config_of(), "sm_90a").origin == KernelOrigin::disk);
  }
  CHECK(std::string(machine.cuda.log()) == "");
  machine.cuda.set_devices(1);
  CHECK(Runtime(machine.options()).prepare(config_of()).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == kOfFull + kMerging);
}

TEST_CASE("a report describes the kernel, wherever it came from") {
  Machine machine;
  const auto check = [](const KernelReport& report) {
    CHECK(report.name == "fmha_f16_d128");
    CHECK(report.target == "sm_90a");
    CHECK(report.registers == 168);
    CHECK(report.source_path == "");
    const auto json = nlohmann::json::parse(report.schedule_json);
    for (const char* key : {"ii", "length", "res_mii", "rec_mii", "solve_ms"})
      CHECK_MESSAGE(json.at(key).is_number(), key);
    for (const char* key : {"proven_ii", "proven_length"}) CHECK_MESSAGE(json.at(key).is_boolean(), key);
    CHECK(json.at("certificate").is_string());
    REQUIRE(json.at("rings").size() >= 2);
    REQUIRE(json.at("nodes").size() >= 4);
    for (const auto& node : json.at("nodes")) {
      CHECK(node.at("name").is_string());
      CHECK(node.at("role").is_string());
      CHECK(node.at("cycle").is_number_integer());
      CHECK(node.at("stage").is_number_integer());
    }
  };
  Runtime first(machine.options());
  const KernelReport compiled = first.prepare(attention());
  check(compiled);
  CHECK(compiled.compile_ms > 0);
  const KernelReport again = first.prepare(attention());
  check(again);
  CHECK(again.schedule_ms + again.codegen_ms + again.compile_ms + again.load_ms == 0);
  Runtime second(machine.options());
  const KernelReport loaded = second.prepare(attention());
  check(loaded);
  CHECK(loaded.schedule_ms + loaded.codegen_ms + loaded.compile_ms == 0);
  CHECK(loaded.load_ms > 0);
}

TEST_CASE("without a disk each kernel of a runtime is still compiled once") {
  Machine machine;
  tj::Options options = machine.options();
  options.use_disk_cache = false;
  {
    Runtime first(options);
    CHECK(first.warm(config_of(), "sm_90a").origin == KernelOrigin::compiled);
    CHECK(first.warm(config_of(), "sm_90a").origin == KernelOrigin::memory);
    CHECK(first.prepare(config_of()).origin == KernelOrigin::memory);
    first.run(attention());
    CHECK(machine.nvrtc.compiles() == kOfFull + kMerging);
  }
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
  CHECK(Runtime(options).prepare(attention()).origin == KernelOrigin::compiled);
  CHECK(machine.nvrtc.compiles() == kOfFull + kMerging + 1);
  CHECK(machine.warnings.empty());  // it was asked for
}

TEST_CASE("a kernel is compiled once for all devices, on disk or not") {
  Machine machine;
  machine.cuda.set_devices(2);
  for (const bool disk : {true, false}) {
    CAPTURE(disk);
    machine.nvrtc.reset();
    tj::Options options = machine.options();
    options.use_disk_cache = disk;
    Runtime runtime(options);
    runtime.prepare(config_of(), {tj::DeviceKind::cuda, 0});
    CHECK(runtime.prepare(config_of(), {tj::DeviceKind::cuda, 1}).origin ==
          (disk ? KernelOrigin::disk : KernelOrigin::memory));
    CHECK(machine.nvrtc.compiles() == kOfFull + kMerging);
  }
}

TEST_CASE("an unwritable cache costs compiles and one warning") {
  Machine machine;
  write_bytes(machine.scratch / "file", "in the way");
  tj::Options options = machine.options();
  options.cache_dir = machine.scratch / "file/cache";
  Runtime runtime(options);
  runtime.run(attention());
  runtime.run(attention({2, 4, 2, 300, 500, 64}));
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::memory);
  CHECK(machine.nvrtc.compiles() == 2);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
  REQUIRE(machine.warnings.size() == 1);
  CHECK_MESSAGE(has(machine.warnings[0], "file/cache"), machine.warnings[0]);
  CHECK(has(machine.warnings[0], "memory only"));
}

TEST_CASE("a damaged entry is said once, compiled again and replaced") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  const std::string entry = only_entry(machine.cache_dir());
  const std::string good = read_bytes(entry);
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  write_bytes(entry, bad);
  Runtime second(machine.options());
  second.run(attention());
  CHECK(machine.nvrtc.compiles() == 2);
  REQUIRE(machine.warnings.size() == 1);
  CHECK_MESSAGE(has(machine.warnings[0], entry), machine.warnings[0]);
  CHECK(has(machine.warnings[0], "compiled again"));
  CHECK(read_bytes(entry) != bad);
  CHECK(Runtime(machine.options()).prepare(attention()).origin == KernelOrigin::disk);
}

TEST_CASE("an entry that the driver refuses is said once, compiled again and replaced") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  constexpr int kInvalidImage = 200;
  machine.cuda.reset();
  machine.cuda.fail("cuModuleLoadData", 1, kInvalidImage);
  Runtime second(machine.options());
  second.run(attention());
  CHECK(machine.nvrtc.compiles() == 2);
  REQUIRE(machine.warnings.size() == 1);
  CHECK_MESSAGE(has(machine.warnings[0], "is made anew: cuModuleLoadData failed"), machine.warnings[0]);
  CHECK(Runtime(machine.options()).prepare(attention()).origin == KernelOrigin::disk);
}

using Fields = decltype(tj::cache::Entry::metadata);

/// Changes the fields of the only entry, whose checksum is right again.
void change_entry(const Machine& machine, const std::function<void(Fields&)>& change) {
  const std::string file = std::filesystem::path(only_entry(machine.cache_dir())).stem();
  const tj::cache::Key key{file.substr(0, file.find('-')), file.substr(file.find('-') + 1)};
  tj::cache::Store store(machine.cache_dir(), 0, {});
  auto entry = store.load(key);
  REQUIRE(entry);
  const Fields before = entry->metadata;
  change(entry->metadata);
  REQUIRE(entry->metadata != before);
  REQUIRE(store.store(key, *entry));
}

std::function<void(Fields&)> with(const char* name, const char* value) {
  return [=](Fields& fields) {
    std::erase_if(fields, [&](const auto& field) { return field.first == name; });
    fields.emplace_back(name, value);
  };
}

TEST_CASE("a whole entry with other fields than its kernel has is said once, compiled again and replaced") {
  const auto without = [](const char* name) {
    return [name](Fields& fields) { std::erase_if(fields, [&](const auto& field) { return field.first == name; }); };
  };
  const std::pair<const char*, std::function<void(Fields&)>> changes[] = {
      {"no entry point", without("symbol")},
      {"no number of threads", without("threads")},
      {"threads beyond their type", with("threads", "4294967296")},
      {"no threads", with("threads", "0")},
      {"more threads than a block can have", with("threads", "1025")},
      {"less shared memory than none", with("smem_bytes", "-1")},
      {"more shared memory than the arch gives a block", with("smem_bytes", "232449")},
      {"threads that are no whole warps", with("threads", "100")},
      {"blocks that wait for each other more than they can", with("across_blocks", "2")},
      {"counters of more warps than a block has", with("block_counters", "33")},
      {"sums larger than any", with("piece_bytes", "16777217")},
      {"the name of another kernel", with("name", "fmha_f16_d64_full")},
      {"the target of another kernel", with("target", "sm_80")},
      {"no cluster", with("cluster", "0")},
      {"no blocks on an SM", with("blocks_per_sm", "0")},
      {"less registers than none", with("registers", "-1")},
      {"a geometry without block_n", without("geometry.block_n")},
      {"a geometry without block_rows", without("geometry.block_rows")},
      {"a geometry with a name that attention has not", with("geometry.heads", "1")},
      {"a number beyond its member", with("geometry.block_n", "4294967296")},
      {"a truth that is neither", with("geometry.walks", "2")},
      {"no number", with("geometry.block_n", "128x")}};
  for (const auto& [what, change] : changes) {
    const std::string said = what;  // clang 14 captures no binding
    CAPTURE(said);
    Machine machine;
    Runtime(machine.options()).prepare(attention());
    change_entry(machine, change);
    Runtime second(machine.options());
    second.run(attention());
    CHECK(machine.nvrtc.compiles() == 2);
    CHECK(machine.warnings.size() == 1);
    CHECK(Runtime(machine.options()).prepare(attention()).origin == KernelOrigin::disk);
  }
}

TEST_CASE("a number of an entry that no kernel has is refused by its name, its value and what is allowed") {
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  const auto product = [&](Runtime& runtime) { return runtime.prepare(tj::GemmConfig{}, gpu); };
  const auto fmha = [&](Runtime& runtime) { return runtime.prepare(attention()); };
  const auto chunks = [&](Runtime& runtime) { return runtime.prepare(tj::ChunkOConfig{}, gpu); };
  struct Forged {
    std::function<KernelReport(Runtime&)> prepare;
    const char *name, *value, *said;
  };
  const Forged cases[] = {
      {product, "geometry.tile", "77", "its geometry.tile is '77', which such a kernel has not"},
      {product, "geometry.store", "3", "its geometry.store is '3'; allowed: 0 to 2"},
      {product, "geometry.store", "-1", "its geometry.store is '-1'; allowed: 0 to 2"},
      {product, "geometry.walks", "2", "its geometry.walks is '2'; allowed: 0 to 1"},
      {fmha, "geometry.block_n", "0", "its geometry.block_n is '0'; allowed: 1 to "},
      {chunks, "geometry.heads", "0", "its geometry.heads is '0'; allowed: 1 to "},
      {chunks, "threads", "many", "its field 'threads' is 'many'; allowed: multiples of 32, 32 to 1024"}};
  for (const Forged& forged : cases) {
    CAPTURE(forged.name);
    Machine machine;
    Runtime first(machine.options());
    CHECK(forged.prepare(first).origin == KernelOrigin::compiled);
    change_entry(machine, with(forged.name, forged.value));
    Runtime second(machine.options());
    CHECK(forged.prepare(second).origin == KernelOrigin::compiled);
    REQUIRE(machine.warnings.size() == 1);
    CHECK_MESSAGE(has(machine.warnings[0], "is made anew: "), machine.warnings[0]);
    CHECK_MESSAGE(has(machine.warnings[0], forged.said), machine.warnings[0]);
    Runtime third(machine.options());
    CHECK(forged.prepare(third).origin == KernelOrigin::disk);
  }
}

}  // namespace
