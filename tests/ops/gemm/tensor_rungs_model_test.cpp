// Protects the ladder of matrix products in tensor memory: every rung solves the problems that it solves on warpgroups'
// instructions, and each leaves the scheduler what it says, and no more.
#include <doctest/doctest.h>

#include <algorithm>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"

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
