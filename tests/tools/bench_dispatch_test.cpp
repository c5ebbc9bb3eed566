// Protects tj-bench --dispatch on a machine of fakes. Each number is of the launches that it says, and allocations are
// counted where somebody counts. A bare launch is the driver's own call alone. Kernels found on disk are told from
// others.
#include <doctest/doctest.h>

#include "bench_fixture.hpp"
#include "launch/driver.hpp"
#include "ops/fmha/params.cuh"
#include "prepared.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj::test;
namespace tools = tj::tools;

constexpr int kCalls = 64, kRounds = 2;

TEST_CASE("every op that the target serves has its numbers") {
  BenchMachine machine;
  const BenchRun result = machine.run({"--dispatch", "--rounds", "1"});
  CHECK_MESSAGE(result.code == tools::kExitOk, result.err);
  CHECK(result.json["device"] == "Fake H200 (sm_90a)");
  CHECK(result.json["calls_in_sample"] == kCalls);
  CHECK(result.json["problems"].size() == tj::ops::all().size());
  for (const auto& problem : result.json["problems"]) {
    CAPTURE(problem.dump());
    for (const char* number : {"call_ns", "bare_ns", "layer_ns", "no_context_ns"})
      CHECK(problem[number]["median"].get<double>() > 0);
    CHECK(problem["call_minus_bare_ns"]["samples"] == 1);
    const std::string op = problem["problem"].get<std::string>();
    bool step = false;  // steps of others have no prepare() of their own
    for (const char* of_others : {"copy_rows", "sum_parts", "delta_chunks"}) step = step || has(op, of_others);
    for (const char* number : {"prepare_ns", "disk_hit_us"}) CHECK(problem[number].is_null() == step);
    if (!step) CHECK(problem["disk_hit_us"]["samples"] == 10);
    CHECK(problem["allocations"].is_null());
    CHECK(problem["launches"].get<int>() >= 1);
  }
  for (const char* part : {"call ns", "bare launch ns", "call minus bare", "allocations", "disk hit us", "fmha B 1 H"})
    CHECK_MESSAGE(has(result.out, part), result.out);
}

TEST_CASE("samples are of so many calls each, and allocations are those of one call") {
  BenchMachine machine;
  std::uint64_t asked = 0;
  const BenchRun result =
      machine.run({"--dispatch", "--op", "fmha", "--rounds", std::to_string(kRounds)}, [&] { return asked++ * 3; });
  REQUIRE_MESSAGE(result.json["problems"].size() == 1, result.err);
  const auto& problem = result.json["problems"][0];
  CHECK(problem["allocations"] == 3);
  CHECK(problem["call_ns"]["samples"] == kRounds);
  CHECK(problem["plan_allocations"] == 3);
  CHECK(problem["plan_ns"]["samples"] == kRounds);
  CHECK(problem["plan_minus_bare_ns"]["samples"] == kRounds);
  // One call, one set of launches and one run of a plan to begin with, and those whose allocations are counted; then
  // calls, bare launches, the layer, calls without a context, runs of a plan and their bare launches.
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 5 + 6 * kCalls * kRounds);
  CHECK(machine.nvrtc.compiles() == 1);
}

TEST_CASE("a product in parts is as many launches as it takes, in all of its numbers") {
  BenchMachine machine;
  const BenchRun result = machine.run({"--dispatch", "--op", "gemm", "--m", "64", "--n", "64", "--k", "16384",
                                       "--dtype", "f16", "--rounds", std::to_string(kRounds)});
  REQUIRE_MESSAGE(result.json["problems"].size() == 1, result.err);
  CHECK(result.json["problems"][0]["launches"] == 2);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2 * (3 + 6 * kCalls * kRounds));
}

TEST_CASE("a bare launch is the driver's own call, with the parameters of the call") {
  BenchMachine machine;
  machine.cuda.set_param_bytes(sizeof(tj::ops::fmha::Params));
  tj::Runtime runtime(machine.options());
  const tj::FmhaArgs args = attention();
  const auto params = [&] {
    std::vector<char> bytes(4096);
    bytes.resize(machine.cuda.last_params(bytes.data(), bytes.size()));
    return bytes;
  };
  runtime.run(args);
  const std::vector<char> expected = params();
  CHECK(expected.size() == sizeof(tj::ops::fmha::Params));
  tj::CallPreparer preparer(tj::support::resolve_settings(machine.options()), tj::support::Log(tj::LogLevel::off, {}));
  const tj::PreparedCall call = preparer.prepare(*tj::ops::find("fmha"), &args);
  REQUIRE(call.launches.size() == 1);
  const std::string before = machine.cuda.log();
  call.launches[0].launch_bare({}, 3);
  std::string names;
  std::istringstream lines(std::string(machine.cuda.log()).substr(before.size()));
  for (std::string line; std::getline(lines, line);) names += line.substr(0, line.find(' ')) + "\n";
  CHECK(names ==
        "cuCtxGetCurrent\ncuCtxPushCurrent\ncuLaunchKernelEx\ncuLaunchKernelEx\ncuLaunchKernelEx\ncuCtxPopCurrent\n");
  CHECK(params() == expected);
  call.launch({});
  CHECK(params() == expected);
}

TEST_CASE("what is not on disk has no time of a hit") {
  BenchMachine machine;
  std::ofstream(machine.cache_dir()) << "a file where the folder should be";
  const BenchRun result = machine.run({"--dispatch", "--op", "chunk_indices", "--rounds", "1"});
  REQUIRE_MESSAGE(result.json["problems"].size() == 1, result.err);
  CHECK(result.json["problems"][0]["disk_hit_us"].is_null());
  CHECK(result.json["problems"][0]["call_ns"]["median"].get<double>() > 0);
}

TEST_CASE("on the model there is no launch to compare with") {
  BenchMachine machine;
  machine.cuda.set_devices(0);
  const BenchRun result = machine.run({"--dispatch"});
  CHECK(result.code == tools::kExitFailures);
  CHECK_MESSAGE(has(result.err, "calls on model:sm_90a run on the CPU"), result.err);
  CHECK(result.json.is_null());
}

}  // namespace
