// Protects tj-schedule's pictures: files next to the usual output, errors that name the flag. The committed picture of
// attention is the one that the command in src/sched/README.md prints.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sched/svg_check.hpp"
#include "support/scratch.hpp"
#include "tools/run_tool.hpp"
#include "tools/schedule.hpp"

namespace {

using tj::test::run_schedule;
using tj::test::ToolRun;

}  // namespace

TEST_CASE("the committed picture of attention is what its command draws") {
  const tj::testing::Scratch scratch;
  const std::string folder = std::string(TJ_REPO_DIR) + "/src/sched/";
  const std::string command =
      "tj-schedule --op fmha --target sm_90a --dtype f16 --head-dim 128 --svg src/sched/schedule.svg";
  const std::string page = tj::testing::read_bytes(folder + "README.md");
  CHECK(page.find(command) != std::string::npos);
  CHECK(page.find("](schedule.svg)") != std::string::npos);
  const std::string file = scratch.path() + "/schedule.svg";
  REQUIRE(
      run_schedule({"--op", "fmha", "--target", "sm_90a", "--dtype", "f16", "--head-dim", "128", "--svg", file}).code ==
      0);
  const std::string committed = tj::testing::read_bytes(folder + "schedule.svg");
  CHECK(committed.size() < 60 * 1024);
  const bool same = committed == tj::testing::read_bytes(file);
  CHECK_MESSAGE(same, "draw it again: " << command);
}

TEST_CASE("what a shipped graph's picture tells apart has a colour each") {
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const char* op : {"fmha", "gemm", "chunk_o"}) {
      CAPTURE(target);
      CAPTURE(op);
      const tj::testing::Scratch scratch;
      REQUIRE(run_schedule({"--op", op, "--target", target, "--svg", scratch / "a.svg"}).code == 0);
      std::set<std::string> colours;
      for (const tj::test::Element& each : tj::test::SvgReader(tj::testing::read_bytes(scratch / "a.svg")).read()) {
        if (each.name != "rect" || each.css().rfind('c', 0) != 0 || each.attributes.at("width") != "14" ||
            each.attributes.at("height") != "10")
          continue;  // of the legend
        const std::string colour = each.css();
        CAPTURE(colour);
        CHECK(colours.insert(colour).second);
      }
      CHECK(colours.size() > 1);
    }
}

TEST_CASE("a picture and a trace do not disturb the output") {
  const tj::testing::Scratch scratch;
  const std::string svg = scratch.path() + "/a.svg", trace = scratch.path() + "/a.json";
  const ToolRun result = run_schedule({"--graph-example", "fa_blackwell", "--json", "--svg", svg, "--trace", trace});
  REQUIRE(result.code == 0);
  CHECK(nlohmann::json::parse(result.out)["ii"] == 2);
  CHECK(tj::testing::read_bytes(svg).rfind("<svg ", 0) == 0);
  CHECK(nlohmann::json::parse(tj::testing::read_bytes(trace)).contains("traceEvents"));
}

TEST_CASE("a flag in the place of a file's name is a forgotten name") {
  for (const char* flag : {"--svg", "--trace", "--graph"}) {
    const ToolRun result = run_schedule({"--op", "fmha", flag, "--json"});
    CHECK(result.code == 2);
    CHECK(result.err.find("followed by --json") != std::string::npos);
  }
}

TEST_CASE("a file that cannot be written is named with its flag") {
  for (const char* flag : {"--svg", "--trace"}) {
    const ToolRun result = run_schedule({"--graph-example", "simple_gemm", flag, "/nonexistent/folder/file"});
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find(flag) != std::string::npos);
    CHECK(result.err.find("/nonexistent/folder/file") != std::string::npos);
  }
}
