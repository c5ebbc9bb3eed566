// Protects that tj-warm without a target makes the kernels that calls on this machine's first GPU take. An op that its
// usual target does not serve gets the kernels of the target that does. The driver and the compiler are the fakes.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "runtime/runtime_fixture.hpp"
#include "tools/warm.hpp"

namespace {

using namespace tj::test;

struct Warmed {
  std::string target, said;
};
Warmed warmed(Machine& machine, const char* op) {
  std::ostringstream out, err;
  REQUIRE(tj::tools::warm({"--op", op, "--json", "--cache-dir", machine.cache_dir()}, out, err, false) ==
          tj::tools::kExitOk);
  const auto kernels = nlohmann::json::parse(out.str())["kernels"];
  REQUIRE(!kernels.empty());
  for (const auto& kernel : kernels) CHECK(kernel["target"] == kernels[0]["target"]);
  return {kernels[0]["target"], err.str()};
}

}  // namespace

TEST_CASE("on a data-center Blackwell kernels are made for every such GPU, chunk output's too, without a word") {
  for (const auto& [minor, usual] : {std::pair{0, "sm_100"}, std::pair{3, "sm_103"}}) {
    Machine machine;
    machine.cuda.set_capability(10, minor);
    CHECK(warmed(machine, "sum_parts").target == usual);
    const Warmed chunks = warmed(machine, "chunk_o");
    CHECK(chunks.target == usual);
    CHECK_MESSAGE(chunks.said.find("has no kernel") == std::string::npos, chunks.said);
    tj::Runtime runtime(machine.options());
    CHECK(runtime.prepare(tj::ChunkOConfig{}, {tj::DeviceKind::cuda, 0}).origin == tj::KernelOrigin::disk);
  }
}
