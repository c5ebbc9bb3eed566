// Protects that NVRTC compiles every probe of tj-bench --calibrate for each kind of NVIDIA GPU. The driver is the fake
// one, so no GPU is needed and no number means anything.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <tuple>

#include "compile/compiler.hpp"
#include "fakes/fake_cuda.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "support/skip.hpp"
#include "tools/bench.hpp"

namespace {

TEST_CASE("NVRTC compiles every probe") {
  if (!tj::compile::make_compiler("nvrtc", {})->identity().present()) tj::testing::skip("no NVRTC");
  const tj::testing::Scratch scratch;
  for (const auto& [major, minor, target] :
       {std::tuple{9, 0, "sm_90a"}, std::tuple{9, 0, "sm_90"}, std::tuple{8, 0, "sm_80"}, std::tuple{12, 0, "sm_120a"},
        std::tuple{10, 0, "sm_100"}, std::tuple{10, 0, "sm_100a"}}) {
    const std::string asked = target;
    CAPTURE(asked);
    tj::test::FakeCuda cuda;
    cuda.set_param_bytes(0);
    cuda.set_capability(major, minor);
    std::ostringstream out, err;
    tj::tools::bench({"--calibrate", scratch / (asked + ".json"), "--target", asked, "--rounds", "1"}, out, err);
    CHECK_MESSAGE(err.str().empty(), err.str());
    std::istringstream lines(out.str());
    int named = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!tj::testing::has(line, "left out of the file")) continue;
      CHECK_MESSAGE((tj::testing::has(line, ": it gave no result") || tj::testing::has(line, ": beyond ")), line);
      ++named;
    }
    CHECK(named > 3);
  }
}

}  // namespace
