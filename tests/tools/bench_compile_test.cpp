// Protects tj-bench --compile on a machine of fakes: which kernels are made for which targets, each step once a round,
// phases under their names. Neither a missing device nor a refused source goes unsaid.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "arch/fact_file.hpp"
#include "bench_fixture.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj::test;
namespace tools = tj::tools;

/// The words of the table's row for a kernel and its target; none where it has no row.
std::vector<std::string> row_of(const std::string& table, const std::string& kernel, const std::string& target) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (words.size() > 2 && words[0] == kernel && words[1] == target) return words;
  }
  return {};
}

TEST_CASE("each step of making a kernel has its time, for each target") {
  BenchMachine machine;
  const BenchRun result =
      machine.run({"--compile", "--op", "chunk_indices,fmha", "--target", "sm_90a,sm_100a", "--rounds", "3"});
  CHECK_MESSAGE(result.code == tools::kExitOk, result.err);
  CHECK(machine.nvrtc.compiles() == 4 * 3);
  REQUIRE(result.json["kernels"].size() == 4);
  CHECK(result.json["rounds"] == 3);
  CHECK(result.json["opening_ms"].contains("nvrtc"));
  for (const auto& kernel : result.json["kernels"]) {
    CAPTURE(kernel.dump());
    CHECK(kernel["ok"] == true);
    for (const char* step : {"schedule", "source", "compiler"}) CHECK(kernel["ms"][step]["samples"] == 3);
    CHECK(kernel["ms"]["front end"]["median"] == 5);
    CHECK(kernel["ms"]["optimiser"]["median"] == 14);
    CHECK(kernel["ms"]["ptxas"]["median"] == 3);
    const bool here = kernel["target"] == "sm_90a";
    CHECK(kernel["ms"].contains("load") == here);
    CHECK(kernel.contains("not_loaded") == !here);
    if (!here) CHECK(kernel["not_loaded"] == "the device at hand runs sm_90a");
    CHECK(kernel["registers"] == 168);
    const auto row = row_of(result.out, kernel["name"].get<std::string>(), kernel["target"].get<std::string>());
    REQUIRE(row.size() == 10);  // times of three steps, of one's three parts, and of the load
    CHECK(row[9] == "168");
    CHECK((row[8] == "-") == !here);
  }
  for (const char* part :
       {"schedule", "source", "front end", "optimiser", "ptxas", "load", "opening nvrtc", "4 kernels, 3 rounds"})
    CHECK_MESSAGE(has(result.out, part), result.out);
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
}

TEST_CASE("flags name kernels; without them the first of each op is made") {
  BenchMachine machine;
  const BenchRun named = machine.run({"--compile", "--op", "fmha", "--target", "sm_90a", "--dtype", "bf16",
                                      "--head-dim", "64,128", "--causal", "false"});
  REQUIRE_MESSAGE(named.json["kernels"].size() == 4, named.err);
  CHECK(named.json["kernels"][0]["name"] == "fmha_bf16_d64_128x128");
  CHECK(named.json["kernels"][1]["name"] == "fmha_bf16_d64");
  CHECK(named.json["kernels"][3]["name"] == "fmha_bf16_d128");
  const BenchRun all = machine.run({"--compile"});  // the target is the device's
  CHECK(all.json["kernels"].size() == tj::ops::all().size());
}

TEST_CASE("an op that a target does not serve is left out in words, and a use when nothing is left") {
  BenchMachine machine;
  const BenchRun result = machine.run({"--compile", "--op", "chunk_states", "--target", "sm_90a,sm_80"});
  CHECK_MESSAGE(result.code == tools::kExitOk, result.err);
  REQUIRE(result.json["left_out"].size() == 1);
  CHECK(result.json["left_out"][0] == "chunk_states on sm_80");
  CHECK(has(result.out, "left out, as the target does not serve it: chunk_states on sm_80"));
  machine.refused({"--compile", "--op", "chunk_states", "--target", "sm_80"},
                  "no target that was asked for serves any op");
}

TEST_CASE("a kernel that cannot be made is a failure with its log, beside those that can") {
  BenchMachine machine;
  const BenchRun result = machine.run(
      {"--compile", "--op", "chunk_indices", "--target", "sm_80,sm_90a"});  // the fake compiler knows no sm_80
  CHECK(result.code == tools::kExitFailures);
  CHECK_MESSAGE(has(result.err, "failed: chunk_indices for sm_80"), result.err);
  REQUIRE(result.json["kernels"].size() == 2);
  CHECK(result.json["kernels"][0]["ok"] == false);
  CHECK(has(result.json["kernels"][0]["error"].get<std::string>(), "sm_80"));
  CHECK(result.json["kernels"][1]["ok"] == true);
  CHECK(row_of(result.out, "chunk_indices", "sm_80").empty());
  CHECK(!row_of(result.out, "chunk_indices", "sm_90a").empty());
}

TEST_CASE("of all targets, that of a file of facts is made by its facts") {
  BenchMachine machine;
  const std::string file = machine.scratch / "facts.json";
  tj::testing::write_bytes(file, R"({"tilejit_facts": 1, "arch": "sm_90a", "facts": {"copy_latency_cycles": 700}})");
  const BenchRun result = machine.run({"--compile", "--op", "chunk_indices", "--target", "all", "--facts", file});
  std::vector<std::string> targets;
  for (const auto& kernel : result.json["kernels"]) targets.push_back(kernel["target"].get<std::string>());
  const auto count = [&](const std::string& target) { return std::count(targets.begin(), targets.end(), target); };
  CHECK(count("sm_90a") == 0);
  CHECK(count("sm_90a+facts=" + tj::arch::load_facts(file, "test").hash) == 1);
  CHECK(count("sm_80") == 1);
}

TEST_CASE("an NVRTC without the option gives the whole, and no phases") {
  BenchMachine machine;
  machine.nvrtc.know_times(0);
  const BenchRun result = machine.run({"--compile", "--op", "chunk_indices", "--target", "sm_90a"});
  CHECK_MESSAGE(result.code == tools::kExitOk, result.err);
  CHECK(result.json["kernels"][0]["ms"].contains("compiler"));
  CHECK_FALSE(result.json["kernels"][0]["ms"].contains("front end"));
}

}  // namespace
