// Protects tj-warm on packs: a cache becomes one file and comes back, signed or not; a runtime takes kernels from it in
// place; keys are files that are never replaced and that others cannot read.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;
using tj::KernelOrigin;
using tj::Runtime;
using tj::testing::read_bytes;
using tj::testing::write_bytes;

constexpr tj::Device kPackedFor{tj::DeviceKind::cuda, 0};

struct PackedTools : Machine {
  std::string pack = scratch / "model.tjp", secret = scratch / "secret.key", own = scratch / "own";
  PackedTools() { Runtime(options()).prepare(config_of(true), kPackedFor); }

  ToolRun packed(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--pack", pack, "--cache-dir", cache_dir()};
    words.insert(words.end(), more.begin(), more.end());
    return run_warm(words);
  }
};

TEST_CASE("a pack of the cache serves a runtime in place, and is listed and covered as a layer") {
  PackedTools machine;
  const ToolRun run = machine.packed();
  CHECK_MESSAGE(run.code == tj::tools::kExitOk, run.err);
  CHECK_MESSAGE(has(run.out, " entries, "), run.out);
  CHECK_MESSAGE(has(run.out, " bytes in " + machine.pack + "\n"), run.out);
  const int compiled = machine.nvrtc.compiles();
  tj::Options options = machine.options();
  options.cache_dir = machine.own + ":" + machine.pack;
  options.on_miss = tj::MissPolicy::error;
  Runtime runtime(options);
  CHECK(runtime.prepare(config_of(true), kPackedFor).origin == KernelOrigin::disk);
  CHECK(runtime.counters().layers[1].hits >= 1);
  CHECK(machine.nvrtc.compiles() == compiled);
  CHECK(machine.warnings.empty());
  const ToolRun listed = run_warm({"--list", "--cache-dir", machine.own + ":" + machine.pack});
  CHECK(listed.code == tj::tools::kExitOk);
  CHECK_MESSAGE(has(listed.out, "layer 2: " + machine.pack + ", a pack\n"), listed.out);
  CHECK_MESSAGE(has(listed.out, "fmha_f16_d128_causal"), listed.out);
  const auto json =
      nlohmann::json::parse(run_warm({"--list", "--json", "--cache-dir", machine.own + ":" + machine.pack}).out);
  CHECK(json["layers"][1]["pack"] == true);
  const ToolRun verified = run_warm({"--verify", "--cache-dir", machine.pack});
  CHECK_MESSAGE(verified.code == tj::tools::kExitOk, verified.out);
}

TEST_CASE(
    "a pack of another compiler covers what it has, and nothing of it is made again, unless the own one is insisted "
    "on") {
  PackedTools machine;
  const std::string lines = machine.scratch / "run.tjm", both = machine.own + ":" + machine.pack;
  tj::Options options = machine.options();
  options.record_file = lines;
  Runtime(options).prepare(config_of(true), kPackedFor);
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  const FakeNvrtc other;
  const ToolRun covered = run_warm({"--covers", lines, "--cache-dir", both});
  CHECK_MESSAGE(covered.code == tj::tools::kExitOk, covered.out);
  const ToolRun made = run_warm({"--manifest", lines, "--cache-dir", both});
  CHECK_MESSAGE(made.code == tj::tools::kExitOk, made.err);
  CHECK_MESSAGE(has(made.out, " 0 compiled, "), made.out);
  CHECK(other.compiles() == 0);
  const tj::testing::Variable insisted("TJ_PACK_COMPILER", "own");
  const ToolRun missing = run_warm({"--covers", lines, "--cache-dir", both});
  CHECK(missing.code == tj::tools::kExitFailures);
  // Kernels of one call are recorded in the order in which threads find them.
  const bool first = has(missing.out, "missing: line 1: fmha_f16_d128_causal");
  CHECK_MESSAGE((first || has(missing.out, "missing: line 2: fmha_f16_d128_causal")), missing.out);
  CHECK(run_warm({"--manifest", lines, "--cache-dir", both}).code == tj::tools::kExitOk);
  CHECK(other.compiles() > 0);
  CHECK(run_warm({"--covers", lines, "--cache-dir", both}).code == tj::tools::kExitOk);
}

TEST_CASE(
    "a pack of somebody else's that a key has signed covers and keeps what it has; without the signature it does not") {
  PackedTools machine;
  const std::string lines = machine.scratch / "run.tjm", both = machine.own + ":" + machine.pack;
  tj::Options options = machine.options();
  options.record_file = lines;
  Runtime(options).prepare(config_of(true), kPackedFor);
  REQUIRE(run_warm({"--make-key", machine.secret}).code == tj::tools::kExitOk);
  const tj::testing::Variable keys("TJ_PACK_KEYS", machine.secret + ".pub");
  REQUIRE(machine.packed({"--sign", machine.secret}).code == tj::tools::kExitOk);
  REQUIRE(::chmod(machine.pack.c_str(), 0666) == 0);  // which a key alone makes up for
  CHECK_MESSAGE(run_warm({"--covers", lines, "--cache-dir", both}).code == tj::tools::kExitOk,
                run_warm({"--covers", lines, "--cache-dir", both}).out);
  const ToolRun made = run_warm({"--manifest", lines, "--cache-dir", both});
  CHECK_MESSAGE(made.code == tj::tools::kExitOk, made.err);
  CHECK_MESSAGE(has(made.out, " 0 compiled, "), made.out);
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  CHECK(run_warm({"--covers", lines, "--cache-dir", both}).code == tj::tools::kExitFailures);
}

TEST_CASE("a pack comes back as entries, once") {
  PackedTools machine;
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  const ToolRun run = run_warm({"--unpack", machine.pack, "--cache-dir", machine.own});
  CHECK_MESSAGE(run.code == tj::tools::kExitOk, run.err);
  CHECK_MESSAGE(has(run.out, " 0 already in the cache, 0 failed; cache " + machine.own), run.out);
  CHECK_MESSAGE(!has(run.out, "serve nothing"), run.out);
  const auto again =
      nlohmann::json::parse(run_warm({"--unpack", machine.pack, "--cache-dir", machine.own, "--json"}).out);
  CHECK(again["written"] == 0);
  CHECK(again["there"] >= 1);
  const ToolRun onto_itself = run_warm({"--unpack", machine.pack, "--cache-dir", machine.pack});
  CHECK(onto_itself.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(onto_itself.err, "it is a pack, which is only read"), onto_itself.err);
}

TEST_CASE("kernels of another compiler that come back are told of, as they serve nothing in a folder") {
  PackedTools machine;
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  const FakeNvrtc other;
  for (const char* written : {"written", "already there"}) {
    CAPTURE(written);
    const ToolRun run = run_warm({"--unpack", machine.pack, "--cache-dir", machine.own});
    CHECK_MESSAGE(run.code == tj::tools::kExitOk, run.err);
    CHECK_MESSAGE(
        has(run.out, " kernels serve nothing in a folder here, as another compiler made them than the one here"),
        run.out);
  }
  const auto json =
      nlohmann::json::parse(run_warm({"--unpack", machine.pack, "--cache-dir", machine.own, "--json"}).out);
  std::size_t kernels = 0;
  for (const auto& item : tj::cache::Store(machine.own, 0, {}).list()) kernels += item.alias ? 0 : 1;
  CHECK(json["of_other_compilers"] == kernels);
}

TEST_CASE("both halves of a key are written, or none") {
  const tj::testing::Scratch scratch;
  const std::string secret = scratch / "key";
  tj::testing::write_bytes(secret + ".pub", "somebody's");
  const ToolRun refused = run_warm({"--make-key", secret});
  CHECK(refused.code == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(refused.err, "key.pub': it is there already"), refused.err);
  CHECK(tj::testing::names_in(scratch.path()) == std::vector<std::string>{"key.pub"});
}

TEST_CASE("what is no file is no pack, and a cache without a folder is none") {
  const tj::testing::Scratch scratch;
  for (const std::string& path : {scratch.path(), std::string("/dev/null")}) {
    const ToolRun run = run_warm({"--unpack", path, "--cache-dir", scratch / "cache"});
    CHECK(run.code == tj::tools::kExitBadUse);
    CHECK_MESSAGE(has(run.err, "it is no pack, as it is no file"), run.err);
  }
  const ToolRun run = run_warm({"--list", "--cache-dir", "::"});
  CHECK(run.code == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(run.err, "is '::'; allowed: a folder, or several"), run.err);
}

TEST_CASE("an entry of a pack that cannot be kept is named with the reason") {
  PackedTools machine;
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  const tj::testing::Variable bound("TJ_CACHE_MAX_SIZE", "10");
  const ToolRun run = run_warm({"--unpack", machine.pack, "--cache-dir", machine.scratch / "other"});
  CHECK(run.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(run.err, "it could not be kept: an entry of "), run.err);
}

TEST_CASE("entries that come back and then go, as the cache has a bound, are failures that say so") {
  PackedTools machine;
  for (const bool causal : {false, true}) Runtime(machine.options()).prepare(config_of(causal), kPackedFor);
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  std::uintmax_t largest = 0;
  for (const auto& file : std::filesystem::directory_iterator(machine.cache_dir()))
    largest = std::max(largest, file.file_size());
  const tj::testing::Variable bound("TJ_CACHE_MAX_SIZE", std::to_string(largest));
  const std::vector<std::string> words = {"--unpack", machine.pack, "--cache-dir", machine.own};
  const ToolRun run = run_warm(words);
  CHECK(run.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(run.err, ": it was written and then removed from the cache at '" + machine.own +
                                 "', to stay within its bound of " + std::to_string(largest) + " bytes"),
                run.err);
  std::filesystem::remove_all(machine.own);
  const ToolRun told = run_warm({"--unpack", machine.pack, "--cache-dir", machine.own, "--json"});
  CHECK(told.code == tj::tools::kExitFailures);
  const auto json = nlohmann::json::parse(told.out);
  CHECK(json["written"].get<std::size_t>() == tj::cache::Store(machine.own, 0, {}).list().size());
  CHECK(json["failed"].size() >= 1);
}

TEST_CASE("a key signs a pack, and with its public half others are left out") {
  PackedTools machine;
  const ToolRun made = run_warm({"--make-key", machine.secret});
  REQUIRE_MESSAGE(made.code == tj::tools::kExitOk, made.err);
  struct stat status{};
  REQUIRE(::stat(machine.secret.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const std::string key = read_bytes(machine.secret);
  const ToolRun twice = run_warm({"--make-key", machine.secret});
  CHECK(twice.code == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(twice.err, "keys are not replaced"), twice.err);
  CHECK(read_bytes(machine.secret) == key);
  tj::Options options = machine.options();
  options.cache_dir = machine.own + ":" + machine.pack;
  options.pack_keys = machine.secret + ".pub";
  options.on_miss = tj::MissPolicy::error;
  REQUIRE(machine.packed().code == tj::tools::kExitOk);
  CHECK(error_of([&] { Runtime(options).run(attention({}, true)); }).code == tj::Code::not_in_cache);
  REQUIRE(machine.warnings.size() == 1);
  CHECK_MESSAGE(has(machine.warnings[0], "it is not signed (TJ_PACK_KEYS is '"), machine.warnings[0]);
  const ToolRun signed_now = machine.packed({"--sign", machine.secret});
  CHECK_MESSAGE(has(signed_now.out, ", signed by the key "), signed_now.out);
  CHECK(has(
      made.out,
      nlohmann::json::parse(machine.packed({"--sign", machine.secret, "--json"}).out)["signed_by"].get<std::string>()));
  Runtime(options).run(attention({}, true));
}

TEST_CASE("what is wrong with keys and files is refused by the flag") {
  PackedTools machine;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& part) {
    const ToolRun run = run_warm(words);
    CHECK(run.code == tj::tools::kExitBadUse);
    CHECK_MESSAGE(has(run.err, part), run.err);
  };
  refused({"--pack", machine.scratch / "none/x", "--cache-dir", machine.cache_dir()}, "--pack is '");
  refused({"--pack", machine.pack, "--sign", machine.secret}, "No such file or directory");
  write_bytes(machine.secret, "no key");
  REQUIRE(::chmod(machine.secret.c_str(), 0600) == 0);
  refused({"--pack", machine.pack, "--sign", machine.secret}, "tj-warm --make-key makes one");
  REQUIRE(::chmod(machine.secret.c_str(), 0640) == 0);
  refused({"--pack", machine.pack, "--sign", machine.secret}, "others can read or write it; run chmod 600");
  refused({"--unpack", machine.secret, "--cache-dir", machine.own}, "it is no pack of kernels, or is cut short");
  refused({"--sign", machine.secret}, "--pack");
  refused({"--pack", machine.pack, "--op", "fmha"}, "--op is given with --pack");
}

}  // namespace
