// Protects what tj-check says of its findings, letter by letter: how many of which, the command that shows one again,
// what is known to change nothing, and the line of a terminal that is written again and again.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check/equivalents.hpp"
#include "tools/check.hpp"
#include "tools/options.hpp"

namespace {

using namespace tj;
using tools::CheckFound;
using tools::CheckSettings;

const check::Equivalent kKnown = {"k", "wait", "nobody comes"};

CheckFound clean() { return {"k on model:sm_90a, M 1", "tj-check --op k", {}}; }
CheckFound broken(std::size_t findings, const std::string& command = "tj-check --op k") {
  CheckFound found = {"k on model:sm_90a, M 2", command, {}};
  for (std::size_t i = 0; i < findings; ++i)
    found.findings.push_back({{"k" + std::to_string(i), Code::deadlock, "it waits", "line 1\nline 2\n"}, 5 + i, 3});
  return found;
}
CheckFound excused(bool all) {
  CheckFound found = clean();
  found.excused = {{"k", "1 wait", &kKnown}};
  found.all_excused = all;
  return found;
}

std::string ended(const CheckFound& found) {
  std::ostringstream out;
  tools::print_ended(found, out);
  return out.str();
}

std::string printed(const CheckSettings& settings, const std::vector<CheckFound>& found, int code) {
  std::ostringstream out;
  CHECK(tools::print_findings(settings, found, out) == code);
  return out.str();
}

CheckSettings settings_of(std::uint64_t seeds, std::uint64_t first = 4, std::uint64_t data = 1) {
  CheckSettings settings;
  settings.seeds.count = seeds;
  settings.seeds.first = first;
  settings.seeds.data = data;
  return settings;
}

}  // namespace

TEST_CASE("a case that is done is a line: clean, equivalent, or its number of findings") {
  CHECK(ended(clean()) == "clean: k on model:sm_90a, M 1\n");
  CHECK(ended(broken(1)) == "1 finding: k on model:sm_90a, M 2\n");
  CHECK(ended(broken(2)) == "2 findings: k on model:sm_90a, M 2\n");
  const std::string why = "  k, 1 wait: known to change nothing, as nobody comes\n";
  CHECK(ended(excused(true)) == "equivalent: k on model:sm_90a, M 1\n" + why);
  CHECK(ended(excused(false)) == "clean: k on model:sm_90a, M 1\n" + why);
  CheckFound both = broken(1);
  both.excused = excused(true).excused;
  both.all_excused = true;
  CHECK(ended(both) == "1 finding: k on model:sm_90a, M 2\n");
}

TEST_CASE("the end says how many problems, seeds and findings there were") {
  CHECK(printed(settings_of(20), {clean()}, tools::kExitOk) == "1 problem, 20 seeds from 4, values of seed 1: clean\n");
  CHECK(printed(settings_of(1, 7, 3), {clean(), clean()}, tools::kExitOk) ==
        "2 problems, 1 seed, 7, values of seed 3: clean\n");
  CHECK(printed(settings_of(1), {excused(true), excused(true)}, tools::kExitOk) ==
        "2 problems, 1 seed, 4, values of seed 1: equivalent\n");
  CHECK(printed(settings_of(1), {excused(true), clean()}, tools::kExitOk) ==
        "2 problems, 1 seed, 4, values of seed 1: clean\n");
  CheckSettings program = settings_of(2);
  program.program = {"./own"};
  CHECK(printed(program, {clean()}, tools::kExitOk) == "1 problem, 2 seeds from 4: clean\n");
}

TEST_CASE("a finding stands with its log and the command that shows it again") {
  CHECK(printed(settings_of(20), {clean(), broken(2)}, tools::kExitFailures) ==
        "finding 1 of 2: k on model:sm_90a, M 2\nk0: it waits\n  line 1\n  line 2\n"
        "at 3 of 20 seeds from 4, first at 5; again:\n  tj-check --op k --seeds 1 --seed 5\n\n"
        "finding 2 of 2: k on model:sm_90a, M 2\nk1: it waits\n  line 1\n  line 2\n"
        "at 3 of 20 seeds from 4, first at 6; again:\n  tj-check --op k --seeds 1 --seed 6\n\n"
        "2 problems, 20 seeds from 4, values of seed 1: 2 findings\n");
  CheckSettings one = settings_of(1, 5, 9);
  one.disabled = {{"", 3}, {"k", 4}};
  one.weakened = {{"", 6}};
  CHECK(printed(one, {broken(1, "tj-check --target t -- ./own")}, tools::kExitFailures) ==
        "finding 1 of 1: k on model:sm_90a, M 2\nk0: it waits\n  line 1\n  line 2\n"
        "at 3 of 1 seed, 5; again:\n  tj-check --target t --seeds 1 --seed 5 --data-seed 9 --disable-site 3"
        " --disable-site k:4 --weaken-site 6 -- ./own\n\n"
        "1 problem, 1 seed, 5, values of seed 9: 1 finding\n");
}

TEST_CASE("as JSON the same, and nothing beside it") {
  CheckSettings settings = settings_of(20, 4, 2);
  settings.json = true;
  const auto json =
      nlohmann::json::parse(printed(settings, {broken(1), excused(true), excused(false)}, tools::kExitFailures));
  CHECK(json["seeds"] == 20);
  CHECK(json["first_seed"] == 4);
  CHECK(json["data_seed"] == 2);
  CHECK(json["findings"] == 1);
  REQUIRE(json["cases"].size() == 3);
  const auto& finding = json["cases"][0]["findings"][0];
  CHECK(finding["kernel"] == "k0");
  CHECK(finding["code"] == "deadlock");
  CHECK(finding["message"] == "it waits");
  CHECK(finding["log"] == "line 1\nline 2\n");
  CHECK(finding["first_seed"] == 5);
  CHECK(finding["seeds"] == 3);
  CHECK(finding["command"] == "tj-check --op k --seeds 1 --seed 5 --data-seed 2");
  CHECK_FALSE(json["cases"][0].contains("equivalent"));
  CHECK(json["cases"][1]["findings"].empty());
  CHECK(json["cases"][1]["equivalent"][0]["mutant"] == "1 wait");
  CHECK(json["cases"][1]["equivalent"][0]["kernel"] == "k");
  CHECK(json["cases"][1]["equivalent"][0]["argument"] == "nobody comes");
}

TEST_CASE("progress is a line of a terminal, and nothing where there is none") {
  std::ostringstream err;
  {
    tools::CheckProgress progress(err, true);
    progress.begin("cases", 2);
    CHECK(err.str() == "");
    progress.step();
    progress.step();
    CHECK(err.str() == "\r\x1b[Kcases: 1 of 2\r\x1b[Kcases: 2 of 2");
    progress.end();
    progress.begin("more", 5);
    err.str("");
    progress.step();
    CHECK(err.str() == "\r\x1b[Kmore: 1 of 5");
    err.str("");
  }
  CHECK(err.str() == "\r\x1b[K");
  err.str("");
  {
    tools::CheckProgress silent(err, false);
    silent.begin("cases", 2);
    silent.step();
  }
  CHECK(err.str() == "");
}
