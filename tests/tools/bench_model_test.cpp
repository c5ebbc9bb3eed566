// Protects tj-bench --compile on the CPU model: the host compiler's phases, and a load without a GPU.
#include <doctest/doctest.h>

#include "bench_fixture.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj::test;

TEST_CASE("a kernel of the model has the host compiler's phases and is loaded") {
  BenchMachine machine;
  machine.cuda.set_devices(0);
  const BenchRun result = machine.run({"--compile", "--op", "chunk_indices", "--target", "model:sm_90a"});
  CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  REQUIRE(result.json["kernels"].size() == 1);
  const auto& ms = result.json["kernels"][0]["ms"];
  double parts = 0;
  for (const char* step : {"front end", "optimiser and code generation", "assembler and linker"})
    parts += ms[step]["median"].get<double>();
  CHECK(ms["front end"]["median"].get<double>() > 0);
  CHECK(parts >= ms["compiler"]["median"].get<double>() *
                     0.999);  // runs that end early took no less than what they are parts of
  CHECK(ms["load"]["median"].get<double>() > 0);
  CHECK_FALSE(result.json["kernels"][0].contains("not_loaded"));
  CHECK(result.json["kernels"][0]["registers"] == 0);
  const std::size_t row = result.out.find("model:sm_90a");
  REQUIRE(row != std::string::npos);
  CHECK(result.out.substr(row, result.out.find('\n', row) - row).ends_with(" -"));  // no compiler tells registers here
}

}  // namespace
