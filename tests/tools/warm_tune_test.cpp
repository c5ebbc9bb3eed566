// Protects tj-warm --tune on a machine of fakes: its output, the records that it keeps, and that --list shows them. Bad
// use and machines without a GPU are refused in words.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <sstream>

#include "fakes/fake_hip.hpp"
#include "ops/gemm/params.cuh"
#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm.hpp"

namespace {

using tj::test::run_warm;
using tj::test::ToolRun;

using namespace tj::test;

/// Fewer blocks are faster.
struct TuneMachine : Machine {
  TuneMachine() {
    cuda.set_param_bytes(0);  // kernels of several kinds
    cuda.set_block_ms(0.001);
  }
  ToolRun tune(std::vector<std::string> words) {
    const std::vector<std::string> common = {"--tune", "--cache-dir", cache_dir()};
    words.insert(words.begin(), common.begin(), common.end());
    return run_warm(words);
  }
  void refused(const std::vector<std::string>& words, const std::string& part) {
    const ToolRun result = tune(words);
    CHECK_MESSAGE(result.code == tj::tools::kExitBadUse, result.err);
    CHECK_MESSAGE(has(result.err, part), part, " is not in: ", result.err);
    CHECK(result.out.empty());
    CHECK_FALSE(std::filesystem::exists(cache_dir()));
  }
};

TEST_CASE("the table shows predicted and measured times of every kernel, and the cache has the choice") {
  TuneMachine machine;
  const ToolRun result = machine.tune(
      {"--op", "gemm", "--m", "1024", "--n", "1024", "--k", "1024", "--dtype", "f16", "--tune-rounds", "2"});
  CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  for (const char* part : {"gemm_f16_kk 1024x1024x1024", "predicted us", "measured us", "chosen",
                           "1 problems on Fake H200: 1 with another kernel than predicted, 0 failed", "seed "})
    CHECK_MESSAGE(has(result.out, part), std::string(part), " is not in: ", result.out);
  const std::string row = result.out.substr(result.out.find("  152x256x64s "));
  CHECK(has(row.substr(0, row.find('\n')), "chosen"));

  const ToolRun listed = run_warm({"--list", "--cache-dir", machine.cache_dir()});
  CHECK(has(listed.out, "gemm_f16_kk 1024x1024x1024 on Fake H200: 152x256x64s"));
  CHECK(has(listed.out, "1 measured choices"));
  const auto json = nlohmann::json::parse(run_warm({"--list", "--json", "--cache-dir", machine.cache_dir()}).out);
  CHECK(json["tuned"] == 1);
  CHECK(json["kernels"].get<int>() + 1 == static_cast<int>(json["entries"].size()));
  for (const auto& entry : json["entries"]) {
    const bool tuned = entry["name"] == "gemm_f16_kk 1024x1024x1024";
    CHECK_MESSAGE((tuned ? entry.value("choice", "") == "152x256x64s" && entry.value("device", "") == "Fake H200"
                         : !entry.contains("choice") && !entry.contains("device")),
                  entry.dump());
  }
  CHECK(run_warm({"--verify", "--cache-dir", machine.cache_dir()}).code == tj::tools::kExitOk);
}

TEST_CASE("several problems, as JSON and nothing else") {
  TuneMachine machine;
  const ToolRun result = machine.tune(
      {"--sizes", "1024,64x512x256", "--dtype", "f16,bf16", "--tune-limit", "3", "--tune-rounds", "1", "--json"});
  CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["device"] == "Fake H200");
  CHECK(json["rounds"] == 1);
  REQUIRE(json["problems"].size() == 4);
  for (const auto& problem : json["problems"]) {
    CHECK(problem["ok"] == true);
    CHECK(problem["kernels"].size() == 3);
    CHECK(problem["gain"].get<double>() >= 1);
    for (const auto& kernel : problem["kernels"]) CHECK(kernel["measured_us"].get<double>() > 0);
  }
}

TEST_CASE(
    "a Blackwell's tiles in tensor memory are timed where that is asked for, and calls there take what was measured") {
  for (const bool named : {true, false}) {
    TuneMachine machine;
    machine.cuda.set_capability(10, 0);
    if (!named) ::setenv("TJ_TARGET", "sm_100a", 1);
    std::vector<std::string> words = {"--sizes", "1024",          "--dtype", "f16",   "--tune-limit",
                                      "6",       "--tune-rounds", "1",       "--json"};
    if (named) words.insert(words.end(), {"--target", "sm_100a"});
    const ToolRun result = machine.tune(words);
    ::unsetenv("TJ_TARGET");
    CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
    const auto json = nlohmann::json::parse(result.out);
    REQUIRE(json["problems"].size() == 1);
    CHECK(json["problems"][0]["kernels"].size() == 6);
    tj::Options options = machine.options();
    options.target = "sm_100a";
    tj::GemmConfig config;
    config.m = config.n = config.k = 1024;
    const tj::KernelReport report = tj::Runtime(options).prepare(config, {tj::DeviceKind::cuda, 0});
    CHECK(has(report.schedule_json, "TMEM"));
    CHECK(report.origin == tj::KernelOrigin::disk);
    CHECK_MESSAGE(has(run_warm({"--list", "--cache-dir", machine.cache_dir()}).out,
                      "gemm_f16_kk 1024x1024x1024 on Fake H200: " + report.name.substr(report.name.rfind('_') + 1)),
                  report.name);
  }
}

TEST_CASE("a kernel that is named is the one that is kept; a problem that it does not serve is a failure") {
  TuneMachine machine;
  const ToolRun result =
      machine.tune({"--sizes", "1024,1000", "--dtype", "f16", "--tune-only", "64x64x128", "--tune-rounds", "1"});
  CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  CHECK_MESSAGE(has(result.out, "2 problems on Fake H200: 2 with another kernel than predicted"), result.out);
  CHECK(has(run_warm({"--list", "--cache-dir", machine.cache_dir()}).out,
            "gemm_f16_kk 1000x1000x1000 on Fake H200: 64x64x128"));
  const ToolRun other = machine.tune(
      {"--sizes", "16x64x64,17x64x64", "--dtype", "f16", "--tune-only", "16x32x128", "--tune-rounds", "1"});
  CHECK(other.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(other.err, "'16x32x128' does not serve gemm_f16_kk 17x64x64"), other.err);
  CHECK(has(run_warm({"--list", "--cache-dir", machine.cache_dir()}).out,
            "gemm_f16_kk 16x64x64 on Fake H200: 16x32x128"));
}

TEST_CASE("kernels of chunk output are made ahead for a data-center Blackwell's usual target") {
  TuneMachine machine;
  machine.cuda.set_capability(10, 0);
  const ToolRun result = machine.tune({"--tokens", "64", "--v-heads", "2", "--tune-rounds", "1"});
  CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  CHECK_MESSAGE(has(result.out, "/2] chunk_o_r2_h1 sm_100: compiled"), result.out);
}

TEST_CASE("bad use is refused before anything is made") {
  TuneMachine machine;
  machine.refused(
      {"--op", "copy_rows"},
      "--op is 'copy_rows', which has one kernel for each problem; allowed with --tune: fmha, gemm, chunk_o");
  machine.refused({"--op", "gemm"}, "--m is missing");
  machine.refused({}, "--tune measures for sizes, and none are given; allowed: --seq-q (fmha), --m (gemm), --n (gemm)");
  machine.refused({"--dtype", "f16"}, "none are given");
  machine.refused({"--tokens", "64", "--heads", "0"}, "heads");
  machine.refused({"--m", "64", "--n", "64", "--k", "0"}, "k is 0");
  machine.refused({"--m", "64", "--n", "64", "--k", "64", "--head-dim", "64"}, "--head-dim means nothing to gemm");
  machine.refused({"--sizes", "64", "--tile", "128x256x64"}, "--tile is given; it is what is measured");
  machine.refused(
      {"--sizes", "64", "--target", "model:sm_90a"},
      "--target is 'model:sm_90a'; allowed with --tune: one that this machine's first GPU runs, such as sm_90a");
  machine.refused({"--sizes", "64", "--target", "sm_90a,sm_90"},
                  "--target is 'sm_90'; allowed with --tune: one that this machine's first GPU runs, such as sm_90a");
  machine.refused({"--sizes", "64", "--target", "sm_100a"}, "target 'sm_100a' does not run on cuda:0 (sm_90a)");
  machine.refused({"--sizes", "64", "--tune-limit", "0"}, "0");
  machine.refused({"--list"}, "--tune");
  CHECK(run_warm({"--tune-limit", "3", "--cache-dir", machine.cache_dir()}).code == tj::tools::kExitBadUse);
}

TEST_CASE("a target of AMD's without such a GPU, or beside one of NVIDIA's, is refused by name") {
  TuneMachine machine;
  FakeHip hip;
  hip.set_devices(0);
  const ToolRun none = machine.tune({"--sizes", "64", "--target", "gfx1100"});
  CHECK(none.code != tj::tools::kExitOk);
  CHECK_MESSAGE(has(none.err, "--tune measures on a GPU: no driver for hip:0"), none.err);
  CHECK_FALSE_MESSAGE(has(none.err, "TJ_TARGET=model"), none.err);
  machine.refused({"--sizes", "64", "--target", "sm_90a", "--target", "model:gfx942"},
                  "--target is 'model:gfx942'; allowed with --tune: one that this machine's first GPU runs, such as "
                  "sm_90a");
}

TEST_CASE("without a GPU, or on the model, it says that it needs one") {
  TuneMachine machine;
  ::setenv("TJ_TARGET", "model:sm_90a", 1);
  machine.refused({"--sizes", "64"}, "--tune measures on a GPU: target 'model:sm_90a' runs on the cpu");
  ::unsetenv("TJ_TARGET");
  machine.cuda.set_devices(0);
  machine.refused({"--sizes", "64"}, "--tune measures on a GPU: no driver for cuda:0: the NVIDIA driver at ");
  const ToolRun none = machine.tune({"--sizes", "64"});
  CHECK_MESSAGE(has(none.err, "cuDeviceGetCount failed with "), none.err);
  CHECK_FALSE_MESSAGE(has(none.err, "TJ_TARGET"), none.err);  // advice to calls: the model measures nothing
}

TEST_CASE("choices and chosen kernels that the cache's bound has removed at the end are failures that say so") {
  TuneMachine machine;
  const tj::testing::Variable bound("TJ_CACHE_MAX_SIZE", "50K");
  const std::vector<std::string> words = {"--sizes", "1024,1000,512", "--dtype", "f16", "--tune-limit",
                                          "3",       "--tune-rounds", "1"};
  const ToolRun result = machine.tune(words);
  CHECK_MESSAGE(result.code == tj::tools::kExitFailures, result.out);
  const std::string why = "and then removed from the cache at '" + machine.cache_dir() +
                          "', to stay within its bound of 51200 bytes; raise TJ_CACHE_MAX_SIZE";
  CHECK_MESSAGE(has(result.err, why), result.err);
  CHECK_MESSAGE(has(result.out, "3 problems on Fake H200"), result.out);
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  std::filesystem::remove_all(machine.cache_dir());
  const ToolRun told = machine.tune(as_json);
  CHECK(told.code == tj::tools::kExitFailures);
  const auto json = nlohmann::json::parse(told.out);
  REQUIRE(json["problems"].size() == 3);
  std::size_t failures = 0;
  for (const auto& problem : json["problems"]) {
    if (problem["ok"] == true) continue;
    ++failures;
    CHECK_MESSAGE(has(problem["error"].get<std::string>(), why), problem.dump());
  }
  CHECK(json["failures"] == failures);
  CHECK(failures >= 2);
}

TEST_CASE("a cache that cannot be written is a failure") {
  TuneMachine machine;
  const ToolRun result = run_warm({"--tune", "--cache-dir", "/proc/none", "--sizes", "64", "--dtype", "f16",
                                   "--tune-limit", "1", "--tune-rounds", "1"});
  CHECK(result.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(result.err,
                    "no choice can be kept in the cache at '/proc/none', so nothing was measured: cannot make it: No "
                    "such file or directory"),
                result.err);
}

}  // namespace
