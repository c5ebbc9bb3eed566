// Protects chunk output from its schedule: with turns, few slots, one stage, roles by the simple split or a single one,
// moved by hand or with other rings, the emitted unit computes the same, block by block and item after item.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/problem.hpp"

using namespace tj;

namespace {

graph::Graph graph_of(int heads, bool gated = true, const char* arch = "sm_90a") {
  ops::ChunkOKernel kernel;
  kernel.divisor = heads;
  kernel.gated = gated;
  return ops::chunk_o_graph(kernel, heads, *arch::find(arch));
}

sched::Options usual() {
  sched::Options options;
  options.copies_apart = true;
  return options;
}

/// No chunk, fewer items than slots and more, in blocks that do all, some or one of them.
void check_results(const graph::Graph& graph, const sched::Schedule& schedule, const ops::ChunkOLaunch& launch,
                   bool gated = true, const char* arch = "sm_90a") {
  const std::vector<std::string> problems = sched::verify(graph, schedule);
  CHECK_MESSAGE(problems.empty(), problems.front());
  test::EmittedKernel kernel(graph, schedule, *arch::find(arch));
  std::uint64_t seed = 1;
  for (const auto& lengths : std::vector<std::vector<int>>{{64}, {0}, {64, 20, 64, 130, 1, 64, 63, 64}})
    for (const unsigned blocks : {1u, 2u, 5u}) {
      test::ChunkOShape shape;
      shape.lengths = lengths;
      shape.v_heads = launch.heads;
      shape.gated = gated;
      shape.gate_scale = 3;
      shape.lead = 2;
      shape.tail = 3;
      CAPTURE(shape.text());
      CAPTURE(blocks);
      CAPTURE(seed);
      test::ChunkOProblem problem(shape, 900 + seed);
      ops::LaunchPlan plan;
      plan.sm_count = blocks;
      ops::chunk_o_plan(problem.args, launch, plan);
      CHECK(kernel.launch(plan, plan.blocks, seed++, {}) == "");
      CHECK(problem.problem() == "");
    }
}

}  // namespace

TEST_CASE("one stage and turns; roles by the simple split and two slots") {
  const graph::Graph graph = graph_of(2);
  sched::Options options = usual();
  options.max_stages = 1;
  options.order_barriers = true;
  check_results(graph, sched::schedule(graph, options), {.heads = 2});
  options = usual();
  options.joint = false;
  options.max_slots = 2;
  check_results(graph, sched::schedule(graph, options), {.heads = 2});
}

TEST_CASE("all heads in one role that computes; without gates") {
  const graph::Graph graph = graph_of(2, false);
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.roles.size() == 3);  // what loads, what computes, what stores
  check_results(graph, schedule, {.heads = 2}, false);
}

TEST_CASE(
    "changed by hand: states are loaded an item earlier, into a slot more; few slots for what is loaded, more for what "
    "is stored") {
  const graph::Graph graph = graph_of(1);  // has shared memory to spare
  const sched::Schedule found = sched::schedule(graph, usual());
  const auto value_of = [&](const sched::Ring& ring) -> const graph::Value& {
    return graph.values[static_cast<std::size_t>(ring.value)];
  };
  sched::Schedule changed = found;
  for (sched::Ring& ring : changed.rings)
    ring.slots = value_of(ring).min_slots + (value_of(ring).name[0] == 'h' ? 1 : 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].context != "StateLoader") changed.cycle[i] += changed.ii;
  changed.length += changed.ii;
  for (sched::Role& role : changed.roles)
    if (role.warps == 1) role.registers += 16;  // of a load under way
  check_results(graph, changed, {.heads = 1});
  changed = found;
  for (sched::Ring& ring : changed.rings)
    ring.slots = value_of(ring).name[0] == 'o' ? value_of(ring).max_slots : value_of(ring).min_slots;
  check_results(graph, changed, {.heads = 1});
}

TEST_CASE("over tensor memory: one stage, and slots for scores and weights of two items") {
  for (const int heads : {1, 2}) {
    CAPTURE(heads);
    const graph::Graph graph = graph_of(heads, true, "sm_100a");
    sched::Options options = usual();
    options.max_stages = 1;
    const sched::Schedule single = sched::schedule(graph, options);
    sched::Schedule ahead = sched::schedule(graph, usual());
    for (sched::Ring& ring : ahead.rings) {
      const graph::Value& value = graph.values[static_cast<std::size_t>(ring.value)];
      if (value.space == graph::Space::tensor) ring.slots = value.max_slots;
    }
    for (const sched::Schedule& schedule : {single, ahead})
      check_results(graph, schedule, {.heads = heads}, true, "sm_100a");
  }
}

TEST_CASE("warps and waves: one stage; copies by threads, by the engine and through registers") {
  for (const char* arch : {"sm_80", "sm_90", "gfx1100"}) {
    CAPTURE(arch);
    const graph::Graph graph = graph_of(1, true, arch);
    sched::Options options;
    options.max_stages = 1;
    options.max_slots = 1;
    const std::string waves = arch;
    check_results(graph, sched::schedule(graph, options),
                  {.parts = waves == "gfx1100" ? 2 : 1, .bulk_copies = waves == "sm_90"}, true, arch);
  }
}
