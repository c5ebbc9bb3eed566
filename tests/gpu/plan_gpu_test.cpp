// Protects plans on a real device: every op's plan writes what its call writes, on a thread where no context is
// current.
#include <doctest/doctest.h>

#include <cstdio>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/plan_trial.hpp"

using namespace tj;

TEST_CASE("runs of plans write the bits that calls write") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CHECK(test::plan_differences(Runtime::instance(), test::gpu(), seed) == "");
}
