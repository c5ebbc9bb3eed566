// Protects what the ladder of attention is exported as: log, JSON and Markdown say the same, a wrong step shows, and
// files are whole or not there.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include <tilejit/error.hpp>

#include "common/files.hpp"
#include "common/step_report.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

using namespace tj;
using samples::StepReport;

namespace {

using tj::testing::has;
StepReport report_of(int steps) {
  StepReport report;
  report.target = "sm_120a";
  report.device = "cuda:0";
  report.batch = 4, report.heads = 32, report.head_dim = 128;
  report.iterations = 5;
  for (int i = 1; i <= steps; ++i) {
    samples::StepResult result;
    result.step = std::to_string(i);
    result.name = "name" + result.step;
    result.description = "What it is.";
    result.key_changes = {"change of " + result.step};
    result.seq_len = 2048;
    result.latency_ms = 4.0 / i;
    result.tflops = 40.0 * i;
    result.gain_baseline = i, result.gain_previous = 1;
    result.number = i + 1;
    result.right = true;
    result.schedule.ii = 100;
    result.schedule.slots = {{"k", i}};
    result.schedule.busy = {{"TC", 30.0 * i}, {"EXP", 5}};
    report.results.push_back(result);
  }
  return report;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::size_t entries(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("log, JSON and Markdown say the same; a wrong step shows in each") {
  StepReport report = report_of(3);
  CHECK(report.right());
  report.results[1].right = false;
  CHECK_FALSE(report.right());
  const std::string table = joined(samples::summary_lines(report)), markdown = samples::steps_markdown(report);
  const auto json = nlohmann::json::parse(samples::steps_json(report));
  CHECK(has(table,
            "| 2048    | 2    | name2 | 2.000        | -               | 80      | -         | 2.00x       | 1.00x     "
            "  | NO"));
  CHECK(has(markdown, "| 2048 | 2 | name2 | 2.000 | - | 80 | - | 2.00x | 1.00x | NO |"));
  CHECK(has(markdown, "| k 2 | TC 60%, EXP 5% |"));
  CHECK(has(
      markdown,
      "### Step 3: name2\n\n**Description**: What it is. `--steps 2` runs it.\n\n**Key Changes**:\n- change of 2\n\n"
      "**Performance**:\n- sequence length 2048: 2.000ms, 80.00 TFLOPS, 2.00x vs baseline\n"));
  CHECK(has(markdown,
            "## Summary Table\n\n### Sequence length 2048\n\n| Step | Name | Latency (ms) | TFLOPS | vs Baseline | vs "
            "Previous | Correct |\n|---|---|---|---|---|---|---|\n| 2 | name1 | 4.000 | 40.00 | 1.00x | 1.00x | Yes |\n"
            "| 3 | name2 | 2.000 | 80.00 | 2.00x | 1.00x | No |\n"));
  CHECK(has(joined(samples::step_lines(report, report.results[1])), "  - change of 2"));
  CHECK(json["right"] == false);
  CHECK(json["results"][1]["right"] == false);
  CHECK(json["results"][1]["latency_ms"] == 2.0);
  CHECK(json["results"][1]["gain_vs_baseline"] == 2.0);
  CHECK(json["results"][1]["slots"]["k"] == 2);
  CHECK(json["results"][1]["busy_percent"]["TC"] == 60.0);
  CHECK(json["batch"] == 4);
  report.log = {"one", "two"};
  CHECK(samples::steps_log(report) == "one\ntwo\n");
  CHECK(nlohmann::json::parse(samples::steps_json(report))["log"].size() == 2);
}

TEST_CASE("a small gain has its digits; where no step ran, nothing is right or wrong; a table stays narrow") {
  StepReport report = report_of(2);
  report.results[1].gain_baseline = 0.0021;
  CHECK(has(samples::steps_markdown(report), "0.002x"));
  CHECK_FALSE(has(samples::steps_markdown(report), "0.00x"));
  for (samples::StepResult& result : report.results) result.failed = std::string(300, 'w');
  const auto json = nlohmann::json::parse(samples::steps_json(report));
  CHECK(json["right"].is_null());
  CHECK(json["any_failed"] == true);
  for (const std::string& line : samples::summary_lines(report)) CHECK(line.size() < 250);
}

TEST_CASE("each result has the tutorial's keys, and the report its logs") {
  StepReport report = report_of(2);
  report.results[1].graph_ms = 1.5;
  report.log = {"one"};
  const auto json = nlohmann::json::parse(samples::steps_json(report));
  CHECK(json["logs"] == json["log"]);
  const auto& result = json["results"][1];
  CHECK(result["step"] == 3);
  CHECK(result["word"] == "2");
  CHECK(result["latency_ms"] == 1.5);  // as the tutorial times: in a graph
  CHECK(result["call_ms"] == 2.0);
  CHECK(result["speedup_vs_baseline"] == 2.0);
  CHECK(result["speedup_vs_previous"] == 1.0);
  CHECK(result["correct"] == true);
  for (const char* key : {"name", "description", "tflops", "key_changes"}) CHECK(result.contains(key));
  CHECK(json["results"][0]["graph_ms"].is_null());
}

TEST_CASE("a step that failed or did not run is a row that says why, and counts for no gain") {
  StepReport report = report_of(4);
  report.results[0].skipped = "no torch: none here";
  report.results[2].failed = "it is out of memory";
  report.results[3].checked = false, report.results[3].right = false;
  for (auto& result : report.results) result.gain_baseline = result.gain_previous = 0;
  samples::set_gains(report.results, 4e9, true);
  CHECK(report.right());
  CHECK(report.any_failed());
  CHECK(report.results[1].gain_baseline == 1);
  CHECK(report.results[3].gain_baseline == 2);
  CHECK(report.results[3].gain_previous == 2);
  CHECK(report.results[3].tflops == 4);
  const std::string table = joined(samples::summary_lines(report)), markdown = samples::steps_markdown(report);
  for (const std::string& text : {table, markdown}) {
    CHECK(has(text, "| not run"));
    CHECK(has(text, "no torch: none here"));
    CHECK(has(text, "| FAILED"));
    CHECK(has(text, "it is out of memory"));
    CHECK(has(text, "not checked"));
  }
  CHECK(has(markdown, "- sequence length 2048: [ERROR] failed: it is out of memory"));
  CHECK(has(joined(samples::step_lines(report, report.results[2])), "[ERROR] Step 3 failed: it is out of memory\n"));
  const auto json = nlohmann::json::parse(samples::steps_json(report));
  CHECK(json["any_failed"] == true);
  REQUIRE(json["results"].size() == 2);  // those that ran, as the tutorial has them
  REQUIRE(json["not_run"].size() == 2);
  CHECK(json["not_run"][1]["failed"] == "it is out of memory");
  CHECK(json["not_run"][1]["correct"].is_null());
  CHECK(json["not_run"][1]["latency_ms"].is_null());
  CHECK(json["not_run"][0]["not_run"] == "no torch: none here");
  CHECK(json["results"][1]["correct"] == true);  // nobody asked
  CHECK(json["results"][1]["checked"] == false);
}

TEST_CASE("a latency hint beyond what its ring has room for is said to be dropped or cut") {
  samples::ScheduleFacts schedule;
  schedule.ii = 100;
  schedule.slots = {{"q", 1}, {"k", 1}, {"v", 3}};
  schedule.nodes = {{"load_k", "", 40}, {"qk.0", "", 130}, {"load_v", "", 0}, {"pv.0", "", 250}};
  const std::vector<samples::LatencyHint> asked = {{"k", 2, 0, "load_k", "qk"}, {"v", 4, 0, "load_v", "pv"}};
  const auto hints = samples::latency_hints(asked, schedule);
  CHECK(hints[0].given == 0);
  CHECK(hints[1].given == 2);
  const auto lines = samples::dropped_hints(hints);
  REQUIRE(lines.size() == 2);
  CHECK(has(lines[0], "the hint of 2 iterations for copies of k is dropped"));
  CHECK(has(lines[0], "a ring of 1 slot"));
  CHECK(has(lines[1], "the hint of 4 iterations for copies of v is cut to 2"));
  CHECK(has(lines[1], "a ring of 3 slots"));
  schedule.nodes[1].cycle = 245, schedule.nodes[3].cycle = 420;
  CHECK(samples::dropped_hints(samples::latency_hints(asked, schedule)).empty());
  StepReport report = report_of(1);
  report.results[0].hints = hints;
  const auto json = nlohmann::json::parse(samples::steps_json(report));
  CHECK(json["results"][0]["hints"]["v"]["asked"] == 4);
  CHECK(json["results"][0]["hints"]["v"]["given"] == 2);
  CHECK(json["results"][0]["hints"]["v"]["met"] == false);
}

TEST_CASE("files are all there, or none is and nothing is left") {
  testing::Scratch scratch;
  const std::string folder = scratch / "deep/er";
  CHECK_NOTHROW(samples::check_writable(folder));
  CHECK_FALSE(std::filesystem::exists(scratch / "deep"));  // asked, not made
  samples::write_files(folder, {{"a", "first"}, {"b", "second"}});
  CHECK(slurp(folder + "/a") == "first");
  CHECK(entries(folder) == 2);
  samples::write_files(folder, {{"a", "third"}});
  CHECK(slurp(folder + "/a") == "third");
  std::filesystem::create_directory(folder + "/c");
  CHECK_THROWS_AS(samples::write_files(folder, {{"a", "fourth"}, {"c", "a folder is there"}}), Error);
  CHECK(slurp(folder + "/a") == "third");
  CHECK(entries(folder) == 3);
  CHECK_THROWS_WITH(samples::check_writable(folder + "/a/below"), doctest::Contains("cannot write into"));
  CHECK_THROWS_AS(samples::write_files(folder + "/a/below", {{"x", ""}}), Error);
}
