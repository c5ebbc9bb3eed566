// Protects tj-check's reading of texts. It tells which reports are one finding and which lines of a unit belong to a
// role. It reads units' words about their sites, and writes sites. What a program reports of a run comes as such texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/error.hpp>

#include "check/equivalents.hpp"
#include "check/full_set.hpp"
#include "check/notes.hpp"
#include "check/program.hpp"
#include "check/rings_text.hpp"
#include "check/seeds.hpp"
#include "support/expect.hpp"
#include "support/sites.hpp"

using namespace tj;

namespace {

using tj::testing::has;
const std::string kUnit = R"(namespace {
  struct RingA {
    static constexpr unsigned kSlots = 2, kSlotBytes = 64;
    static constexpr unsigned kData = 0;
  };
  struct RingAb {
    static constexpr unsigned kSlots = 1, kSlotBytes = 64;
    static constexpr unsigned kData = 128;
  };
}  // namespace

TJ_KERNEL(tj_kernel, 384, Params, params) {
  dev::ring_init<RingA>(shared);
  if (warp < 4) {
    // roles load, store
    dev::registers_shrink<1, 24>();
    if (warp == 0 && dev::elect_one()) {
      dev::wait_empty<2, RingA>(shared, s);
    }
    if (warp == 1 && dev::elect_one()) {
      dev::wait_full<3, RingAb>(shared, s);
    }
  } else {
    // roles compute0, compute1
    dev::wait_full<4, RingA>(shared, s);
    dev::publish<5, RingAb>(shared, s);
  }
}
)";

TEST_CASE("a mutant is excused by its kernel's begin and its own end, and by nothing else") {
  REQUIRE_FALSE(tj::check::equivalents().empty());
  for (const tj::check::Equivalent& each : tj::check::equivalents()) {
    CAPTURE(each.mutant);
    const std::string kernels = each.kernels, mutant = std::string("site 12: ") + each.mutant;
    const std::size_t star = kernels.find('*');
    const std::string kernel = star == std::string::npos
                                   ? kernels + "f16_d64"
                                   : kernels.substr(0, star) + "f16_d64" + kernels.substr(star + 1);
    if (star != std::string::npos) CHECK(tj::check::equivalent_of(kernel + "x", mutant) == nullptr);
    const tj::check::Equivalent* found = tj::check::equivalent_of(kernel, mutant);
    REQUIRE(found != nullptr);
    CHECK(std::string_view(found->argument) == each.argument);
    CHECK(tj::check::equivalent_of("x" + kernel, mutant) == nullptr);
    CHECK(tj::check::equivalent_of(kernel, mutant + ", and more") == nullptr);
  }
}

}  // namespace

TEST_CASE("reports that differ in numbers alone are one, but not those of other sites or nodes") {
  CHECK(check::without_numbers("block 3, warp 12 waits for 0x38408 (site 15): qk.1 of compute0") ==
        "block #, warp # waits for # (site 15): qk.1 of compute0");
  CHECK(check::without_numbers("") == "");
  CHECK(check::without_numbers("7") == "#");
}

TEST_CASE("work is spread over threads, each index once, and an exception is let through") {
  std::vector<int> seen(100);
  check::in_threads(4, seen.size(), [&](std::size_t, std::size_t index) { ++seen[index]; });
  CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  CHECK_THROWS_AS(check::in_threads(4, 100,
                                    [](std::size_t, std::size_t index) {
                                      if (index == 7) throw Error(Stage::model, Code::internal, "seven");
                                    }),
                  Error);
}

TEST_CASE("after an exception no thread begins more work") {
  constexpr std::size_t kForEver = std::size_t{1} << 40;
  CHECK_THROWS_AS(check::in_threads(4, kForEver,
                                    [](std::size_t, std::size_t index) {
                                      if (index == 7) throw Error(Stage::model, Code::internal, "seven");
                                    }),
                  Error);
  CHECK(check::threads_for(4, kForEver) == 4);
  CHECK(check::threads_for(4, 3) == 3);
  CHECK(check::threads_for(4, 0) == 1);
  CHECK(check::threads_for(0, kForEver) >= 1);
  CHECK(check::threads_for(0, 1) == 1);
}

TEST_CASE("each ring is counted otherwise by each role that uses it, and has a slot more for all") {
  const std::vector<check::RingText> mutants = check::ring_mutants(kUnit);
  std::vector<std::string> names;
  for (const check::RingText& mutant : mutants) names.push_back(mutant.what);
  CHECK(names == std::vector<std::string>{"ring RingA of 2 slots counted as 3 by load",
                                          "ring RingA of 2 slots counted as 1 by load",
                                          "ring RingA of 2 slots counted as 3 by compute0, compute1",
                                          "ring RingA of 2 slots counted as 1 by compute0, compute1",
                                          "ring RingA of 2 slots used with 3 in the same layout",
                                          "ring RingAb of 1 slots counted as 2 by store",
                                          "ring RingAb of 1 slots counted as 2 by compute0, compute1",
                                          "ring RingAb of 1 slots used with 2 in the same layout"});
  CHECK(has(mutants[0].text, "struct RingAOtherDepth : RingA { static constexpr unsigned kSlots = 3; };"));
  CHECK(has(mutants[0].text, "wait_empty<2, RingAOtherDepth>"));
  CHECK(has(mutants[0].text, "wait_full<4, RingA>"));
  CHECK(has(mutants[0].text, "ring_init<RingA>"));
  CHECK(has(mutants[4].text, "kSlots = 3, kSlotBytes = 64"));
  CHECK(has(mutants[4].text, "kData = 128"));
  CHECK(check::ring_mutants("int main() {}\n").empty());
  // Only barriers tell how many slots a ring has that is filled once.
  CHECK(check::ring_mutants(kUnit, {"RingA"}).size() == 3);
  std::string barriers = kUnit;
  barriers.insert(barriers.find("kData = 0"), "kFull = 192, ");
  const std::vector<check::RingText> fewer = check::ring_mutants(barriers, {"RingA"});
  CHECK(fewer.size() == 4);
  CHECK(fewer[0].what == "ring RingA of 2 slots used with 3 in the same layout");
}

TEST_CASE("a unit's notes give its sites; what is no such JSON is refused") {
  const auto sites = check::sites_of(
      R"({"name": "x", "sites": [{"id": 3, "kind": "group_wait", "text": "wait"}, {"id": 4, "kind": "wait", "text": "other"}]})");
  REQUIRE(sites.size() == 2);
  CHECK(sites[0].id == 3);
  CHECK(check::can_be_weakened(sites[0]));
  CHECK(!check::can_be_weakened(sites[1]));
  for (const char* kind : {"signal", "await"})
    CHECK(check::can_be_weakened({.id = 1, .kind = kind, .text = "of another block"}));
  CHECK(check::sites_of("").empty());
  CHECK(
      check::rings_filled_once(
          R"({"rings": [{"value": "q", "filled_once": true}, {"value": "k"}, {"value": "qk_t", "filled_once": true}]})") ==
      std::vector<std::string>{"RingQ", "RingQkT"});
  CHECK(check::rings_filled_once("").empty());
  CHECK_THROWS_AS(check::sites_of("{"), Error);
  CHECK_THROWS_AS(check::sites_of(R"({"sites": [{"id": "three"}]})"), Error);
}

TEST_CASE("sites are a number, or a kernel and a number") {
  CHECK(support::parse_site("x", "12").id == 12);
  CHECK(support::parse_site("x", "fmha:3").kernel == "fmha");
  CHECK(support::parse_sites("x", "1,a:2").size() == 2);
  CHECK(support::to_string(support::parse_site("x", "fmha:3")) == "fmha:3");
  for (const char* text : {"", "0", "-1", "x", "fmha:", ":3", "3x", "1,2"}) {
    CAPTURE(std::string(text));
    CHECK_THROWS_AS(support::parse_site("x", text), Error);
  }
  CHECK_THROWS_AS(support::parse_sites("x", "1,"), Error);
  try {
    support::parse_sites("TJ_MODEL_DISABLE", "1,,2");
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.message.starts_with("TJ_MODEL_DISABLE is '1,,2', in which item 2 is empty; allowed: a site's number"));
  }
}

TEST_CASE("the full set names every op and every family, and each equivalent has an argument") {
  const std::vector<check::Case> cases = check::full_set();
  for (const char* op :
       {"fmha", "gemm", "grouped_gemm", "chunk_o", "gated_delta_rule", "chunk_indices", "copy_rows", "sum_parts"})
    CHECK(std::any_of(cases.begin(), cases.end(), [&](const check::Case& each) { return each.op == op; }));
  for (const char* arch : {"sm_90a", "sm_80", "sm_120a", "gfx1100", "gfx1201", "gfx90a", "gfx942"})
    CHECK(std::any_of(cases.begin(), cases.end(),
                      [&](const check::Case& each) { return each.target == std::string("model:") + arch; }));
  CHECK(ops::flags_of_text("--a x,y --b z") == ops::Flags{{"a", {"x", "y"}}, {"b", {"z"}}});
  for (const check::Equivalent& each : check::equivalents()) CHECK(std::string(each.argument).size() > 20);
}

TEST_CASE(
    "a program is run once a seed: runs that fail alike are one finding of its first seed, and each run is told") {
  int runs = 0;
  check::Program program{{"sh", "-c", "echo $TJ_TARGET; exit $((3 + TJ_MODEL_SEED % 2))"}, "model:sm_90a", {}, {}};
  const check::ProgramReport report = check::try_program(program, {4, 5}, [&] { ++runs; });
  CHECK(runs == 5);
  CHECK(report.kernels.empty());
  REQUIRE(report.findings.size() == 1);  // they differ in a number alone
  CHECK(report.findings[0].fault.kernel == "sh");
  CHECK(report.findings[0].fault.message == "ended with status 3, before it launched a kernel on the model");
  CHECK(report.findings[0].fault.log == "model:sm_90a\n");
  CHECK(report.findings[0].first_seed == 4);
  CHECK(report.findings[0].seeds == 5);
  program.words = {"sh", "-c", "test $TJ_MODEL_SEED = 2 || kill -TERM $$; exit 7"};
  const check::ProgramReport two = check::try_program(program, {1, 3});
  REQUIRE(two.findings.size() == 2);
  CHECK(two.findings[0].fault.message == "ended with signal 15, before it launched a kernel on the model");
  CHECK(two.findings[0].seeds == 2);
  CHECK(two.findings[1].fault.message == "ended with status 7, before it launched a kernel on the model");
  CHECK(two.findings[1].first_seed == 2);
}

TEST_CASE(
    "a program's reports are its lines: kernels each once, findings with their code, and nothing of other lines") {
  const std::string lines =
      R"(cat >> "$TJ_MODEL_REPORT" <<'END'
{"kernel": "first", "sites": [{"id": 3, "kind": "wait", "text": "wait"}]}
[{"kernel": "a list's"}]
"kernel"
7
{"kernel": "second", "sites": []}
{"kernel": "first", "sites": []}
{"finding": "first", "code": "model_fault", "message": "site 3, warp 4", "log": "much"}
{"finding": "first", "code": "model_fault", "message": "site 3, warp 5", "log": "more"}
{"finding": "second", "code": "deadlock", "message": "all wait"}
{"other": 1}
{"kernel":
END
exit 9)";
  const check::ProgramReport report = check::try_program({{"sh", "-c", lines}, "model:sm_90a", {}, {}}, {6, 2});
  REQUIRE(report.kernels.size() == 2);
  CHECK(report.kernels[0].name == "first");
  REQUIRE(report.kernels[0].sites.size() == 1);
  CHECK(report.kernels[0].sites[0].id == 3);
  CHECK(report.kernels[1].name == "second");
  CHECK(report.kernels[1].sites.empty());
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[0].fault.kernel == "first");
  CHECK(report.findings[0].fault.code == Code::model_fault);
  CHECK(report.findings[0].fault.message == "site 3, warp 4");
  CHECK(report.findings[0].fault.log == "much");
  CHECK(report.findings[0].first_seed == 6);
  CHECK(report.findings[0].seeds == 4);  // twice in each run
  CHECK(report.findings[1].fault.kernel == "second");
  CHECK(report.findings[1].fault.code == Code::deadlock);
  CHECK(report.findings[1].seeds == 2);
  const std::string clean = R"(echo '{"kernel": "first", "sites": []}' >> "$TJ_MODEL_REPORT"; exit 9)";
  const check::ProgramReport silent = check::try_program({{"sh", "-c", clean}, "model:sm_90a", {}, {}}, {1, 1});
  REQUIRE(silent.findings.size() == 1);
  CHECK(silent.findings[0].fault.message == "ended with status 9, and the model reported nothing");
}

TEST_CASE("of what a program prints the end is kept: all of 8000 bytes, the last 4000 of more") {
  const auto log_of = [](const char* bytes) {
    const check::ProgramReport report = check::try_program(
        {{"sh", "-c", std::string("printf '%0") + bytes + "d' 7; exit 3"}, "model:sm_90a", {}, {}}, {1, 1});
    REQUIRE(report.findings.size() == 1);
    return report.findings[0].fault.log;
  };
  CHECK(log_of("8000") == std::string(7999, '0') + "7");
  CHECK(log_of("8001") == std::string(3999, '0') + "7");
}

TEST_CASE("64 MiB of reports are read, a byte more is refused with both numbers") {
  const auto run = [](const char* bytes) {
    const std::string words = std::string("truncate -s ") + bytes + " \"$TJ_MODEL_REPORT\"; exit 3";
    return check::try_program({{"sh", "-c", words}, "model:sm_90a", {}, {}}, {1, 1});
  };
  CHECK(run("67108864").findings.size() == 1);
  const Error error = testing::error_of([&] { run("67108865"); });
  CHECK(error.message ==
        "the program left 67108865 bytes in the file that TJ_MODEL_REPORT names; allowed: at most 67108864, which the "
        "library writes");
}
