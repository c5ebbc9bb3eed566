// Protects tj-schedule --graph: the keys of its JSON, its exit codes, errors that name file and place.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "tools/run_tool.hpp"
#include "tools/schedule.hpp"

namespace {

using tj::test::run_schedule;
using tj::test::ToolRun;
using tj::testing::has;

std::string data(const std::string& name) { return TJ_REPO_DIR "/tests/graph/data/" + name; }

}  // namespace

TEST_CASE("a graph from a file, as JSON and as text") {
  const ToolRun result = run_schedule({"--graph", data("fa_hopper.json"), "--json"});
  CHECK(result.err.empty());
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"ii", "length", "res_mii", "rec_mii", "proven_ii", "proven_length", "solve_ms", "nodes",
                          "rings", "certificate"})
    CHECK_MESSAGE(json.contains(key), key);
  CHECK(json["ii"] == 4);
  CHECK(json["length"] == 9);
  CHECK(json["proven_length"] == true);
  REQUIRE(json["nodes"].size() == 5);
  for (const auto& node : json["nodes"])
    for (const char* key : {"name", "cycle", "stage", "role"}) CHECK_MESSAGE(node.contains(key), key);
  CHECK(json["nodes"][0]["role"] != json["nodes"][2]["role"]);
  CHECK(json["rings"].size() == 2);
  const ToolRun text = run_schedule({"--graph", data("fa_blackwell.json"), "--streaming-latency", "0"});
  CHECK(text.code == 0);
  CHECK(has(text.out, "II 2 (proven), length 6 (proven)"));
  const ToolRun unproven = run_schedule({"--graph", data("fa_hopper.json"), "--budget", "1", "--json"});
  REQUIRE(unproven.code == 0);
  CHECK(nlohmann::json::parse(unproven.out)["proven_length"] == false);
}

TEST_CASE("a graph that names a real target, with bodies of its own") {
  const ToolRun result = run_schedule({"--graph", TJ_REPO_DIR "/samples/05_custom_gemm/gemm_gelu.json", "--json"});
  CHECK(result.err.empty());
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["target"] == "sm_90a");
  CHECK(json["ii"] == 1200);
  CHECK(json["proven_ii"] == true);
  CHECK(json["rings"].size() == 2);
  REQUIRE(json["nodes"].size() == 8);
  CHECK(json["nodes"][2]["scope"] == "tile_begin");
  CHECK(json["nodes"][4]["role"] != json["nodes"][5]["role"]);  // each half's sums fill the registers of a role
  const tj::testing::Scratch folder;
  const std::string svg = folder / "picture.svg";
  CHECK(run_schedule({"--graph", TJ_REPO_DIR "/samples/05_custom_gemm/gemm_gelu.json", "--svg", svg}).code == 0);
  CHECK(has(tj::testing::read_bytes(svg), "mma.1"));
}

TEST_CASE("a bad graph is bad use, one that does not fit a failure") {
  const tj::testing::Scratch folder;
  const std::string file = folder / "mine.json";
  const auto refused = [&](const std::string& text, int code, const char* part) {
    tj::testing::write_bytes(file, text);
    const ToolRun result = run_schedule({"--graph", file, "--json"});
    CHECK(result.code == code);
    CHECK(result.out.empty());
    CHECK_MESSAGE(has(result.err, part), result.err);
  };
  refused("", 2, "mine.json");
  refused("{\"machine\": \"hopper\",", 2, "line 1");
  refused(R"({"machine": "hopper", "instructions": [{"name": "a", "cycles": 1, "fu": "XU"}]})", 2,
          "instructions[0].fu");
  const std::string load = R"("cycles": 1, "fu": "TMA", "variable_latency": true, "memory": {"SMEM": 200000}})";
  refused(R"({"machine": "hopper", "instructions": [{"name": "x", )" + load + R"(, {"name": "y", )" + load +
              R"(, {"name": "z", "cycles": 1, "fu": "TC"}],
    "edges": [{"src": "x", "dst": "z", "delay": 1}, {"src": "y", "dst": "z", "delay": 1}]})",
          1, "SMEM");
}

TEST_CASE("bad use names the flag") {
  const auto refused = [](const std::vector<std::string>& words, const char* part) {
    const ToolRun result = run_schedule(words);
    CHECK(result.code == 2);
    CHECK_MESSAGE(has(result.err, part), result.err);
  };
  refused({"--graph", "/nonexistent/graph.json"}, "/nonexistent/graph.json");
  refused({"--graph", "/"}, "--graph");
  refused({"--graph", data("fa_hopper.json"), "--op", "fmha"}, "--graph");
  refused({"--graph", data("fa_hopper.json"), "--graph-example", "fa_hopper"}, "--graph");
  refused({"--graph", data("fa_hopper.json"), "--target", "sm_90a"}, "--target");
  refused({"--graph", data("fa_hopper.json"), "--causal"}, "--causal");
}

TEST_CASE("an example takes costs, sub-tiles and a machine; wrong ones are bad use, by name") {
  const ToolRun turns = run_schedule({"--graph-example", "fa_hopper", "--costs", "gemm=1,exp=2", "--sub-tiles", "2"});
  REQUIRE(turns.code == 0);
  CHECK(has(turns.out, "II 4 (proven), length 7 (proven)"));
  CHECK(has(turns.out, "turns on TC: compute0 (O.0 S.0), then compute1 (O.1 S.1)"));
  const ToolRun other =
      run_schedule({"--graph-example", "simple_gemm", "--machine", "blackwell", "--costs", "compute=5"});
  REQUIRE(other.code == 0);
  CHECK(has(other.out, "simple_gemm for blackwell (normalised)"));
  CHECK(has(other.out, "II 5 (proven)"));
  const auto refused = [](std::vector<std::string> words, const char* part) {
    const ToolRun result = run_schedule(words);
    CHECK(result.code == 2);
    CHECK_MESSAGE(has(result.err, part), result.err);
  };
  const std::string example = "--graph-example", name = "fa_hopper";
  refused({example, name, "--costs", "tmem=1"}, "cost 'tmem' means nothing to example graph 'fa_hopper'; allowed are");
  refused({example, name, "--costs", "gemm"}, "--costs has 'gemm'; allowed are names with whole cycles, such as");
  refused({example, name, "--costs", "gemm=2x"}, "--costs has 'gemm=2x'");
  refused({example, name, "--costs", "gemm=-1"},
          "cost 'gemm' of example graph 'fa_hopper' is -1; allowed are 0 to 65536");
  refused({example, name, "--costs", "gemm=1,gemm=2"}, "--costs has 'gemm' twice; keep one");
  refused({example, name, "--sub-tiles", "4"}, "--sub-tiles");
  refused({example, name, "--machine", "toaster"}, "machine is 'toaster'; allowed are hopper, blackwell");
  refused({"--graph", data("fa_hopper.json"), "--costs", "gemm=2"}, "--costs means nothing without --graph-example");
  refused({"--op", "fmha", "--sub-tiles", "2"}, "--sub-tiles means nothing without --graph-example");
}

TEST_CASE("a graph with candidates and targets: the best form, a named one, another target") {
  const tj::testing::Scratch scratch;
  const std::string path = scratch / "forms.json";
  tj::testing::write_bytes(path, R"({"machine": "sm_90a", "targets": ["sm_100a"], "parameters": {"n": 64},
    "candidates": [{"name": "narrow", "parameters": {"n": 64}}, {"name": "wide", "parameters": {"n": 256}}],
    "typical_iterations": 32, "flops_per_iteration": "2 * 128 * n * 64", "overhead_cycles": 2000,
    "instructions": [{"name": "mma", "cycles": "2 * 128 * n * 64 / matrix_flops_per_cycle", "fu": "TC"}]})");
  const auto shown = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"--graph", path};
    words.insert(words.end(), more.begin(), more.end());
    return run_schedule(words);
  };
  CHECK(has(shown({}).out, "forms as wide for sm_90a"));
  CHECK(has(shown({"--candidate", "narrow"}).out, "forms as narrow for sm_90a"));
  CHECK(has(shown({"--target", "sm_100a"}).out, "forms as wide for sm_100a"));
  CHECK(has(shown({"--min-ii", "5000"}).out, "II 5000"));
  for (const auto& [words, part] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--candidate", "middle"}, "the candidate is 'middle'; this graph has narrow, wide"},
           {{"--target", "sm_80"}, "the target is 'sm_80'; this graph is for sm_90a, sm_100a"}}) {
    const ToolRun refused = shown(words);
    CHECK(refused.code == 2);
    CHECK_MESSAGE(has(refused.err, part), refused.err);
  }
  // A flag gives a usual value back.
  tj::testing::write_bytes(path, R"({"machine": "hopper", "options": {"max_stages": 1, "joint": false},
    "instructions": [{"name": "a", "cycles": 3, "fu": "TC"}, {"name": "b", "cycles": 3, "fu": "EXP"}],
    "edges": [{"src": "a", "dst": "b", "delay": 3}]})");
  CHECK(has(shown({}).out, "II 4"));
  CHECK(has(shown({"--max-stages", "0"}).out, "II 3"));
  const auto joint = [&](std::vector<std::string> more) {
    more.push_back("--json");
    return nlohmann::json::parse(shown(more).out)["joint"];
  };
  CHECK(joint({}) == false);
  CHECK(joint({"--roles", "joint"}) == true);
  CHECK(has(run_schedule({"--op", "fmha", "--candidate", "a"}).err, "--candidate means nothing without --graph"));
}
