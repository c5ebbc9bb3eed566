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

TEST_CASE(
    "on a data-center Blackwell chunk output is made for tensor memory, with one warning, and all else for every such "
    "GPU") {
  for (const auto& [minor, usual, tensor] : {std::tuple{0, "sm_100", "sm_100a"}, std::tuple{3, "sm_103", "sm_103a"}}) {
    Machine machine;
    machine.cuda.set_capability(10, minor);
    CHECK(warmed(machine, "sum_parts").target == usual);
    const Warmed chunks = warmed(machine, "chunk_o");
    CHECK(chunks.target == tensor);
    CHECK_MESSAGE(has(chunks.said, "chunk_o has no kernel for '" + std::string(usual) + "'"), chunks.said);
    CHECK(chunks.said.find("chunk_o has", chunks.said.find("chunk_o has") + 1) == std::string::npos);
    tj::Runtime runtime(machine.options());
    CHECK(runtime.prepare(tj::ChunkOConfig{}, {tj::DeviceKind::cuda, 0}).origin == tj::KernelOrigin::disk);
  }
}
