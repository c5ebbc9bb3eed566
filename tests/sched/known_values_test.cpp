// Protects the answers that are known from elsewhere: II, length and bounds of small graphs, and the reason why they
// are minimal.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>

#include "attention_graph.hpp"
#include "graph/examples.hpp"
#include "random_graphs.hpp"
#include "sched/modulo/modulo.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using tj::testing::has;
using namespace tj;

void expect(const graph::Graph& graph, bool streaming_zero, int res_mii, int rec_mii, int ii, int length) {
  CAPTURE(graph.name);
  sched::Options options;
  options.streaming_latency_zero = streaming_zero;
  const sched::Schedule schedule = sched::schedule(graph, options);
  CHECK(schedule.res_mii == res_mii);
  CHECK(schedule.rec_mii == rec_mii);
  CHECK(schedule.ii == ii);
  CHECK(schedule.length == length);
  CHECK(schedule.proven_ii);
  CHECK(schedule.proven_length);
  CHECK(sched::verify(graph, schedule).empty());
}

graph::Node op(const char* name, std::vector<graph::Reservation> uses, int latency) {
  graph::Node node;
  node.name = name;
  node.reservations = std::move(uses);
  node.latency = latency;
  return node;
}

graph::Graph two_units() {
  graph::Graph graph;
  graph.name = "two_units";
  graph.machine.units = {{"CUDA", 2}, {"SFU", 1}};
  return graph;
}

std::string message_of(const graph::Graph& graph, const sched::Options& options = {}) {
  try {
    sched::schedule(graph, options);
  } catch (const Error& e) {
    CHECK(e.stage == Stage::schedule);
    return e.message;
  }
  return {};
}

}  // namespace

TEST_CASE("example graphs") {
  expect(graph::simplified_fa(), false, 2, 1, 2, 4);
  expect(graph::fa_hopper(), false, 4, 2, 4, 9);
  expect(graph::fa_blackwell(), false, 2, 1, 2, 7);
  expect(graph::simple_gemm(), false, 2, 2, 2, 4);
}

TEST_CASE("example graphs with streaming loads of latency 0") {
  expect(graph::simplified_fa(), true, 2, 1, 2, 4);
  expect(graph::fa_hopper(), true, 4, 2, 4, 8);
  expect(graph::fa_blackwell(), true, 2, 1, 2, 6);
  expect(graph::simple_gemm(), true, 2, 2, 2, 3);
}

TEST_CASE("a streaming flag alone changes no delay") {
  graph::Graph plain = graph::fa_hopper();
  for (auto& node : plain.nodes) node.streaming = false;
  CHECK(sched::schedule(plain).length == sched::schedule(graph::fa_hopper()).length);
}

TEST_CASE("units of several instances") {
  graph::Graph graph = two_units();
  graph.nodes = {op("op0", {{0, 0, 1, 2}, {1, 0, 1, 1}}, 1), op("op1", {{0, 0, 1, 2}}, 1)};
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.ii == 2);
  CHECK(schedule.proven_ii);
  CHECK(has(schedule.certificate, "CUDA"));
}

TEST_CASE("two chained operations in a recurrence") {
  graph::Graph graph;
  graph.name = "chain";
  graph.machine.units = {{"TC", 1}};
  graph.nodes = {op("a", {{0, 0, 2, 1}}, 2), op("b", {{0, 0, 2, 1}}, 2)};
  graph.edges = {{0, 1, 2, 0, false, -1, 0, false}, {1, 0, 2, 1, false, -1, 0, false}};
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.ii == 4);
  CHECK(schedule.rec_mii == 4);
  graph.machine.units[0].capacity = 2;  // now only the recurrence binds
  CHECK(has(sched::schedule(graph).certificate, "recurrence a -> b -> a"));
}

TEST_CASE("operations of zero cycles take no slot, and negative delays are legal") {
  graph::Graph graph;
  graph.name = "zero";
  graph.machine.units = {{"TC", 1}};
  graph.nodes = {op("a", {{0, 0, 1, 1}}, 1), op("b", {{0, 0, 0, 1}}, 0)};
  graph.edges = {{0, 1, -3, 0, false, -1, 0, false}};
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.ii == 1);
  CHECK(schedule.length == 1);
}

TEST_CASE("an II that only the search excludes says how many nodes that took") {
  // Recurrences pin a1 to a0 and b1 to b0 at distances whose gaps cannot interleave at II 6, though 6 slots are asked
  // for.
  graph::Graph graph;
  graph.name = "interleave";
  graph.machine.units = {{"U", 1}};
  graph.nodes = {op("a0", {{0, 0, 1, 1}}, 1), op("a1", {{0, 0, 2, 1}}, 1), op("b0", {{0, 0, 1, 1}}, 1),
                 op("b1", {{0, 0, 2, 1}}, 1)};
  const auto pin = [&](int from, int to, int distance) {
    graph.edges.push_back({from, to, distance, 0, false, -1, 0, false});
    graph.edges.push_back({to, from, -distance, 0, false, -1, 0, false});
  };
  pin(0, 1, 2);
  pin(2, 3, 2);
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.res_mii == 6);
  CHECK(schedule.ii > 6);
  CHECK(schedule.proven_ii);
  CHECK(has(schedule.certificate, "infeasible"));
  CHECK(sched::verify(graph, schedule).empty());
}

TEST_CASE("without budget the heuristic answers, legally and marked as unproven") {
  sched::Options options;
  options.node_budget = 1;
  const sched::Schedule schedule = sched::schedule(graph::fa_hopper(), options);
  CHECK_FALSE((schedule.proven_ii && schedule.proven_length));
  CHECK(sched::verify(graph::fa_hopper(), schedule).empty());
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const graph::Graph graph = test::random_graph({20, 4, 3, 50, 80, 20, 3}, seed);
    options.node_budget = seed % 2 == 0 ? 0 : 20;
    const sched::Schedule found = sched::schedule(graph, options);
    CHECK(sched::verify(graph, found).empty());
    CHECK(found.ii >= std::max(found.res_mii, found.rec_mii));
  }
}

TEST_CASE("iterative scheduling keeps every edge and unit") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const graph::Graph graph = test::random_graph({12, 3, 2, 9, 12, 30, 2}, seed);
    const sched::Problem problem = sched::make_problem(graph, std::vector<int>(graph.nodes.size(), 0), {}, false, {});
    const int ii = 2 * std::max(sched::resource_bound(problem).ii, sched::recurrence_bound(problem).ii);
    const auto cycle = sched::iterative_schedule(problem, ii);
    REQUIRE(cycle.has_value());
    for (const auto& edge : problem.edges)
      CHECK((*cycle)[static_cast<std::size_t>(edge.dst)] + edge.distance * ii >=
            (*cycle)[static_cast<std::size_t>(edge.src)] + edge.delay);
    for (std::size_t u = 0; u < problem.units.size(); ++u) {
      std::vector<int> slot(static_cast<std::size_t>(ii), 0);
      for (std::size_t i = 0; i < problem.uses.size(); ++i)
        for (const auto& use : problem.uses[i])
          for (int c = 0; c < use.cycles && use.unit == static_cast<int>(u); ++c)
            ++slot[static_cast<std::size_t>(((*cycle)[i] + use.start + c) % ii)],
                slot[static_cast<std::size_t>(((*cycle)[i] + use.start + c) % ii)] += use.count - 1;
      for (const int used : slot) CHECK(used <= problem.units[u].capacity);
    }
  }
}

TEST_CASE("the same graph gives the same schedule") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const graph::Graph graph = test::random_graph({15, 4, 2, 200, 300, 20, 3}, seed);
    const sched::Schedule a = sched::schedule(graph), b = sched::schedule(graph);
    CHECK(a.cycle == b.cycle);
    CHECK(a.search_nodes == b.search_nodes);
    CHECK(a.certificate == b.certificate);
  }
}

TEST_CASE("limits on stages and II") {
  const graph::Graph graph = test::attention_graph();
  for (int stages = 1; stages <= 3; ++stages) {
    sched::Options options;
    options.max_stages = stages;
    const sched::Schedule schedule = sched::schedule(graph, options);
    for (const int cycle : schedule.cycle) CHECK(cycle < stages * schedule.ii);
    CHECK(sched::verify(graph, schedule).empty());
  }
  sched::Options options;
  options.max_stages = 1;
  CHECK(sched::schedule(graph, options).ii > sched::schedule(graph).ii);
  options = {};
  options.min_ii = 5000;
  CHECK(sched::schedule(graph, options).ii == 5000);
  CHECK(has(sched::schedule(graph, options).certificate, "asked for"));
}

TEST_CASE("what cannot be scheduled is named") {
  sched::Options options;
  options.max_stages = -1;
  CHECK(has(message_of(graph::fa_hopper(), options), "max_stages is -1"));
  options = {};
  options.max_roles = -2;
  CHECK(has(message_of(graph::fa_hopper(), options), "max_roles is -2"));
  options = {};
  options.node_budget = sched::kMaxNodeBudget + 1;
  CHECK(has(message_of(graph::fa_hopper(), options), "node_budget is 1099511627777; at most 1099511627776"));
  graph::Graph graph = graph::simplified_fa();
  for (auto& node : graph.nodes) node.scope = graph::Scope::tile_begin;
  graph.edges.clear();
  CHECK(has(message_of(graph), "no iteration node"));
  // Two nodes tied to the same cycle on one unit: no II helps.
  graph::Graph tied;
  tied.name = "tied";
  tied.machine.units = {{"TC", 1}};
  tied.nodes = {op("a", {{0, 0, 1, 1}}, 1), op("b", {{0, 0, 1, 1}}, 1)};
  tied.edges = {{0, 1, 0, 0, false, -1, 0, false}, {1, 0, 0, 0, false, -1, 0, false}};
  CHECK(has(message_of(tied), "no schedule"));
}
