// Protects tj-warm --tune where the GPU is one of AMD's, on fakes: kernels are timed, the choice is kept under the
// device's name, and calls there take it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "fakes/fake_cuda.hpp"
#include "fakes/fake_hip.hpp"
#include "fakes/fake_hiprtc.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm.hpp"

namespace {

using namespace tj;
using testing::has;

/// Fewer blocks are faster, on a Radeon that is none.
struct Machine {
  test::FakeCuda cuda;
  test::FakeHip hip;
  test::FakeHiprtc hiprtc;
  testing::Scratch scratch;
  Machine() {
    cuda.set_devices(0);
    hip.set_block_ms(0.001);
  }
  std::string cache_dir() const { return scratch / "cache"; }
  test::ToolRun tune(std::vector<std::string> words) {
    const std::vector<std::string> common = {"--tune",        "--cache-dir", cache_dir(),    "--dtype", "f16",
                                             "--tune-rounds", "1",           "--tune-limit", "6"};
    words.insert(words.begin(), common.begin(), common.end());
    return test::run_warm(words);
  }
};

TEST_CASE("kernels are timed, and calls on such a device take the fastest") {
  Machine machine;
  const test::ToolRun result = machine.tune({"--op", "gemm", "--sizes", "1024", "--json"});
  CHECK_MESSAGE(result.code == tools::kExitOk, result.err);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["device"] == "Fake Radeon");
  REQUIRE(json["problems"].size() == 1);
  const auto& problem = json["problems"][0];
  CHECK(problem["ok"] == true);
  CHECK(problem["kernels"].size() > 1);
  for (const auto& kernel : problem["kernels"]) CHECK(kernel["measured_us"].get<double>() > 0);

  Options options;
  options.cache_dir = machine.cache_dir();
  options.target = "";
  options.log_level = LogLevel::off;
  GemmConfig config;
  config.m = config.n = config.k = 1024;
  const KernelReport report = Runtime(options).prepare(config, {DeviceKind::hip, 0});
  CHECK(report.target == "gfx1100");
  const std::string chosen = problem["chosen"];  // "128x64x64s" shares tiles, "_split" in the kernel's name
  CHECK(chosen != problem["predicted"].get<std::string>());
  CHECK_MESSAGE(has(report.name, chosen.substr(0, chosen.find_last_of("0123456789") + 1)), report.name);
  CHECK(has(test::run_warm({"--list", "--cache-dir", machine.cache_dir()}).out,
            "1024x1024x1024 on Fake Radeon: " + problem["chosen"].get<std::string>()));
}

TEST_CASE("a target that the GPU does not run is refused by name") {
  Machine machine;
  const test::ToolRun other = machine.tune({"--op", "gemm", "--sizes", "64", "--target", "gfx90a"});
  CHECK(other.code == tools::kExitBadUse);
  CHECK_MESSAGE(has(other.err, "target 'gfx90a' does not run on hip:0 (gfx1100)"), other.err);
}

}  // namespace
