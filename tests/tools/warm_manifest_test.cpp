// Protects tj-warm --manifest and --covers: what a run recorded is made in an empty cache, and then it is all there.
// What is missing, damaged or chosen otherwise is listed. A bad file changes nothing. Users' own kernels are found by
// their key.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "custom/sample_kernel.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;
using tj::Runtime;

/// A machine where a run has recorded attention, a measured product and a kernel of the user's own.
struct Recorded : Machine {
  SampleKernel sample;
  std::string file = scratch / "run.tjm", elsewhere = scratch / "elsewhere";

  Recorded() {
    cuda.set_param_bytes(0);
    cuda.set_block_ms(0.001);
    tj::Options options = this->options();
    options.record_file = file;
    Runtime runtime(options);
    runtime.prepare(config_of(true), {tj::DeviceKind::cuda, 0});
    tj::custom::Kernel(runtime, sample.description).warm("sm_90a");
    tj::TuneOptions how;
    how.rounds = 1;
    how.limit = 2;
    REQUIRE(runtime.tune(square_product(1024), how).kept);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream text(tj::testing::read_bytes(file));
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
  std::string line_with(const std::string& part) const {
    for (const std::string& line : lines())
      if (has(line, part)) return line;
    FAIL(part);
    return {};
  }
  void write(const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    tj::testing::write_bytes(file, text);
  }
  ToolRun covers(const std::string& dir, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--covers", file, "--cache-dir", dir});
    return run_warm(more);
  }
  ToolRun make(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--manifest", file, "--cache-dir", elsewhere});
    return run_warm(more);
  }
};

TEST_CASE("what a run recorded is made in an empty cache, and then all of it is there") {
  const Recorded run;
  const std::size_t count = run.lines().size();
  CHECK(count >= 5);  // attention's two or more, the user's own, two tiles, the choice
  CHECK(run.covers(run.cache_dir()).code == tj::tools::kExitOk);

  const ToolRun before = run.covers(run.elsewhere);
  CHECK(before.code == tj::tools::kExitFailures);
  CHECK(static_cast<std::size_t>(std::count(before.out.begin(), before.out.end(), '\n')) == count + 1);
  CHECK_MESSAGE(has(before.out, "missing: line 1: fmha_f16_d128_causal"), before.out);
  CHECK_MESSAGE(has(before.out, " for sm_90a\nmissing: line "), before.out);
  CHECK_MESSAGE(
      has(before.out, "missing: line " + std::to_string(count) + ": gemm_f16_kk 1024x1024x1024 on Fake H200: "),
      before.out);
  CHECK_FALSE(std::filesystem::exists(run.elsewhere));

  const ToolRun made = run.make({"--jobs", "2"});
  CHECK_MESSAGE(made.code == tj::tools::kExitOk, made.err);
  CHECK_MESSAGE(has(made.err, "left out, as only their program can make them: gemm_gelu for sm_90a\n"), made.err);
  CHECK_MESSAGE(has(made.out, "1 measured choices: 1 written, 0 already in the cache, 0 failed\n"), made.out);
  CHECK_MESSAGE(has(made.out, std::to_string(count - 2) + " kernels: " + std::to_string(count - 2) + " compiled"),
                made.out);

  const ToolRun after = run.covers(run.elsewhere);
  CHECK(after.code == tj::tools::kExitFailures);  // the user's own
  CHECK_MESSAGE(has(after.out, std::to_string(count - 1) + " there, 1 missing"), after.out);
  {
    tj::Options options;
    options.cache_dir = run.elsewhere;
    Runtime program(options);
    tj::custom::Kernel(program, run.sample.description).warm("sm_90a");
  }
  CHECK_MESSAGE(run.covers(run.elsewhere).code == tj::tools::kExitOk, run.covers(run.elsewhere).out);
  const ToolRun again = run.make();
  CHECK(again.err.empty());
  CHECK_MESSAGE(has(again.out, "1 measured choices: 0 written, 1 already in the cache"), again.out);
  CHECK_MESSAGE(has(again.out, " 0 compiled, " + std::to_string(count - 2) + " already in the cache"), again.out);
}

TEST_CASE("the choice that was recorded is taken where the cache that was made from the record is used") {
  Recorded run;
  REQUIRE(run.make().code == tj::tools::kExitOk);
  const int compiled = run.nvrtc.compiles();
  tj::Options options = run.options();
  options.cache_dir = run.elsewhere;
  Runtime runtime(options);
  runtime.run(square_product(1024));
  runtime.run(attention({}, true));
  CHECK(run.nvrtc.compiles() == compiled);
}

TEST_CASE("an entry that is damaged or of another kernel is missing, with the reason; looking changes nothing") {
  const Recorded run;
  REQUIRE(run.covers(run.cache_dir()).code == tj::tools::kExitOk);
  std::string damaged;
  for (const tj::cache::ListedEntry& listed : tj::cache::Store(run.cache_dir(), 0, {}).list())
    if (listed.entry && !listed.alias && *listed.entry->find("name") == "fmha_f16_d128_causal") damaged = listed.path;
  REQUIRE(!damaged.empty());
  std::string bytes = tj::testing::read_bytes(damaged);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  tj::testing::write_bytes(damaged, bytes);
  const auto seen = std::filesystem::last_write_time(run.cache_dir());
  const ToolRun result = run.covers(run.cache_dir(), {"--json"});
  CHECK(result.code == tj::tools::kExitFailures);
  CHECK(result.err.empty());
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["covered"] == false);
  CHECK(json["tuned"] == 1);
  CHECK(json["kernels"].get<std::size_t>() + 1 == run.lines().size());
  REQUIRE(json["missing"].size() == 1);
  CHECK(json["missing"][0]["name"] == "fmha_f16_d128_causal for sm_90a");
  CHECK(json["missing"][0]["problem"] == "checksum does not match");
  CHECK(std::filesystem::last_write_time(run.cache_dir()) == seen);
  CHECK(tj::testing::read_bytes(damaged) == bytes);
  CHECK(run_warm({"--manifest", run.file, "--cache-dir", run.cache_dir()}).code == tj::tools::kExitOk);
  CHECK(run.covers(run.cache_dir()).code == tj::tools::kExitOk);
}

TEST_CASE("a cache that cannot be looked at is told of once, and all is missing") {
  const Recorded run;
  REQUIRE(::chmod(run.cache_dir().c_str(), 0777) == 0);
  const ToolRun result = run.covers(run.cache_dir());
  CHECK(result.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(result.err, "the cache at '" + run.cache_dir() + "' cannot be looked at: others can write it"),
                result.err);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK_FALSE(has(result.out, "others can write it"));
  CHECK_MESSAGE(has(result.out, ": 0 there, " + std::to_string(run.lines().size()) + " missing"), result.out);
  REQUIRE(::chmod(run.cache_dir().c_str(), 0700) == 0);
  CHECK(run.covers(run.cache_dir()).code == tj::tools::kExitOk);
}

TEST_CASE("of two choices for one problem the first is kept, either is enough, and a third one is not") {
  const Recorded run;
  const std::string line = run.line_with("\"tuning\""), choice = line.substr(line.find("\"choice\":"));
  const auto with = [&](const std::string& name) {
    return line.substr(0, line.size() - choice.size()) + "\"choice\":\"" + name + "\"}";
  };
  run.write({with("128x128x64"), with("128x256x64")});
  CHECK_MESSAGE(has(run.make().out, "1 measured choices: 1 written"), run.make().out);
  CHECK(has(run_warm({"--list", "--cache-dir", run.elsewhere}).out, "on Fake H200: 128x128x64"));
  run.write({with("128x256x64"), with("128x128x64")});
  CHECK(run.covers(run.elsewhere).code == tj::tools::kExitOk);
  CHECK(has(run.make().out, "1 measured choices: 0 written, 1 already in the cache"));
  run.write({with("128x256x64")});
  const ToolRun other = run.covers(run.elsewhere);
  CHECK(other.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(other.out, "128x256x64: the cache has the choice 128x128x64\n"), other.out);
  REQUIRE(run.make().code == tj::tools::kExitOk);
  CHECK(run.covers(run.elsewhere).code == tj::tools::kExitOk);
}

TEST_CASE("bad lines are named by their numbers, and nothing is done, whatever the others say") {
  const Recorded run;
  std::vector<std::string> lines = run.lines();
  lines.insert(lines.begin() + 1, R"({"kernel":"fmhb","target":"sm_90a","fields":{}})");
  lines.push_back("{\"kernel\":\"fm");
  run.write(lines);
  for (const ToolRun& result : {run.make(), run.covers(run.cache_dir()), run.make({"--json"})}) {
    CHECK(result.code == tj::tools::kExitBadUse);
    CHECK(result.out.empty());
    CHECK_MESSAGE(has(result.err, "' has 2 bad lines, so nothing was done:\nline 2: its kernel is 'fmhb'"), result.err);
    CHECK_MESSAGE(has(result.err, "\nline " + std::to_string(lines.size()) + ": it is no JSON object, or is cut short"),
                  result.err);
  }
  CHECK_FALSE(std::filesystem::exists(run.elsewhere));
}

TEST_CASE("files that list nothing, and flags that a manifest does not take, are bad use") {
  const Recorded run;
  const auto refused = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.end(), {"--cache-dir", run.elsewhere});
    const ToolRun result = run_warm(words);
    CHECK(result.code == tj::tools::kExitBadUse);
    CHECK_MESSAGE(has(result.err, part), result.err);
    CHECK(result.out.empty());
  };
  refused({"--manifest", run.scratch / "none"}, "--manifest: cannot read '");
  refused({"--covers", run.scratch.path()}, "--covers: cannot read '");
  refused({"--covers", "/dev/null"}, "lists nothing; give a file that a run wrote under TJ_RECORD");
  refused({"--manifest"}, "--manifest");
  refused({"--manifest", run.file, "--op", "fmha"},
          "--op is given with --manifest, which takes --cache-dir, --facts, --jobs");
  refused({"--manifest", run.file, "--dtype", "f16"}, "--dtype is given with --manifest, which takes");
  refused({"--covers", run.file, "--jobs", "2"},
          "--jobs is given with --covers, which takes --cache-dir, --facts and --json");
  refused({"--covers", run.file, "--manifest", run.file}, " are given; give one of them");
  refused({"--covers", run.file, "--list"}, " are given; give one of them");
  refused({"--manifest", run.file, "--tune"}, " are given; give one of them");
}

}  // namespace
