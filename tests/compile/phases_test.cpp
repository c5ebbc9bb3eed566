// Protects the times of a compile's phases. NVRTC's table is read, named and taken out of the log. A process's phases
// are the time that longer runs of it take beyond shorter ones. A job that does not want them is asked for nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "compile/backends.hpp"
#include "compile/phases.hpp"
#include "fakes/fake_nvrtc.hpp"

namespace {

using namespace tj::compile;

std::vector<std::string> names_of(const std::vector<Phase>& phases) {
  std::vector<std::string> names;
  for (const Phase& phase : phases) names.push_back(phase.name);
  return names;
}

TEST_CASE("NVRTC's table of times leaves the log, and its phases get the names that compilers share") {
  Binary binary;
  binary.log =
      "ptxas info    : Used 24 registers\n\nFile name, phase name, metric, unit\nunit.cu, CUDA C++ Frontend, 55, "
      "ms\nunit.cu, NVVM Optimizer, 142.5, ms\n"
      "unit.cu, PTX Translation, 31, ms\nunit.cu, Something New, 2, ms\na line behind it\n";
  take_nvrtc_times(binary);
  CHECK(names_of(binary.phases) == std::vector<std::string>{"front end", "optimiser", "ptxas", "Something New"});
  REQUIRE(binary.phases.size() == 4);
  CHECK(binary.phases[1].milliseconds == 142.5);
  CHECK(binary.log == "ptxas info    : Used 24 registers\n\na line behind it\n");
}

TEST_CASE("a log without a table, or with one that ends early, is left as it is") {
  for (const std::string log : {"", "unit.cu(1): warning\n", "File name, phase name\n"}) {
    Binary binary;
    binary.log = log;
    take_nvrtc_times(binary);
    CHECK(binary.phases.empty());
    CHECK(binary.log == log);
  }
  for (const std::string rest : {"", "\n", "\nunit.cu, NVVM Optimizer, many, ms\n", "\nunit.cu, NVVM Optimizer, 1, s\n",
                                 "\nunit.cu, , , ms\n"}) {
    Binary binary;
    binary.log = "File name, phase name, metric, unit" + rest;
    take_nvrtc_times(binary);
    CHECK(binary.phases.empty());
  }
  Binary cut;  // within the table's head, or right behind it
  cut.log = "before\nFile name, phase name, metric, unit";
  take_nvrtc_times(cut);
  CHECK(cut.log == "before\n");
}

TEST_CASE("a process's phases are what longer runs take beyond shorter ones, and add up to the whole") {
  const tj::support::PrivateDirectory directory;
  const std::vector<Phase> phases = phases_by_shorter_runs(
      {"/bin/sh", "-c"}, {{"one", {"exit 0"}}, {"two", {"sleep 0.05"}}}, directory, {}, 1e6, "rest");
  CHECK(names_of(phases) == std::vector<std::string>{"one", "two", "rest"});
  REQUIRE(phases.size() == 3);
  for (const Phase& phase : phases) CHECK(phase.milliseconds >= 0);
  CHECK(phases[0].milliseconds + phases[1].milliseconds >= 50);
  CHECK(phases[0].milliseconds + phases[1].milliseconds + phases[2].milliseconds == doctest::Approx(1e6));
  // A shorter run that took longer than the whole leaves nothing, not less.
  CHECK(phases_by_shorter_runs({"/bin/sh", "-c"}, {{"one", {"sleep 0.01"}}}, directory, {}, 1, "rest")
            .back()
            .milliseconds == 0);
  CHECK(phases_by_shorter_runs({"/bin/sh", "-c"}, {{"one", {"exit 0"}}, {"two", {"exit 3"}}}, directory, {}, 1, "rest")
            .empty());
}

TEST_CASE("NVRTC is asked for times by jobs that want them alone, and only where it knows the option") {
  const tj::test::FakeNvrtc fake;
  Job job;
  job.name = "unit.cu";
  job.text = "text";
  job.arch = "sm_90a";
  const auto nvrtc = make_nvrtc();
  const Binary plain = nvrtc->compile(job);
  CHECK(plain.phases.empty());
  job.time_phases = true;
  const Binary timed = nvrtc->compile(job);
  CHECK(names_of(timed.phases) == std::vector<std::string>{"front end", "optimiser", "ptxas"});
  CHECK(timed.bytes == plain.bytes);
  CHECK(timed.log == plain.log);
  CHECK(timed.registers == plain.registers);
  fake.know_times(0);
  CHECK(nvrtc->compile(job).phases.empty());
}

TEST_CASE("the host compiler tells its phases apart where there is one") {
  const auto host = make_host();
  if (!host->identity().present()) return;
  Job job;
  job.name = "unit.cpp";
  job.text = "int f(int x) { return x + 1; }";
  CHECK(host->compile(job).phases.empty());
  job.time_phases = true;
  const Binary binary = host->compile(job);
  CHECK(names_of(binary.phases) ==
        std::vector<std::string>{"front end", "optimiser and code generation", "assembler and linker"});
}

}  // namespace
