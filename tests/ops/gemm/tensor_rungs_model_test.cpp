// Protects the ladder of matrix products in tensor memory: every rung solves the problems that it solves on warpgroups'
// instructions, and each leaves the scheduler what it says, and no more.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/problem.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;

TEST_CASE("every rung is right: odd sizes, orders, a batch, what is added, no iteration") {
  test::check_gemm_rungs("sm_100a");
}

TEST_CASE("a rung constrains the schedule as it says") {
  for (int rung = 1; rung <= 9; ++rung) {
    CAPTURE(rung);
    const ops::GemmRung& limits = ops::gemm_rungs()[static_cast<std::size_t>(rung)];
    const auto requests =
        ops::gemm_op().requests_for({{"rung", {limits.name}}, {"dtype", {"f16"}}}, *arch::find("sm_100a"));
    REQUIRE(requests.size() == 1);
    const Choice choice = choose(ops::gemm_op(), requests.front(), *arch::find("sm_100a"));
    const graph::Graph& graph = choice.candidate.graph;
    CHECK(sched::verify(graph, choice.schedule).empty());
    CHECK((choice.schedule.roles.size() == 1) == limits.one_role);
    for (const sched::Ring& ring : choice.schedule.rings)
      if (graph.values[static_cast<std::size_t>(ring.value)].scope == graph::Scope::iteration && limits.max_slots > 0)
        CHECK(ring.slots == limits.max_slots);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      CHECK((limits.max_stages == 0 || choice.schedule.stage(static_cast<int>(i)) < limits.max_stages));
    const bool engine = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                    [](const graph::Node& n) { return n.async == graph::Async::copy; });
    CHECK(engine != limits.thread_copies);
    const bool by_engine = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                       [](const graph::Node& n) { return n.async == graph::Async::store; });
    CHECK(by_engine != limits.thread_copies);
    CHECK(ops::gemm_tile_name(ops::gemm_tiles()[static_cast<std::size_t>(ops::gemm_kernel(requests.front()).tile)]) ==
          (limits.cluster > 1 ? "128x256x64c2x1" : "128x128x64"));
    CHECK(graph.cluster == limits.cluster);
    CHECK(choice.schedule.proven_ii);
  }
}

TEST_CASE("a tile's end loads so many columns of sums at once as a flag says: the same results, kernels of their own") {
  const arch::Arch& arch = *arch::find("sm_100a");
  test::StepKernels kernels("sm_100a");
  for (const int loads : {0, 1, 2}) {
    CAPTURE(loads);
    for (const char* tile : {"128x128x64", "64x32x128"}) {
      const ops::GemmChoice choice{test::gemm_tile_named(tile), 1, ops::kNoGemmRung, ops::WalkChoice::usual, loads};
      CHECK(ops::GemmChoice::of(choice.number()) == choice);
      test::GemmProblem problem(test::GemmShape{140, 136, 72}, 51);
      CHECK(kernels.run(problem, choice, 51, 2) == "");
    }
    const std::string columns = std::to_string(32 >> loads);
    const auto requests =
        ops::gemm_op().requests_for({{"dtype", {"f16"}}, {"rung", {"v7"}}, {"load-columns", {columns}}}, arch);
    REQUIRE(requests.size() == 1);
    CHECK((requests.front().name.find("_ld" + columns) != std::string::npos) == (loads > 0));
    CHECK(ops::gemm_kernel(requests.front()).loads == loads);
    const graph::Graph graph = choose(ops::gemm_op(), requests.front(), arch).candidate.graph;
    CHECK(std::any_of(graph.config.begin(), graph.config.end(), [&](const auto& member) {
            return member.first.find("kLoadColumns") != std::string::npos && member.second == columns;
          }) == (loads > 0));
  }
  ops::GemmKernel elsewhere;
  elsewhere.loads = 2;
  elsewhere.tile = test::gemm_tile_named("128x128x64");
  const Error error = testing::error_of([&] { ops::gemm_require(elsewhere, *arch::find("sm_90a")); });
  CHECK(error.message == "gemm: load-columns is 8; allowed on sm_90a, whose sums are in registers: 32");
}
