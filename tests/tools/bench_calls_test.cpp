// Protects tj-bench --op on a machine of fakes. Single calls are timed without the flush of the caches, replays are
// counted right, operands hold random values and outputs none. Bytes that a call leaves unwritten are a failure.
// Without a device nothing is timed. All that is said of some problems stands in data/bench.txt.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "bench_fixture.hpp"
#include "fakes/fake_nvml.hpp"
#include "launch/driver.hpp"
#include "support/expect.hpp"
#include "support/pinned.hpp"
#include "tools/bench_clock.hpp"
#include "tools/bench_memory.hpp"

namespace {

using namespace tj::test;
namespace tools = tj::tools;

/// Lines of the log that begin with one of these, each behind a comma.
std::string lines_of(const BenchMachine& machine, const std::vector<std::string>& calls) {
  std::istringstream lines(machine.cuda.log());
  std::string found;
  for (std::string line; std::getline(lines, line);)
    for (const std::string& call : calls)
      if (line.starts_with(call)) found += (found.empty() ? "" : ", ") + line;
  return found;
}

int blocks_of(const BenchMachine& machine, int nth_launch) {
  std::istringstream lines(machine.cuda.log());
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("cuLaunchKernelEx grid ", 0) == 0 && --nth_launch == 0) return std::stoi(line.substr(22));
  return 0;
}

/// Numbers as a person reads them: the last digits are the compiler's.
nlohmann::json rounded(nlohmann::json json) {
  if (json.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.5g", json.get<double>());
    return text;
  }
  if (json.is_structured())
    for (auto& each : json) each = rounded(each);
  return json;
}

void add_lines(const std::string& title, const std::string& text, std::vector<std::string>& lines) {
  lines.push_back("== " + title);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
}

TEST_CASE("both ways measure the call and nothing else, as often as they say") {
  BenchMachine machine;
  constexpr int kRounds = 2, kSingles = 2 + 3 * kRounds;
  const BenchRun result = machine.run({"--op", "gemm", "--m", "1024", "--n", "1024", "--k", "1024", "--dtype", "f16",
                                       "--rounds", std::to_string(kRounds)});
  CHECK(result.code == tools::kExitFailures);  // kernels of the fake write nothing
  CHECK_MESSAGE(has(result.err, "1048576 of 1048576 elements of d were not written"), result.err);
  REQUIRE(result.json["problems"].size() == 1);
  const auto& problem = result.json["problems"][0];
  CHECK(problem["ok"] == false);
  CHECK(problem["flops"] == 2.0 * 1024 * 1024 * 1024);
  CHECK(problem["bytes"] == 3.0 * 1024 * 1024 * 2);
  CHECK(has(problem["kernels"].get<std::string>(), problem["tile"].get<std::string>()));
  CHECK(problem["predicted_us"].get<double>() > 1);
  const int calls = problem["replayed"]["calls"];
  CHECK(problem["replayed"]["graph"] == true);
  // The first launch is the call whose output is looked at; a block takes a microsecond.
  const double us = blocks_of(machine, 1);
  CHECK(us > 1);
  for (const char* way : {"single", "replayed"}) {
    CAPTURE(way);
    const auto& times = problem[way]["us"];
    CHECK(times["median"].get<double>() == doctest::Approx(us));
    CHECK(times["p10"].get<double>() == doctest::Approx(us));
    CHECK(times["samples"] == 3 * kRounds);
    CHECK(problem[way]["tflops"].get<double>() == doctest::Approx(2.0 * 1024 * 1024 * 1024 / us * 1e-6));
    CHECK(problem[way]["gb_per_s"].get<double>() == doctest::Approx(3.0 * 1024 * 1024 * 2 / us * 1e-3));
  }
  CHECK(count_calls(machine.cuda, "cuGraphLaunch") == kRounds * (1 + 3 + 2));
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") ==
        1 + (1 + kSingles) + kSingles + calls);  // call, flushes, single calls, what was recorded
  for (const char* part : {"on Fake H200 (sm_90a)", "kernels: gemm_f16_kk_", "predicted", "single, caches flushed",
                           "TFLOP/s", "x predicted"})
    CHECK_MESSAGE(has(result.out, part), result.out);
  CHECK_FALSE(has(result.out, "SM clock"));  // nobody tells
  CHECK(std::string(machine.cuda.leaks()).find("memory") == std::string::npos);
}

TEST_CASE("where the driver has no graphs, replays are calls one after the other, as many and as long") {
  BenchMachine machine;
  constexpr int kNotFound = 500, kRounds = 2;
  machine.cuda.fail("cuGraphInstantiateWithFlags", 1, kNotFound);
  const BenchRun result = machine.run({"--op", "gemm", "--m", "1024", "--n", "1024", "--k", "1024", "--dtype", "f16",
                                       "--rounds", std::to_string(kRounds)});
  REQUIRE_MESSAGE(result.json["problems"].size() == 1, result.err);
  const auto& replayed = result.json["problems"][0]["replayed"];
  CHECK(replayed["graph"] == false);
  const int calls = replayed["calls"];
  CHECK(calls > 2);
  CHECK(replayed["us"]["median"].get<double>() == doctest::Approx(blocks_of(machine, 1)));
  constexpr int kSingles = 2 + 3 * kRounds;
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") ==
        1 + (1 + kSingles) + kSingles + calls + kRounds * (1 + 3 + 2) * calls);
  CHECK(count_calls(machine.cuda, "cuGraphLaunch") == 0);
}

TEST_CASE("a recording has as many calls as take two milliseconds, at least 2 and at most 40") {
  for (const auto& [block_us, least, most] :
       {std::tuple{0.001, 40, 40}, std::tuple{1000.0, 2, 2}, std::tuple{3.0, 3, 39}}) {
    BenchMachine machine;
    machine.cuda.set_block_ms(block_us / 1000);
    const BenchRun result =
        machine.run({"--op", "gemm", "--m", "1024", "--n", "1024", "--k", "1024", "--dtype", "f16", "--rounds", "1"});
    REQUIRE(result.json["problems"].size() == 1);
    const double us = blocks_of(machine, 1) * block_us;
    const int calls = result.json["problems"][0]["replayed"]["calls"];
    CAPTURE(us);
    CHECK(calls == std::clamp(static_cast<int>(2000 / std::max(us, 1.0)), 2, 40));
    CHECK(calls >= least);
    CHECK(calls <= most);
  }
}

TEST_CASE("a tile that is named is the one that is timed, and one that does not serve the sizes is refused") {
  BenchMachine machine;
  const BenchRun result = machine.run({"--op", "gemm", "--m", "512", "--n", "512", "--k", "512", "--dtype", "f16",
                                       "--tile", "64x128x64,128x128x64", "--rounds", "1"});
  REQUIRE_MESSAGE(result.json["problems"].size() == 2, result.err);
  CHECK(result.json["problems"][0]["tile"] == "64x128x64");
  CHECK(result.json["problems"][1]["tile"] == "128x128x64");
  CHECK(has(result.json["problems"][1]["kernels"].get<std::string>(), "128x128x64"));
  machine.refused({"--op", "gemm", "--m", "17", "--n", "64", "--k", "64", "--dtype", "f16", "--tile", "16x32x128"},
                  "--tile is '16x32x128', which does not serve 17x64x64 on sm_90a; allowed there: ");
}

TEST_CASE("a product in parts names all of its kernels") {
  BenchMachine machine;
  const BenchRun result =
      machine.run({"--op", "gemm", "--m", "64", "--n", "64", "--k", "16384", "--dtype", "f16", "--rounds", "1"});
  REQUIRE_MESSAGE(result.json["problems"].size() == 1, result.err);
  const std::string kernels = result.json["problems"][0]["kernels"];
  CHECK_MESSAGE(has(kernels, "_parts"), kernels);
  CHECK_MESSAGE(has(kernels, ", sum_parts"), kernels);
}

TEST_CASE(
    "attention is predicted from its schedule, with as many heads of keys as of queries and keys as queries unless "
    "told") {
  BenchMachine machine;
  const BenchRun result = machine.run({"--op", "fmha", "--batch", "1", "--heads", "40", "--seq-q", "512", "--head-dim",
                                       "128", "--causal", "true,false", "--rounds", "1"});
  REQUIRE_MESSAGE(result.json["problems"].size() == 2, result.err);
  const auto &causal = result.json["problems"][0], &full = result.json["problems"][1];
  CHECK(full["flops"] == 4.0 * 40 * 128 * 512 * 512);
  CHECK(causal["flops"] == 4.0 * 40 * 128 * (512 * 513 / 2));
  CHECK(full["bytes"] == 4.0 * 40 * 512 * 128 * 2);
  CHECK(full["predicted_us"].get<double>() > causal["predicted_us"].get<double>());
  CHECK(causal["predicted_us"].get<double>() > 0);
  CHECK(has(full["problem"].get<std::string>(), "--kv-heads 40"));
  CHECK(has(full["problem"].get<std::string>(), "--seq-k 512"));
}

TEST_CASE("operands hold random values and outputs bytes that no result has, until something is written") {
  BenchMachine machine;
  const auto driver = tj::launch::open_cuda(nullptr);
  REQUIRE(driver != nullptr);
  tj::ops::Trial trial;
  trial.tensors = {tj::ops::dense("a", tj::DType::f32, {3000, 1000}), tj::ops::list_of("ends", {3}, {0, 5, 9}),
                   tj::ops::dense("d", tj::DType::f16, {3, 5}, true)};
  std::vector<void*> seen;
  trial.with_args = [&](tj::Device, std::span<void* const> places, const std::function<void(const void*)>& use) {
    seen.assign(places.begin(), places.end());
    use(nullptr);
  };
  const tools::WorkloadMemory memory(trial, *driver, {tj::DeviceKind::cuda, 0}, 1);
  memory.with_args([](const void*) {});
  REQUIRE(seen.size() == 3);
  const float* a = static_cast<const float*>(seen[0]);  // the fake's memory is the host's
  double sum = 0, squares = 0;
  for (int i = 0; i < 3000 * 1000; ++i) {
    sum += a[i];
    squares += static_cast<double>(a[i]) * a[i];
  }
  CHECK(std::abs(sum / 3e6) < 0.01);
  CHECK(squares / 3e6 == doctest::Approx(1).epsilon(0.01));
  constexpr int kRepeats = 1 << 21;  // so many, and again the first
  CHECK(std::equal(a + kRepeats, a + 3000 * 1000, a));
  CHECK_FALSE(std::equal(a + kRepeats - 1, a + 3000 * 1000, a));
  CHECK(static_cast<const std::int32_t*>(seen[1])[2] == 9);
  CHECK(memory.bytes() == 3e6 * 4 + 3 * 4 + 15 * 2);
  CHECK(memory.unwritten() == "15 of 15 elements of d were not written");
  auto* d = static_cast<std::uint16_t*>(seen[2]);
  for (int i = 0; i < 14; ++i) d[i] = 0;
  CHECK(memory.unwritten() == "1 of 15 elements of d were not written");
  d[14] = 0;
  CHECK(memory.unwritten().empty());
}

TEST_CASE("large tensors go to the device and come back in pieces; what empties its caches is 256 MB each way") {
  BenchMachine machine;
  const auto driver = tj::launch::open_cuda(nullptr);
  REQUIRE(driver != nullptr);
  const tj::Device device{tj::DeviceKind::cuda, 0};
  tj::ops::Trial trial;
  trial.tensors = {tj::ops::dense("a", tj::DType::f16, {3, 1 << 20}),
                   tj::ops::dense("d", tj::DType::f32, {9, 1 << 19}, true)};
  {
    const tools::WorkloadMemory memory(trial, *driver, device, 1);
    CHECK(lines_of(machine, {"cuMemAlloc ", "cuMemcpyHtoD"}) ==
          "cuMemAlloc 6291456, cuMemcpyHtoD 4194304, cuMemcpyHtoD 2097152, cuMemAlloc 18874368, cuMemcpyHtoD 16777216, "
          "cuMemcpyHtoD 2097152");
    CHECK(memory.unwritten() == "4718592 of 4718592 elements of d were not written");
    CHECK(lines_of(machine, {"cuMemcpyDtoH"}) == "cuMemcpyDtoH 16777216, cuMemcpyDtoH 2097152");
  }
  machine.cuda.reset();
  machine.cuda.set_param_bytes(0);
  tj::Runtime runtime(machine.options());
  tools::CacheFlush flush(runtime, *driver, device);
  CHECK(lines_of(machine, {"cuMemAlloc "}) == "cuMemAlloc 268435456, cuMemAlloc 268435456");
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  CHECK(count_calls(machine.cuda, "cuCtxSynchronize") + count_calls(machine.cuda, "cuStreamSynchronize") == 1);
  flush();
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
}

TEST_CASE("without a device, or on the model, each problem is named as one that is not timed") {
  BenchMachine machine;
  const auto untimed = [&](const std::string& target) {
    const BenchRun result = machine.run({"--op", "gemm,chunk_o", "--m", "64"});
    CHECK(result.code == tools::kExitBadUse);  // --m is gemm's alone
    const BenchRun named = machine.run({"--op", "fmha", "--seq-q", "64", "--head-dim", "64,128"});
    CHECK(named.code == tools::kExitFailures);
    CHECK_MESSAGE(has(named.err, "not timed: fmha --dtype f16 --head-dim 64 "), named.err);
    CHECK_MESSAGE(has(named.err, "not timed: fmha --dtype f16 --head-dim 128 "), named.err);
    CHECK_MESSAGE(has(named.err, "the CPU model (" + target + ")"), named.err);
    REQUIRE(named.json["problems"].size() == 2);
    for (const auto& problem : named.json["problems"]) CHECK_FALSE(problem.contains("single"));
    CHECK(named.out.empty());
  };
  ::setenv("TJ_TARGET", "model:sm_90", 1);
  untimed("model:sm_90");
  ::unsetenv("TJ_TARGET");
  machine.cuda.set_devices(0);
  untimed("model:sm_90a");
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
}

TEST_CASE("launches begin beside those before them, or behind them, as is asked") {
  const std::vector<std::string> words = {"--op", "gemm", "--m", "512", "--n", "512", "--k", "512", "--rounds", "1"};
  for (const std::string overlap : {"true", "false"}) {
    BenchMachine machine;
    std::vector<std::string> asked = words;
    asked.insert(asked.end(), {"--overlap", overlap});
    CHECK(machine.run(asked).code == tools::kExitFailures);  // kernels of the fake write nothing
    const std::string launches = lines_of(machine, {"cuLaunchKernelEx"}),
                      first = launches.substr(0, launches.find(','));
    CHECK(has(first, "cuLaunchKernelEx grid "));  // the product's; those that flush caches come later
    CHECK(has(first, " waits itself") == (overlap == "true"));
  }
  BenchMachine machine;
  const BenchRun refused = machine.run({"--dispatch", "--overlap", "true"});
  CHECK(refused.code == tools::kExitBadUse);
  CHECK_MESSAGE(has(refused.err, "--overlap is 'true'; allowed with --dispatch: leave it out"), refused.err);
}

TEST_CASE("under --cycles each kernel's interval is said, and the clock is asked behind each way") {
  std::vector<std::string> words = {"--op", "gemm", "--m", "64", "--n", "64", "--k", "16384", "--rounds", "2"};
  int usual = 0;
  {
    BenchMachine machine;
    const BenchRun without = machine.run(words);
    REQUIRE_MESSAGE(without.json["problems"].size() == 1, without.err);
    CHECK_FALSE(without.json["problems"][0].contains("schedules"));
    usual = count_calls(machine.cuda, "cuLaunchKernelEx");
  }
  BenchMachine machine;
  words.emplace_back("--cycles");
  const BenchRun with = machine.run(words);
  REQUIRE_MESSAGE(with.json["problems"].size() == 1, with.err);
  // A clock: a launch that loads the kernel, and one that is recorded.
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == usual + 2 * 2 * 2);
  const auto& problem = with.json["problems"][0];
  const std::string kernels = problem["kernels"];
  REQUIRE(problem["schedules"].size() == 2);  // a product in parts, and their sum
  for (const auto& schedule : problem["schedules"]) {
    CHECK(has(kernels, schedule["kernel"].get<std::string>()));
    CHECK(schedule["ii"].get<int>() > 0);
    CHECK(has(with.out, schedule["kernel"].get<std::string>() + ": II " + schedule["ii"].dump()));
  }
  CHECK_FALSE(problem["single"].contains("clock_mhz"));  // the fake's kernels write no times: nothing is made up
  const BenchRun refused = machine.run({"--dispatch", "--cycles"});
  CHECK(refused.code == tools::kExitBadUse);
  CHECK_MESSAGE(has(refused.err, "--cycles is given; allowed with --dispatch: leave it out"), refused.err);
}

TEST_CASE("a driver that fails is told with its reason, and the other problems are still timed") {
  BenchMachine machine;
  machine.cuda.fail("cuGraphInstantiateWithFlags", 1, 719);
  const BenchRun result =
      machine.run({"--op", "gemm", "--m", "256", "--n", "256", "--k", "256", "--dtype", "f16,bf16", "--rounds", "1"});
  CHECK(result.code == tools::kExitFailures);
  CHECK_MESSAGE(has(result.err, "cuGraphInstantiateWithFlags failed with"), result.err);
  REQUIRE(result.json["problems"].size() == 2);
  CHECK_FALSE(result.json["problems"][0].contains("single"));
  CHECK(result.json["problems"][1].contains("single"));
}

TEST_CASE("what is printed and written of some problems is what is pinned") {
  const std::vector<std::string> square = {"--op", "gemm", "--m", "512", "--n", "512", "--k", "512", "--rounds", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), square.begin(), square.end());
    return more;
  };
  std::vector<std::string> lines;
  const auto add = [&](const char* title, BenchMachine& machine, const std::vector<std::string>& words) {
    const BenchRun result = machine.run(words);
    add_lines(std::string(title) + ", status " + std::to_string(result.code), result.out, lines);
    add_lines("errors", result.err, lines);
    add_lines("written", rounded(result.json).dump(1), lines);
  };
  BenchMachine machine;
  FakeNvml clocks;
  add("two types", machine, with({"--dtype", "f16,e4m3"}));
  clocks.set_clocks(1500, 1980);
  add("an SM's clock is told", machine, with({"--dtype", "bf16", "--seed", "9"}));
  add("attention", machine,
      {"--op", "fmha", "--batch", "2", "--heads", "3", "--seq-q", "300", "--head-dim", "64", "--rounds", "1"});
  add("indices, which no prediction is made of", machine, {"--op", "chunk_indices", "--rounds", "1"});
  tj::testing::check_pinned("tests/tools/data/bench.txt", lines);
}

TEST_CASE("the clock of an SM is that of the device asked about, and 0 where anybody refuses it") {
  BenchMachine machine;
  machine.cuda.set_devices(2);
  FakeNvml clocks;
  const tj::Device first{tj::DeviceKind::cuda, 0}, second{tj::DeviceKind::cuda, 1};
  CHECK(tools::SmClock(first).mhz() == 0);
  CHECK(tools::SmClock(first).most_mhz() == 0);
  clocks.set_clocks(1500, 1980);
  const tools::SmClock clock(first), other(second);
  CHECK(clock.mhz() == 1500);
  CHECK(clock.most_mhz() == 1980);
  CHECK(other.mhz() == 1501);
  CHECK(other.most_mhz() == 1981);
  clocks.set_clocks(1200, 1980);
  CHECK(clock.mhz() == 1200);
  CHECK(tools::SmClock({tj::DeviceKind::cpu, 0}).mhz() == 0);
  CHECK(tools::SmClock({tj::DeviceKind::cuda, 2}).mhz() == 0);  // there is none
  for (const char* call : {"nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2"}) {
    clocks.fail(call);
    const tools::SmClock refused(first);
    CHECK(refused.mhz() == 0);
    CHECK(refused.most_mhz() == 0);
  }
  clocks.fail(nullptr);
  const tools::SmClock known(first);
  clocks.fail("nvmlDeviceGetClockInfo");
  CHECK(known.mhz() == 0);
  CHECK(known.most_mhz() == 1980);
  clocks.fail("nvmlDeviceGetMaxClockInfo");
  CHECK(known.mhz() == 1200);
  CHECK(known.most_mhz() == 0);
  clocks.fail(nullptr);
  machine.cuda.reset();
  machine.cuda.fail("cuDeviceGetPCIBusId", 1, 999);
  CHECK(tools::SmClock(first).mhz() == 0);
}

}  // namespace
