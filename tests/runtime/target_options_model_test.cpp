// Protects kernels of targets with options, and of the archs of Blackwell without a suffix. The CPU model gives right
// results, from units that are made for what the options leave.
#include <doctest/doctest.h>

#include <string>

#include <nlohmann/json.hpp>
#include <tilejit/tilejit.hpp>

#include "ops/gemm/parts.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

TEST_CASE("products under options, by threads' copies and by the engine's, are right and stay within the cap") {
  std::uint64_t seed = 1;
  for (const char* target : {"model:sm_90+copies=threads+smem=99K", "model:sm_90+smem=99K",
                             "model:sm_120a+copies=threads+smem=64K", "model:sm_100", "model:sm_110+smem=64K"}) {
    CAPTURE(std::string(target));
    Runtime& runtime = testing::model_runtime(target);
    test::GemmShape shape = test::gemm_shape(130, 300, 200);
    test::GemmProblem problem(shape, seed++);
    problem.run(runtime, {DeviceKind::cpu, 0});
    CHECK(problem.problem() == "");
    CHECK(runtime.target_of({DeviceKind::cpu, 0}) == target);
    const KernelReport report = runtime.prepare(GemmConfig{}, {DeviceKind::cpu, 0});
    CHECK(report.target == target);
    CHECK("model:" + nlohmann::json::parse(report.schedule_json).at("machine").get<std::string>() == target);
  }
}
