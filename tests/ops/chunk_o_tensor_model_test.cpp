// Protects chunk output on tensor memory: every shape that it has on warpgroup matrix instructions, on the CPU model, against f64; the roles and
// the stages that are found; by which heads an item may not have, what is refused.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/chunk_o.hpp"
#include "ops/chunk_o_checks.hpp"
#include "ops/chunk_o_problem.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

constexpr const char* kTarget = "model:sm_100a";

sched::Options usual() {
  sched::Options options;
  options.copies_apart = true;
  return options;
}
graph::Graph graph_of(int heads) {
  ops::ChunkOKernel kernel;
  kernel.divisor = heads;
  return ops::chunk_o_graph(kernel, heads, *arch::find("sm_100a"));
}

}  // namespace

TEST_CASE("lengths at the edges of chunks; what lies around sequences is neither read nor written") { test::check_chunk_edges(kTarget); }

TEST_CASE("no chunk at all, no sequence at all: nothing is written") { test::check_no_chunks(kTarget); }

TEST_CASE("ratios of heads, in items of one, two and three") { test::check_chunk_heads(kTarget); }

TEST_CASE("gates from 0 to where factors above the diagonal are infinite") { test::check_chunk_gates(kTarget); }

TEST_CASE("without gates, equal lengths, h as K x V, a scale, rows that are further apart, room for more chunks") { test::check_chunk_forms(kTarget); }

TEST_CASE("many more items than blocks, whole and partial chunks mixed") { test::check_many_chunks(kTarget); }

TEST_CASE("chunks that there is no room for are left out") { test::check_chunk_room(kTarget); }

TEST_CASE("lists that are wrong: nothing outside them is read, nothing outside o written") { test::check_wrong_lists(kTarget); }

TEST_CASE("random problems") { test::check_random_chunks(kTarget); }

TEST_CASE("roles are found: copies, products, who weighs, who finishes, stores; two stages, and nothing but memory is waited for") {
  for (const int heads : {1, 2}) {
    CAPTURE(heads);
    const graph::Graph graph = graph_of(heads);
    const sched::Schedule schedule = sched::schedule(graph, usual());
    REQUIRE(schedule.roles.size() == 5);
    CHECK(schedule.roles[0].name == "load");
    CHECK(schedule.roles[1].name == "mma");
    const auto role_of = [&](const char* node) { return schedule.role[static_cast<std::size_t>(graph.node_index(node))]; };
    CHECK(role_of("weigh") == role_of("fetch"));
    CHECK(role_of("stage_rows") == role_of("fetch_rows"));
    CHECK(role_of("weigh") != role_of("stage_rows"));
    CHECK(schedule.roles[4].name == "store");
    CHECK(schedule.cycle[static_cast<std::size_t>(graph.node_index("stage_rows"))] / schedule.ii == 1);
    CHECK(schedule.proven_ii);
    CHECK(has(schedule.certificate, "unit TMA"));
  }
}

TEST_CASE("one stage, and slots for scores and weights of two items") {
  for (const int heads : {1, 2}) {
    const graph::Graph graph = graph_of(heads);
    sched::Options options = usual();
    options.max_stages = 1;
    const sched::Schedule single = sched::schedule(graph, options);
    sched::Schedule ahead = sched::schedule(graph, usual());
    for (sched::Ring& ring : ahead.rings) {
      const graph::Value& value = graph.values[static_cast<std::size_t>(ring.value)];
      if (value.space == graph::Space::tensor) ring.slots = value.max_slots;
    }
    for (const sched::Schedule& schedule : {single, ahead}) {
      CHECK(sched::verify(graph, schedule).empty());
      test::EmittedKernel kernel(graph, schedule, *arch::find("sm_100a"));
      std::uint64_t seed = 1;
      for (const auto& lengths : std::vector<std::vector<int>>{{64}, {0}, {64, 20, 64, 130, 1, 64, 63, 64}})
        for (const unsigned blocks : {1u, 2u}) {
          test::ChunkOShape shape;
          shape.lengths = lengths;
          shape.v_heads = heads;
          shape.gate_scale = 3;
          shape.lead = 2;
          shape.tail = 3;
          CAPTURE(shape.text());
          CAPTURE(blocks);
          test::ChunkOProblem problem(shape, 900 + seed);
          ops::LaunchPlan plan;
          plan.sm_count = blocks;
          ops::chunk_o_plan(problem.args, heads, plan);
          CHECK(kernel.launch(plan, plan.blocks, seed++, {}) == "");
          CHECK(problem.problem() == "");
        }
    }
  }
}

TEST_CASE("items of three heads are refused by what there is; their ratio is served by items of one") {
  ops::ChunkOKernel kernel;
  kernel.divisor = 3;
  CHECK(ops::chunk_o_candidates(kernel, *arch::find("sm_100a")).size() == 1);
  kernel.heads = 3;
  const std::string message = testing::error_of([&] { ops::chunk_o_candidates(kernel, *arch::find("sm_100a")); }).message;
  CHECK_MESSAGE(has(message, "--item-heads is '3'; allowed on sm_100a: auto, 1, 2"), message);
}
