// Protects tj-schedule's interface: keys, exit codes, errors that name the flag, nothing but JSON with --json.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <tilejit/runtime.hpp>

#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "tools/run_tool.hpp"
#include "tools/schedule.hpp"

namespace {

using tj::test::run_schedule;
using tj::test::ToolRun;
using tj::testing::has;

}  // namespace

TEST_CASE("an op as JSON") {
  const ToolRun result =
      run_schedule({"--op", "fmha", "--target", "sm_90a", "--dtype", "f16", "--head-dim", "128", "--json"});
  CHECK(result.err.empty());
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"ii", "length", "res_mii", "rec_mii", "proven_ii", "proven_length", "solve_ms", "nodes",
                          "rings", "certificate", "roles", "predicted_tflops"})
    CHECK_MESSAGE(json.contains(key), key);
  CHECK(json["ii"].get<int>() >= json["res_mii"].get<int>());
  CHECK(json["proven_ii"] == true);
  CHECK(json["predicted_tflops"].get<double>() > 0);
}

TEST_CASE("a refusal of two numbers of blocks is told once") {
  const ToolRun result =
      run_schedule({"--op", "fmha", "--target", "gfx90a", "--head-dim", "192", "--tile", "64x64", "--causal", "false"});
  CHECK(result.code == 1);
  CHECK(has(result.err, "the rings need at least 68096 bytes of SMEM, machine 'gfx90a' has 65536"));
  CHECK_MESSAGE(!has(result.err, "32768"), result.err);
}

TEST_CASE("a flag without a value is true, and stage limits reach the scheduler") {
  const ToolRun result = run_schedule({"--op", "fmha", "--target", "model:sm_90a", "--head-dim", "128", "--causal",
                                       "--dtype", "bf16", "--max-stages", "1", "--json"});
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(has(json["kernel"].get<std::string>(), "causal"));
  for (const auto& node : json["nodes"]) CHECK(node["stage"] == 0);
}

TEST_CASE("rungs of the ladder are shown as they are constrained") {
  int ii = 1 << 30;
  for (const char* rung : {"v3", "v4", "v5", "v8"}) {
    CAPTURE(std::string(rung));
    const ToolRun result =
        run_schedule({"--op", "gemm", "--target", "sm_90a", "--dtype", "f16", "--rung", rung, "--json"});
    REQUIRE(result.code == 0);
    const auto json = nlohmann::json::parse(result.out);
    CHECK(has(json["kernel"].get<std::string>(), std::string("_") + rung));
    CHECK(json["roles"].size() == (std::string(rung) == "v8" ? 4 : 1));  // a role for each operand's copies
    CHECK(json["walk"] == (std::string(rung) == "v8" ? "persistent" : "one_tile"));
    CHECK(json["ii"].get<int>() < ii);
    ii = json["ii"];
    const auto& tile = json["tile"];
    CHECK(tile["ii"] == json["ii"]);
    CHECK(tile["walks"] == (std::string(rung) == "v8"));
    CHECK(tile["periods"][tile["n0"].get<int>()] == tile["n0"].get<int>() * ii + tile["c"].get<int>());
    CHECK(tile["overlaps"].size() == json["roles"].size());
  }
  const ToolRun text = run_schedule({"--op", "gemm", "--target", "sm_90a", "--rung", "v7"});
  CHECK_MESSAGE(has(text.out, "\nlimits: II "), text.out);  // its certificate names none
  const ToolRun unknown = run_schedule({"--op", "gemm", "--rung", "v0"});
  CHECK(unknown.code == 2);
  CHECK(has(unknown.err, "--rung is 'v0'; allowed are none, v1"));
}

TEST_CASE("with sizes, what a call of them takes is shown; the last rung without them is that of 4096^3") {
  const auto kernel = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--op", "gemm", "--target", "sm_100a", "--dtype", "f16", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolRun run = run_schedule(words);
    REQUIRE_MESSAGE(run.code == 0, run.err);
    return nlohmann::json::parse(run.out)["kernel"].get<std::string>();
  };
  CHECK(kernel({"--rung", "v10"}) == "gemm_f16_kk_256x128x64c2x1");
  CHECK(kernel({"--rung", "v10", "--m", "4096", "--n", "4096", "--k", "4096"}) == "gemm_f16_kk_256x128x64c2x1");
  CHECK(kernel({"--rung", "v10", "--m", "200", "--n", "512", "--k", "512"}).find("c2x1") == std::string::npos);
  CHECK(kernel({"--m", "4096", "--n", "4096", "--k", "4096"}) == "gemm_f16_kk_128x128x64c2x1");
  const ToolRun elsewhere = run_schedule({"--op", "gemm", "--target", "sm_100", "--rung", "v10"});
  CHECK(elsewhere.code == 2);
  CHECK(has(elsewhere.err, "rung is v10; allowed on sm_100: 0 (none); TJ_TARGET=sm_100a has v1 to v10"));
}

TEST_CASE("what each rung of attention changes is shown") {
  const char* changed[] = {"row_max_natural", "transpose_k", "store_divided"};
  for (int rung = 1; rung <= 6; ++rung) {
    CAPTURE(rung);
    const ToolRun result = run_schedule({"--op", "fmha", "--target", "sm_120a", "--dtype", "f16", "--head-dim", "128",
                                         "--causal", "true", "--rung", std::to_string(rung), "--json"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const auto json = nlohmann::json::parse(result.out);
    const auto has_node = [&](const std::string& body) {
      for (const auto& node : json["nodes"])
        if (node["name"] == body + ".0") return true;
      return false;
    };
    CHECK(has_node(changed[0]) == (rung < 2));
    CHECK(has_node(changed[1]) == (rung < 3));
    CHECK(has_node(changed[2]) == (rung < 6));
    CHECK(json["blocks_per_sm"] == (rung < 5 ? 1 : 2));
    for (const auto& ring : json["rings"])
      if (ring["value"] == "v") CHECK(ring["slots"] == (rung == 4 ? 3 : 1));
  }
}

TEST_CASE("attention's rungs are for archs whose products are a warp's") {
  const ToolRun elsewhere = run_schedule({"--op", "fmha", "--target", "sm_90a", "--rung", "2"});
  CHECK(elsewhere.code == 1);
  CHECK(has(
      elsewhere.err,
      "fmha: rung 2 (exp2) does not run on 'sm_90a'; rungs are for archs whose products are a warp's or a wave's: "));
  const ToolRun unknown = run_schedule({"--op", "fmha", "--target", "sm_120a", "--rung", "7"});
  CHECK(unknown.code == 2);
  CHECK(has(
      unknown.err,
      "--rung is '7'; allowed are none, 1, 2, 3, 4, 5, 6, basic, exp2, transposed_k, latency, occupancy, division"));
}

TEST_CASE("chunk output: a role for each of an item's heads, and one item after another for the model too") {
  for (const char* heads : {"1", "2"}) {
    CAPTURE(std::string(heads));
    const ToolRun result = run_schedule(
        {"--op", "chunk_o", "--target", "model:sm_90a", "--head-ratio", "2", "--item-heads", heads, "--json"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const auto json = nlohmann::json::parse(result.out);
    CHECK(has(json["kernel"].get<std::string>(), "chunk_o_r2"));
    int computing = 0;
    for (const auto& role : json["roles"]) computing += has(role["name"].get<std::string>(), "compute") ? 1 : 0;
    CHECK(computing == std::stoi(heads));
  }
  const ToolRun unknown = run_schedule({"--op", "chunk_o", "--item-heads", "4"});
  CHECK(unknown.code == 2);
  CHECK(has(unknown.err, "--item-heads is '4'; allowed are auto, 1, 2, 3"));
  CHECK(run_schedule({"--op", "chunk_o", "--head-ratio", "1", "--item-heads", "2"}).code == 2);
}

TEST_CASE(
    "where no tile is named, the first that the arch serves is shown; one that is named is refused where it does not "
    "serve it") {
  for (const char* target : {"sm_90a", "sm_80", "sm_120a", "gfx1100", "gfx1201", "gfx90a"}) {
    CAPTURE(std::string(target));
    const ToolRun result = run_schedule({"--op", "gemm", "--target", target});
    CHECK_MESSAGE(result.code == 0, result.err);
  }
  const ToolRun named = run_schedule({"--op", "gemm", "--target", "gfx1100", "--tile", "128x256x64"});
  CHECK(named.code == 2);
  CHECK(has(named.err, "tile is 128x256x64; allowed on gfx1100: "));
}

TEST_CASE("roles from the joint search, or by the simple split") {
  const std::vector<std::string> words = {"--op", "fmha",    "--target", "sm_90a", "--head-dim",
                                          "64",   "--dtype", "f16",      "--json"};
  for (const char* roles : {"joint", "split"}) {
    std::vector<std::string> with = words;
    with.insert(with.end(), {"--roles", roles});
    const ToolRun result = run_schedule(with);
    REQUIRE(result.code == 0);
    const auto json = nlohmann::json::parse(result.out);
    CHECK(json["joint"] == (std::string(roles) == "joint"));
    CHECK(json["proven_length"] == true);
    for (const auto& node : json["nodes"]) CHECK(node.contains("role"));
  }
  CHECK(nlohmann::json::parse(run_schedule(words).out)["joint"] == true);
  CHECK(run_schedule({"--op", "fmha", "--roles", "any"}).code == 2);
}

TEST_CASE("a comma in a text of device code separates no values") {
  const auto shown = [](const std::vector<std::string>& words) {
    const ToolRun result = run_schedule(words);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return nlohmann::json::parse(result.out)["kernel"].get<std::string>();
  };
  const std::vector<std::string> gemm = {"--op", "gemm", "--target", "sm_90a", "--json"};
  const auto end = [&](const std::string& text) {
    std::vector<std::string> words = gemm;
    words.insert(words.end(), {"--end-text", text});
    return shown(words);
  };
  const std::string name = end("return fmaxf(value, 0.f);");
  CHECK(has(name, "_own"));
  CHECK(name != end("return fmaxf(value, 1.f);"));  // what stands behind the comma counts
  for (const char* flag : {"--score-mod", "--mask-mod"})
    CHECK(has(shown({"--op", "fmha", "--target", "sm_90a", "--json", flag, "return min(k, q) == k;"}), "_own"));
  CHECK(has(shown({"--op", "fmha", "--target", "sm_90a", "--json", "--mask-mod", "return k <= q;", "--key-range",
                   "first = max(0, q_first), last = q_last;"}),
            "_own"));
  CHECK(has(run_schedule({"--op", "gemm", "--end-text", "return value, 1;", "--end-text", "return 2;"}).err,
            "--end-text has several values"));
}

TEST_CASE("example graphs as text and as JSON") {
  const ToolRun text = run_schedule({"--graph-example", "fa_hopper"});
  CHECK(text.code == 0);
  CHECK(has(text.out, "II 4 (proven), length 9 (proven)"));
  const ToolRun json = run_schedule({"--graph-example", "simple_gemm", "--streaming-latency", "0", "--json"});
  REQUIRE(json.code == 0);
  CHECK(nlohmann::json::parse(json.out)["length"] == 3);
  const ToolRun unproven = run_schedule({"--graph-example", "fa_hopper", "--budget", "1", "--json"});
  REQUIRE(unproven.code == 0);
  CHECK(nlohmann::json::parse(unproven.out)["proven_length"] == false);
}

TEST_CASE("a target with options: rings of what the cap leaves, under one name") {
  const auto shown = [](const char* target) {
    const ToolRun result = run_schedule({"--op", "fmha", "--target", target, "--json"});
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  };
  const auto capped = shown("model:sm_90a+smem=143360");
  CHECK(capped["target"] == "model:sm_90a+smem=140K");
  CHECK(capped["machine"] == "sm_90a+smem=140K");
  const auto bytes = [](const nlohmann::json& json) {
    std::int64_t sum = 0;
    for (const auto& ring : json["rings"])
      sum += ring["slots"].get<std::int64_t>() * ring["slot_bytes"].get<std::int64_t>();
    return sum;
  };
  CHECK(bytes(capped) <= 140 * 1024);
  CHECK(bytes(shown("sm_90a")) > 140 * 1024);
  CHECK(has(run_schedule({"--op", "fmha", "--target", "sm_90a+smem=228K"}).err, "--target: target 'sm_90a+smem=228K'"));
  CHECK(has(run_schedule({"--op", "fmha", "--target", "sm_90a+smem=16K"}).err, "SMEM"));  // no tile fits
}

TEST_CASE(
    "without --target, TJ_TARGET says what for, as for other tools; a flag goes before it, and a graph brings its own "
    "machine") {
  const auto shown = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--op", "gemm", "--dtype", "f16", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolRun result = run_schedule(words);
    CHECK_MESSAGE(result.code == 0, result.err);
    return result.code == 0 ? nlohmann::json::parse(result.out)["target"].get<std::string>() : "";
  };
  CHECK(shown({}) == "sm_90a");
  ::setenv("TJ_TARGET", "model:sm_100a", 1);
  CHECK(shown({}) == "model:sm_100a");
  CHECK(shown({"--target", "sm_120a"}) == "sm_120a");
  CHECK(run_schedule({"--graph-example", "fa_hopper"}).code == 0);
  ::setenv("TJ_TARGET", "", 1);
  CHECK(shown({}) == "sm_90a");
  ::setenv("TJ_TARGET", "sm_1", 1);
  const ToolRun unknown = run_schedule({"--op", "gemm"});
  CHECK(unknown.code == 2);
  CHECK_MESSAGE(has(unknown.err, "TJ_TARGET: "), unknown.err);
  CHECK(has(run_schedule({"--op", "gemm", "--target", "sm_2"}).err, "--target: "));
  ::unsetenv("TJ_TARGET");
  CHECK(has(run_schedule({"--help"}).out, "default: TJ_TARGET, else the first known"));
}

TEST_CASE("bad use names the flag") {
  const auto refused = [](const std::vector<std::string>& words, const char* part) {
    const ToolRun result = run_schedule(words);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK_MESSAGE(has(result.err, part), result.err);
  };
  refused({}, "--op");
  refused({"--op", "fmha", "--graph-example", "fa_hopper"}, "--graph-example");
  refused({"--op", "nothing"}, "--op is 'nothing'");
  refused({"--op", "fmha", "--target", "sm_1"}, "--target");
  refused({"--op", "fmha", "--head-dim", "84"}, "--head-dim");
  refused({"--op", "fmha", "--dtype", "f16,bf16"}, "--dtype has several values");
  refused({"--op", "fmha", "--flavour", "salty"}, "--flavour");
  refused({"--op", "fmha", "loose"}, "loose");
  refused({"--op", "fmha", "--max-stages", "-1"}, "--max-stages");
  refused({"--graph-example", "nothing"}, "simplified_fa");
  refused({"--graph-example", "fa_hopper", "--streaming-latency", "5"}, "--streaming-latency");
  refused({"--graph-example", "fa_hopper", "--dtype", "f16"}, "--dtype");
  refused({"--graph-example", "fa_hopper", "--target", "sm_90a"}, "--target");
  refused({"--grpah", "x"}, "'--grpah' is no flag of tj-schedule's own; did you mean --graph?");
  refused({"--graph-example", "fa_hoper"}, "did you mean 'fa_hopper'?");
  refused({"--graph-example", "fa_hopper", "--jsn"}, "did you mean --json?");
  refused({"--op", "fmha", "--tarket", "sm_90a"}, "did you mean --target?");
  refused({"--op", "gemm", "--rugn", "v1"}, "did you mean --rung?");
  refused({"--targt", "x"}, "'--targt' is no flag of tj-schedule's own; did you mean --target?");
  refused({"--op"}, "--op needs a value; give it behind the flag\n");
  refused({"--op", "fmha", "--head-dim", ",64"}, "--head-dim is ',64', in which item 1 is empty; allowed: ");
  refused({"--op", "fmha", "--head-dim", "64,"}, "--head-dim is '64,', in which item 2 is empty; allowed: ");
  refused({"--op", "fmha", "--head-dim=64,,64"}, "--head-dim is '64,,64', in which item 2 is empty; allowed: ");
  refused({"--op", "fmha", "--op", "gemm"}, "--op is given more than once; give it once\n");
  refused({"--op", "fmha", "--json=foo"}, "--json is 'foo'; allowed: the flag alone, without a value\n");
  refused({"--op", "gem"}, "did you mean 'gemm'?");
}

TEST_CASE("two outputs are two files, whatever their paths look like") {
  const tj::testing::Scratch folder;
  const std::string path = folder / "both", odd = folder.path() + "/./sub/../both";
  std::filesystem::create_directory(folder / "sub");
  const auto both = [](const std::string& svg, const std::string& trace) {
    return run_schedule({"--graph-example", "fa_hopper", "--svg", svg, "--trace", trace});
  };
  for (const std::string& other : {path, odd}) {
    const ToolRun result = both(path, other);
    CHECK(result.code == 2);
    CHECK_MESSAGE(
        has(result.err, "--trace is '" + other + "', the file that --svg is to write; allowed: a file of its own"),
        result.err);
    CHECK_FALSE(std::filesystem::exists(path));
  }
  CHECK(both(path, folder / "other").code == 0);
  std::filesystem::create_hard_link(path, folder / "linked");
  CHECK(both(path, folder / "linked").code == 2);
  CHECK(both("/dev/null", "/dev/null").code == 0);
}

TEST_CASE("what cannot be scheduled is a failure, not bad use") {
  const ToolRun result = run_schedule({"--op", "fmha", "--head-dim", "128", "--max-slots", "1"});
  CHECK(result.code == 1);
  CHECK(has(result.err, "max_slots"));
}

TEST_CASE("what is said of every shape is said once") {
  const std::string said = run_schedule({"--op", "fmha", "--max-slots", "1"}).err;
  const std::size_t at = said.find("fmha_f16_d64_2x64x128");
  REQUIRE_MESSAGE(at != std::string::npos, said);
  CHECK_MESSAGE(said.find("fmha_f16_d64_2x64x128", at + 1) == std::string::npos, said);
}

TEST_CASE("an empty value was forgotten, and a range is told in few digits") {
  for (const char* flag : {"--svg", "--trace", "--graph", "--graph-example", "--op", "--target"}) {
    const ToolRun result = run_schedule({flag, ""});
    CHECK(result.code == 2);
    CHECK_MESSAGE(has(result.err, std::string(flag) + ": needs a value"), result.err);
  }
  CHECK(has(run_schedule({"--op", "fmha", "--min-ii", "4194305"}).err, "is '4194305'; allowed: 0 to 4194304\n"));
  for (const char* flag : {"--max-stages", "--max-slots"}) {
    const std::string said = run_schedule({"--op", "fmha", flag, "-1"}).err;
    CHECK_MESSAGE(has(said, std::string(flag) + ": is '-1'; allowed: 0 to 2147483647\n"), said);
  }
}

TEST_CASE("help and version are no errors") {
  CHECK(run_schedule({"--help"}).code == 0);
  const ToolRun version = run_schedule({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out == std::string("tj-schedule ") + tj::version() + "\n");
}
