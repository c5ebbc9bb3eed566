// Protects tj-bench --calibrate from end to end: on the CPU model every probe is made and runs, and the file that is
// written is one that the library takes. On a machine of fakes what is timed by the host is written, and what the clock
// of a kernel says, which no fake has, is named. No number decides anything here.
#include <doctest/doctest.h>

#include <string>

#include "arch/fact_file.hpp"
#include "support/json.hpp"
#include "support/variable.hpp"
#include "tools/bench_fixture.hpp"
#include "tools/calibrate.hpp"

namespace {

using namespace tj::test;

BenchRun calibrate(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  std::vector<std::string> all = {"--calibrate"};
  all.insert(all.end(), words.begin(), words.end());
  BenchRun run;
  run.code = tj::tools::bench(all, out, err);
  run.out = out.str();
  run.err = err.str();
  return run;
}

/// Probes that no result came of are named; a compile or a launch that failed would be another text.
void check_named(const BenchRun& run) {
  CHECK_MESSAGE(run.err.empty(), run.err);
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);)
    if (has(line, "left out of the file"))
      CHECK_MESSAGE((has(line, ": it gave no result") || has(line, ": beyond ")), line);
}

}  // namespace

TEST_CASE("every probe of an arch runs on the CPU model, and the file is one that the library reads") {
  const tj::testing::Scratch scratch;
  for (const std::string arch : {"sm_90a", "sm_80", "sm_90", "sm_100a"}) {
    CAPTURE(arch);
    const std::string file = scratch / (arch + ".json");
    const BenchRun run = calibrate({file, "--target", "model:" + arch, "--rounds", "2"});
    check_named(run);
    CHECK(has(run.out, "measuring model:" + arch + " on CPU model"));
    CHECK(has(run.out, file + " written in "));
    CHECK(has(run.out, "facts stay as shipped"));
    const tj::arch::FactFile& facts = tj::arch::load_facts(file, "test");
    CHECK(facts.arch == arch);
    CHECK_FALSE(facts.facts.empty());
    const auto json = tj::support::Json::parse(tj::testing::read_bytes(file));
    for (const char* key : {"date", "device", "driver", "clock_mhz", "build", "seconds"})
      CHECK_MESSAGE(json["measured"].contains(key), key);
    for (const auto& fact : json["facts"].items())
      for (const char* key : {"value", "spread", "source"}) CHECK_MESSAGE(fact.value().contains(key), fact.key());
  }
}

TEST_CASE("on a machine of fakes times of the host are written, and a kernel's clock that says nothing is named") {
  BenchMachine machine;
  const std::string file = machine.scratch / "card.json";
  const BenchRun run = calibrate({file, "--rounds", "3"});
  check_named(run);
  CHECK(run.code == tj::tools::kExitFailures);
  CHECK(has(run.out, "measuring sm_90a on Fake H200"));
  CHECK(has(run.out, "left out of the file: exp2_per_cycle: it gave no result"));
  CHECK(has(run.out, "left out of the file: copy_latency_cycles: it gave no result"));
  const tj::arch::FactFile& facts = tj::arch::load_facts(file, "test");
  CHECK(facts.facts.count("memory_bytes_per_cycle") == 1);
  CHECK(has(facts.facts.at("memory_bytes_per_cycle").source, "Fake H200"));
  tj::Options options = machine.options();
  options.facts_file = file;
  CHECK(tj::Runtime(options).target_of({tj::DeviceKind::cuda, 0}) == "sm_90a+facts=" + facts.hash);
}

TEST_CASE("mistakes of the command line are refused, and write nothing") {
  BenchMachine machine;
  const std::string file = machine.scratch / "card.json";
  CHECK(has(calibrate({file, "--time-limit", "0"}).err, "--time-limit"));
  CHECK(has(calibrate({file, "--rounds", "0"}).err, "--rounds"));
  CHECK(calibrate({}).code == tj::tools::kExitBadUse);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("what cannot be measured is refused by name") {
  const tj::testing::Scratch scratch;
  const std::string file = scratch / "card.json";
  const BenchRun amd = calibrate({file, "--target", "model:gfx1100"});
  CHECK(amd.code != tj::tools::kExitOk);
  CHECK_MESSAGE(has(amd.err, "--calibrate has no probes for 'gfx1100', of vendor 'amd'"), amd.err);
  CHECK(calibrate({file, "--target", "sm_1"}).code == tj::tools::kExitBadUse);
  const BenchRun unwritable = calibrate({scratch / "none/card.json", "--target", "model:sm_80", "--rounds", "1"});
  CHECK(unwritable.code == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(unwritable.err, "none/card.json"), unwritable.err);
  CHECK_FALSE(std::filesystem::exists(file));
}
