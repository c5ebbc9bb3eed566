// Protects the kernel contract on the side of results. The emitted unit computes the same attention whatever the
// schedule says. Schedules overlap or not, have other depths, roles and turns, and are changed by the scheduler's
// options or by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "model/model.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/fmha/sm90.hpp"
#include "sched/schedule.hpp"

using namespace tj;

namespace {

constexpr FmhaConfig kConfig{DType::f16, 64, true, false};
constexpr ops::FmhaGroupTile kTile{2, 128, true};

/// Attention whose blocks walk several tiles, so that rings go on from one to the next.
graph::Graph attention() {
  graph::Graph graph = ops::fmha_group_graph(kConfig, kTile, *arch::find("sm_90a"));
  graph.walk = graph::Walk::persistent;
  return graph;
}

// Compiles the schedule's unit for the model and runs it for trip counts of 0, 1, 2 and several.
void check_results(const graph::Graph& graph, const sched::Schedule& schedule) {
  const codegen::Unit unit = codegen::emit(graph, schedule, "sm90");
  INFO(unit.text);
  const auto driver = model::open_model_driver();
  const auto kernel = test::load_unit(*driver, unit, "sm_90a");
  const test::FmhaShape shapes[] = {
      {1, 1, 1, 40, 130, 64}, {1, 2, 1, 150, 100, 64}, {1, 1, 1, 300, 290, 64}, {1, 1, 1, 64, 700, 64}};
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    model::ModelOptions options;
    options.seed = seed;
    driver->set_options(options);
    for (test::FmhaShape shape : shapes) {
      shape.causal = true;
      CAPTURE(shape.text());
      CAPTURE(seed);
      test::FmhaProblem problem(shape, 40 + seed);
      ops::LaunchPlan plan;
      ops::fmha_plan(problem.args, {64 * kTile.consumers, kTile.block_n, true, true, 64}, plan);
      for (std::size_t m = 0; m < plan.map_count; ++m)
        driver->encode_tensor_map(0, plan.maps[m].desc, plan.params.data() + plan.maps[m].offset);
      // Fewer blocks than tiles: a block walks several, and the rings go on from one to the next.
      for (const unsigned blocks : {plan.blocks, 1u}) {
        driver->launch(0, *kernel, {{blocks, 1, 1}, unit.shape}, plan.params.data(), plan.params_bytes, {});
        CHECK(problem.problem() == "");
      }
    }
  }
}

}  // namespace

TEST_CASE("one stage, two stages, more: different text, same results") {
  const auto graph = attention();
  std::vector<std::string> texts;
  for (const int max_stages : {1, 2, 0}) {
    CAPTURE(max_stages);
    sched::Options options;
    options.max_stages = max_stages;
    const auto schedule = sched::schedule(graph, options);
    CHECK(sched::verify(graph, schedule).empty());
    texts.push_back(codegen::emit(graph, schedule, "sm90").text);
    check_results(graph, schedule);
  }
  CHECK(texts[0] != texts[2]);
}

TEST_CASE("a larger II, two slots, no turns") {
  const auto graph = attention();
  sched::Options options;
  options.min_ii = 6000;
  options.max_slots = 2;
  options.order_barriers = false;
  check_results(graph, sched::schedule(graph, options));
}

TEST_CASE("moved by hand: a node's stage, a load's role, slots") {
  const auto graph = attention();
  auto schedule = sched::schedule(graph);
  const auto v = static_cast<std::size_t>(graph.node_index("load_v"));
  SUBCASE("a load one iteration earlier or later") {
    schedule.cycle[v] += schedule.stage(static_cast<int>(v)) == 0 ? schedule.ii : -schedule.ii;
    check_results(graph, schedule);
  }
  SUBCASE("all consumers one stage later, the loads as before") {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (graph.nodes[i].scope == graph::Scope::iteration && graph.nodes[i].context == "Consumer")
        schedule.cycle[i] += schedule.ii;
    check_results(graph, schedule);
  }
  SUBCASE("slots") {
    for (auto& ring : schedule.rings)
      if (graph.values[static_cast<std::size_t>(ring.value)].scope == graph::Scope::iteration) ring.slots = 2;
    check_results(graph, schedule);
  }
  SUBCASE("a role of its own for the values' load") {
    sched::Role second = schedule.roles[0];
    second.name = "load_v";
    second.nodes = {static_cast<int>(v)};
    auto& first = schedule.roles[0].nodes;
    first.erase(std::find(first.begin(), first.end(), static_cast<int>(v)));
    for (auto& role : schedule.role) role += role > 0;
    schedule.role[v] = 1;
    for (auto& barrier : schedule.order_barriers)
      for (auto& role : barrier.roles) ++role;
    schedule.roles.insert(schedule.roles.begin() + 1, second);
    check_results(graph, schedule);
  }
  SUBCASE("a consumer that loads its values itself") {
    auto& first = schedule.roles[0].nodes;
    first.erase(std::find(first.begin(), first.end(), static_cast<int>(v)));
    schedule.roles[1].nodes.insert(schedule.roles[1].nodes.begin(), static_cast<int>(v));
    schedule.role[v] = 1;
    schedule.cycle[v] = schedule.cycle[static_cast<std::size_t>(graph.node_index("pv.0"))] - schedule.ii / 2;
    schedule.order_barriers.clear();
    check_results(graph, schedule);
  }
}
