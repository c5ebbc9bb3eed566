// Protects tj-warm for AMD GPUs on a machine without one. Whichever compiler is there makes the kernels, by several
// threads and for targets of several archs at once. It says nothing of spills.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "compile/hip_here.hpp"
#include "support/scratch.hpp"
#include "tools/warm.hpp"

namespace {

TEST_CASE("kernels of several archs, made once and found again") {
  std::vector<std::string> words = {"--op", "fmha", "--dtype", "f16", "--head-dim", "64", "--jobs", "4", "--json"};
  std::size_t targets = 0;
  for (const char* arch : {"gfx90a", "gfx1100"}) {
    if (!tj::testing::hip_compiler(arch)) continue;
    words.insert(words.end(), {"--target", arch});
    ++targets;
  }
  if (targets == 0) tj::testing::need_hip_compiler({"gfx90a"});
  const tj::testing::Scratch folder;
  words.insert(words.end(), {"--cache-dir", folder / "cache"});
  for (const char* origin : {"compiled", "cached"}) {
    std::ostringstream out, err;
    REQUIRE_MESSAGE(tj::tools::warm(words, out, err, false) == tj::tools::kExitOk, err.str());
    CHECK(err.str() == "");
    const auto json = nlohmann::json::parse(out.str());
    CHECK(json["failures"] == 0);
    REQUIRE(json["kernels"].size() == 2 * targets);
    for (const auto& kernel : json["kernels"]) CHECK(kernel["origin"] == origin);
  }
}

}  // namespace
