// Protects tj-bench's manners: what is refused and how, exit codes, and the number that stands for many samples. An
// output which cannot be written is no success.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "bench_fixture.hpp"
#include "support/expect.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;
namespace tools = tj::tools;

TEST_CASE("help and version need nothing and are no failure") {
  BenchMachine machine;
  const BenchRun help = machine.run({"--help"}), version = machine.run({"--version"});
  CHECK(help.code == tools::kExitOk);
  for (const char* part : {"--op", "--dispatch", "--compile", "--driver", "--json", "--seq-q", "Exit codes"})
    CHECK_MESSAGE(has(help.out, part), std::string(part));
  CHECK(version.code == tools::kExitOk);
  CHECK(has(version.out, tj::version()));
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
}

TEST_CASE("bad use names the flag, its value and what is allowed") {
  BenchMachine machine;
  machine.refused({}, "give --op and its sizes");
  machine.refused({"--op", "conv"}, "--op is 'conv'; allowed: fmha");
  machine.refused({"--dispatch", "--op", "conv"}, "--op is 'conv'");
  machine.refused({"--m", "64"}, "--m belongs to no op");
  machine.refused({"--op", "gemm", "--colour", "red"}, "--colour means nothing to gemm");
  machine.refused({"--op", "gemm", "--timelin"}, "; did you mean --timeline?");
  machine.refused({"--timelin", "--m", "64"}, "; did you mean --timeline?");
  machine.refused({"--compile", "--target", "al"},
                  "--target is 'al'; allowed: names of targets, and all; did you mean 'all'?");
  machine.refused({"--op", "gemm", "--m", "0"}, "--m is '0'; allowed: 1 to");
  machine.refused({"--op", "gemm", "--m", "64,128"}, "--m is '64, 128'; allowed: one size of gemm");
  machine.refused({"--op", "gemm", "--dtype", "f64"}, "f64");
  machine.refused({"--op", "fmha", "--head-dim", "81"}, "81");
  machine.refused({"--op", "gemm", "--target", "sm_1"}, "sm_1");
  machine.refused({"--op", "gemm", "--target", "sm_90a,sm_90"},
                  "--target is given 2 times; allowed without --compile: one");
  machine.refused({"--dispatch", "--target", "sm_90a,sm_90"}, "--target is given 2 times");
  machine.refused({"--op", "gemm", "--rounds", "0"}, "--rounds");
  machine.refused({"--op", "gemm", "--rounds", "many"}, "many");
  machine.refused({"--op", "gemm", "--seed", "-1"}, "--seed");
  machine.refused({"--dispatch", "--compile"}, "--dispatch");
  machine.refused({"--start", "--compile"}, "--start");
  machine.refused({"--start", "--target", "sm_90a,sm_90"}, "--target is given 2 times");
  machine.refused({"--op"}, "--op");
  machine.refused({"--op", "--dispatch"}, "--op");
  machine.refused({"gemm"}, "'gemm' is not understood");
  machine.refused({"--dispatch", "--driver", machine.scratch / "nowhere"}, "--driver is '");
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
}

TEST_CASE("a driver that is given is one: another library is refused") {
  BenchMachine machine;
  machine.refused({"--dispatch", "--driver", std::string(TJ_FAKES_DIR) + "/libnvrtc.so.1"}, "cuInit is not in there");
}

TEST_CASE("an output that cannot be written is bad use, for both of them") {
  BenchMachine machine;
  std::ostringstream out, err;
  const std::vector<std::string> words = {"--compile", "--op",        "chunk_indices",    "--target",
                                          "sm_90a",    "--cache-dir", machine.cache_dir()};
  std::vector<std::string> nowhere = words;
  nowhere.insert(nowhere.end(), {"--json", machine.scratch / "none/bench.json"});
  CHECK(tools::bench(nowhere, out, err) == tools::kExitBadUse);
  CHECK_MESSAGE(has(err.str(), "--json: cannot write '"), err.str());
  CHECK_MESSAGE(has(err.str(), "No such file or directory"), err.str());
  out.setstate(std::ios::badbit);
  std::ostringstream said;
  CHECK(tools::bench(words, out, said) == tools::kExitBadUse);
  CHECK_MESSAGE(has(said.str(), "standard output is '"), said.str());
}

TEST_CASE("what has the name of an output stays what it is, as a link or a device has to") {
  BenchMachine machine;
  std::ostringstream out, err;
  const std::string link = machine.scratch / "link.json", file = machine.scratch / "file.json";
  std::filesystem::create_symlink(file, link);
  CHECK(tools::bench({"--compile", "--op", "chunk_indices", "--target", "sm_90a", "--cache-dir", machine.cache_dir(),
                      "--json", link},
                     out, err) == tools::kExitOk);
  CHECK_MESSAGE(err.str().empty(), err.str());
  CHECK(std::filesystem::is_symlink(link));
  CHECK(tj::testing::read_bytes(file).starts_with("{"));
}

TEST_CASE("--start: a kernel that the driver refuses ends the run, by its name, and is not made anew") {
  BenchMachine machine;
  const auto start = [&] { return machine.run({"--start", "--op", "chunk_indices", "--target", "sm_90a"}); };
  REQUIRE(run_warm({"--op", "chunk_indices", "--target", "sm_90a", "--cache-dir", machine.cache_dir()}).code ==
          tools::kExitOk);
  CHECK_MESSAGE(start().code == tools::kExitOk, start().err);
  const int compiles = machine.nvrtc.compiles();
  constexpr int kNoBinary = 209;
  machine.cuda.reset();
  machine.cuda.fail("cuModuleLoadData", 1, kNoBinary);
  const BenchRun refused = start();
  CHECK_MESSAGE(refused.code == tools::kExitFailures, refused.out);
  CHECK_MESSAGE(has(refused.err, "does not serve chunk_indices"), refused.err);
  CHECK_MESSAGE(has(refused.err, " does not load ("), refused.err);
  CHECK(has(refused.json.at("missing").get<std::string>(), "chunk_indices"));
  CHECK(machine.nvrtc.compiles() == compiles);
}

TEST_CASE("many samples stand as their median and tenths") {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i) samples.push_back(i);
  const tools::Spread spread = tools::spread_of(samples);
  CHECK(spread.median == 50);
  CHECK(spread.p10 == 10);
  CHECK(spread.p90 == 90);
  CHECK(spread.count == 101);
  CHECK(tools::spread_of({3}).p90 == 3);
  CHECK(tools::spread_of({4, 1}).median == 2.5);
  CHECK(tj::testing::error_of([] { tools::spread_of({}); }).code == tj::Code::internal);
  CHECK(tools::number_text(1.25, 1).size() == 3);
  CHECK(tools::number_text(std::numeric_limits<double>::quiet_NaN(), 1) == "-");
  CHECK(tools::number_text(INFINITY, 1) == "-");
}

}  // namespace
