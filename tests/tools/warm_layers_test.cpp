// Protects tj-warm on caches of several layers: listing and --covers name layers and tell why one is left out; what a
// layer has is not made again.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/runtime_fixture.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;

struct LayeredTools : Machine {
  std::string image = scratch / "image", own = scratch / "own", list = own + ":" + image, file = scratch / "run.tjm";
  LayeredTools() {
    tj::Options options = this->options();
    options.cache_dir = image;
    options.record_file = file;
    tj::Runtime(options).prepare(config_of(true), {tj::DeviceKind::cuda, 0});
  }
};

TEST_CASE("listing shows the layer of each entry, and a line for each layer") {
  const LayeredTools machine;
  const ToolRun run = run_warm({"--list", "--cache-dir", machine.list});
  CHECK(run.code == tj::tools::kExitOk);
  CHECK_MESSAGE(has(run.out, "last use (UTC)        layer\nfmha_f16_d128_causal"), run.out);
  CHECK_MESSAGE(has(run.out, "Z  2\n"), run.out);
  CHECK_MESSAGE(has(run.out, "layer 1: " + machine.own + ", written\nlayer 2: " + machine.image + ", only searched\n"),
                run.out);
  const auto json = nlohmann::json::parse(run_warm({"--list", "--json", "--cache-dir", machine.list}).out);
  CHECK(json["layers"].size() == 2);
  CHECK(json["layers"][0]["written"] == true);
  for (const auto& entry : json["entries"]) CHECK(entry["layer"] == 2);
  const ToolRun one = run_warm({"--list", "--cache-dir", machine.image});
  CHECK_FALSE(has(one.out, "layer"));
}

TEST_CASE("a layer that is left out is named, and listing ends with 1") {
  const LayeredTools machine;
  const std::string none = machine.scratch / "none";
  for (const char* flag : {"--list", "--verify"}) {
    const ToolRun run = run_warm({flag, "--cache-dir", machine.list + ":" + none});
    CHECK(run.code == tj::tools::kExitFailures);
    CHECK_MESSAGE(has(run.out, "layer 3: " + none + ", left out: it does not exist\n"), run.out);
    CHECK_MESSAGE(has(run.err, "layer '" + none + "': it does not exist"), run.err);
  }
}

TEST_CASE("what a layer has is there for --covers, is not made again, and nothing is written for it") {
  LayeredTools machine;
  const ToolRun covered = run_warm({"--covers", machine.file, "--cache-dir", machine.list});
  CHECK_MESSAGE(covered.code == tj::tools::kExitOk, covered.out);
  CHECK_MESSAGE(has(covered.out, "layer 2: " + machine.image + ", only searched\n"), covered.out);
  const int compiled = machine.nvrtc.compiles();
  const ToolRun made = run_warm({"--manifest", machine.file, "--cache-dir", machine.list});
  CHECK_MESSAGE(made.code == tj::tools::kExitOk, made.err);
  CHECK_MESSAGE(has(made.out, " 0 compiled"), made.out);
  CHECK(machine.nvrtc.compiles() == compiled);
  CHECK(tj::testing::names_in(machine.own).empty());
  std::filesystem::remove_all(machine.image);
  const ToolRun missing = run_warm({"--covers", machine.file, "--cache-dir", machine.list});
  CHECK(missing.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(missing.out, "layer 2: " + machine.image + ", left out: it does not exist\n"), missing.out);
  CHECK_MESSAGE(has(missing.out, "missing: line 1: fmha_f16_d128_causal"), missing.out);
  const auto json =
      nlohmann::json::parse(run_warm({"--covers", machine.file, "--json", "--cache-dir", machine.list}).out);
  CHECK(json["layers"][1]["problem"] == "it does not exist");
}

}  // namespace
