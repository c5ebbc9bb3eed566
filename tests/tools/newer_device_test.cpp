// Protects tools on a device that is newer than the compiler: they make, keep and time PTX, as calls take it.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "bench_fixture.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;
using tj::testing::Variable;

TEST_CASE("a device that is newer than the compiler: tj-warm keeps PTX that calls find, and a named target is obeyed") {
  BenchMachine machine;
  machine.cuda.set_capability(11, 0);  // the fake NVRTC knows 9.0, 10.0 and 10.3
  const Variable none("TJ_TARGET", "");
  const std::vector<std::string> words = {"--op", "gemm", "--tile", "128x128x32", "--cache-dir", machine.cache_dir()};
  for (const char* origin : {"compiled", "already in the cache"}) {
    const ToolRun run = run_warm(words);
    CHECK_MESSAGE(run.code == tj::tools::kExitOk, run.err);
    CHECK_MESSAGE(has(run.out, origin), run.out);
    CHECK_MESSAGE(has(run.out, "0 failed"), run.out);
  }
  CHECK(has(run_warm({"--list", "--cache-dir", machine.cache_dir()}).out, "sm_110+code=ptx"));
  std::vector<std::string> named = words;
  named.insert(named.end(), {"--target", "sm_110"});
  const ToolRun refused = run_warm(named);
  CHECK(refused.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(refused.err, "\"sm_110\" is not one that NVRTC 13.0"), refused.err);
}

TEST_CASE("a device that is newer than the compiler: tj-bench times PTX, and says so") {
  BenchMachine machine;
  machine.cuda.set_capability(11, 0);
  const Variable none("TJ_TARGET", "");
  const BenchRun compiled = machine.run({"--compile", "--op", "gemm"});
  CHECK_MESSAGE(compiled.code == tj::tools::kExitOk, compiled.err);
  CHECK_MESSAGE(has(compiled.out, "sm_110+code=ptx"), compiled.out);
  CHECK_MESSAGE(has(compiled.err, "\"sm_110\" is not one that NVRTC 13.0"), compiled.err);
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));  // what was refused there is for calls to remember
  const BenchRun named = machine.run({"--compile", "--op", "gemm", "--target", "sm_110"});
  CHECK_MESSAGE(named.code == tj::tools::kExitFailures, named.out);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--dispatch", "--op", "gemm", "--rounds", "1"},
        {"--op", "gemm", "--m", "256", "--n", "256", "--k", "256", "--rounds", "1"}}) {
    const BenchRun run = machine.run(words);
    CHECK_MESSAGE(has(run.err, "takes kernels as PTX"), run.err);
    CHECK_MESSAGE(has(machine.cuda.log(), "cuModuleLoadData PTX of 103\n"), machine.cuda.log());
  }
}

}  // namespace
