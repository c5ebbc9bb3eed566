// Protects plans of every op on the CPU model, one target for each family: a plan that was made without memory writes
// what the call writes, and touches nothing else.
#include <doctest/doctest.h>

#include "common/random.hpp"
#include "ops/plan_trial.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

TEST_CASE("runs of plans write the bits that calls write") {
  const std::uint64_t seed = tj::samples::fresh_seed();
  CAPTURE(seed);
  for (const char* target : {"model:sm_90a", "model:sm_100a", "model:sm_80", "model:gfx1100"}) {
    if (!tj::testing::full_run() && std::string(target) != "model:sm_90a" &&
        (tj::testing::kSanitized || std::string(target) != "model:gfx1100"))
      continue;
    CAPTURE(target);
    CHECK(tj::test::plan_differences(tj::testing::model_runtime(target), {tj::DeviceKind::cpu, 0}, seed) == "");
  }
}
