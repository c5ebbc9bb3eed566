// Protects the joint constraints one at a time, on graphs small enough for their answers to be seen. Without such
// constraints the joint answers are the modulo ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/examples.hpp"
#include "joint_check.hpp"
#include "random_graphs.hpp"
#include "sched/joint/joint.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

int add(graph::Graph& graph, const std::string& unit, int cycles, int latency) {
  graph::Node node;
  node.name = "op" + std::to_string(graph.nodes.size());
  node.cycles = cycles;
  node.latency = latency;
  const int index = graph.machine.unit_index(unit);
  if (index >= 0) node.reservations.push_back({index, 0, std::max(cycles, 1), 1});
  graph.nodes.push_back(node);
  return static_cast<int>(graph.nodes.size()) - 1;
}

graph::Edge edge(int src, int dst, int delay, int distance = 0) {
  graph::Edge result;
  result.src = src;
  result.dst = dst;
  result.delay = delay;
  result.distance = distance;
  return result;
}

graph::Graph with_units(std::vector<graph::Unit> units) {
  graph::Graph graph;
  graph.name = "small";
  graph.machine.name = "small";
  graph.machine.units = std::move(units);
  graph.machine.register_step = 1;
  return graph;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

sched::JointResult solve(const graph::Graph& graph, const sched::JointOptions& options = {}) {
  const sched::JointResult result = sched::joint_schedule(graph, options);
  CAPTURE(graph::to_text(graph));
  CAPTURE(result.certificate);
  CHECK_FALSE(result.certificate.empty());
  CHECK_FALSE(result.binding.empty());
  if (result.found) {
    CHECK(test::joint_violation(graph, {result.ii, result.cycle, result.role}) == "");
    CHECK(sched::verify(graph, sched::to_schedule(graph, result)).empty());
  }
  return result;
}

TEST_CASE("a unit of two instances and one of one") {
  graph::Graph graph = with_units({{"CUDA", 2}, {"SFU", 1}});
  add(graph, "CUDA", 1, 1);
  add(graph, "CUDA", 1, 1);
  graph.nodes[0].reservations = {{0, 0, 1, 2}, {1, 0, 1, 1}};
  graph.nodes[1].reservations = {{0, 0, 1, 2}};
  const auto result = solve(graph);
  CHECK(result.ii == 2);
  CHECK(result.proven_ii);
  CHECK(has(result.binding, "unit"));
}

graph::Graph waiting_pair(int cycles) {
  graph::Graph graph = with_units({{"TC", 1}});
  add(graph, "TC", 2, 1);
  graph.nodes[0].reservations = {{0, 0, 2, 1}};
  graph.nodes[0].cycles = cycles;
  add(graph, "", 1, 1);
  graph.edges.push_back(edge(0, 1, 1));
  graph.edges.back().blocking = true;
  return graph;
}

TEST_CASE("a role that waits issues nothing, unless the node was asynchronous or takes no cycle") {
  sched::JointOptions one_role;
  one_role.max_roles = 1;
  const auto blocked = solve(waiting_pair(2), one_role);
  CHECK((blocked.ii > 2 || blocked.length > 2));
  CHECK(blocked.ii == 3);
  CHECK(has(blocked.binding, "concurrency"));
  const auto asynchronous = solve(waiting_pair(1), one_role);
  CHECK(asynchronous.ii == 2);
  CHECK(asynchronous.length == 2);
  const auto zero = solve(waiting_pair(0), one_role);
  CHECK(zero.ii == 2);
  CHECK(zero.length == 2);
  const auto two_roles = solve(waiting_pair(2));
  CHECK(two_roles.ii == 2);
  CHECK(two_roles.length == 2);
  CHECK(two_roles.roles == 2);
  CHECK(two_roles.proven_roles);
}

TEST_CASE("a value whose reader is done before the value begins takes no room") {
  graph::Graph graph = with_units({});
  graph.machine.memory_bytes["M"] = 4;
  for (const int bytes : {1, 2, 0})
    graph.nodes[static_cast<std::size_t>(add(graph, "", 0, 1))].memory_bytes["M"] = bytes;
  graph.edges = {edge(0, 1, -1),
                 edge(1, 2, 4)};  // the second value lives 5 cycles: below an II of 5 it fills a slot twice
  const auto result = solve(graph);
  CHECK(result.ii == 3);
  CHECK(result.length == 5);
}

TEST_CASE("a zero-cycle node issues together with the one that waits") {
  graph::Graph graph = with_units({});
  add(graph, "", 0, 1);
  add(graph, "", 0, 1);
  graph.edges.push_back(edge(0, 1, 0));
  graph.edges.back().blocking = true;
  sched::JointOptions one_role;
  one_role.max_roles = 1;
  const auto result = solve(graph, one_role);
  CHECK(result.ii == 1);
  CHECK(result.length == 1);
  graph.nodes[0].cycles = 1;
  CHECK(solve(graph, one_role).ii == 2);
}

TEST_CASE("a spill delays an edge between roles, and only there") {
  const auto spilled = [](int spill) {
    graph::Graph graph = with_units({});
    add(graph, "", 1, 1);
    graph.nodes[0].variable_latency = true;
    add(graph, "", 1, 1);
    graph.edges.push_back(edge(0, 1, 0));
    graph.edges.back().spill_cycles = spill;
    return graph;
  };
  const auto one = solve(spilled(1));
  CHECK(one.ii == 1);
  CHECK(one.length == 2);
  const auto two = solve(spilled(2));
  CHECK(two.ii == 1);
  CHECK(two.length == 3);
  graph::Graph together = spilled(2);
  together.nodes[0].variable_latency = false;
  CHECK(solve(together).length == 1);
}

TEST_CASE("300 words of registers over three roles") {
  const auto words = [](int limit) {
    graph::Graph graph = with_units({});
    graph.machine.max_registers_per_thread = limit;
    for (int i = 0; i < 3; ++i) {
      graph.nodes[static_cast<std::size_t>(add(graph, "", 1, 1))].registers = 100;
      graph.edges.push_back(edge(i, i, 1, 1));
    }
    return graph;
  };
  sched::JointOptions pool;
  pool.max_roles = 3;
  const auto fits = solve(words(100), pool);
  CHECK(fits.found);
  CHECK(fits.ii == 1);
  CHECK(fits.roles == 3);
  const auto not_fits = solve(words(99), pool);
  CHECK_FALSE(not_fits.found);
  CHECK(not_fits.proven_ii);
  CHECK(has(not_fits.binding, "registers"));
  pool.max_roles = 2;
  const auto too_few = solve(words(100), pool);
  CHECK_FALSE(too_few.found);
  CHECK(has(too_few.binding, "registers"));
  CHECK(has(too_few.binding, "roles"));
}

TEST_CASE("registers that move are rounded, and limited in sum") {
  graph::Graph graph = with_units({});
  graph.machine.register_roles = true;
  graph.machine.register_step = 8;
  graph.machine.max_registers_per_thread = 255;
  for (int i = 0; i < 3; ++i) {
    graph.nodes[static_cast<std::size_t>(add(graph, "", 1, 1))].registers = 161;  // 168 each
    graph.edges.push_back(edge(i, i, 1, 1));
  }
  const auto full = solve(graph);
  CHECK(full.roles == 3);  // 3 * 168 = 504 of 512
  CHECK(full.role_registers == std::vector<int>{168, 168, 168});
  graph.nodes[0].registers = 169;  // 176 + 2 * 168 = 512, but a block of three groups is launched with 168 each
  const auto over = solve(graph);
  CHECK_FALSE(over.found);
  CHECK(has(over.binding, "registers"));
}

TEST_CASE("limits that no II meets are told as such, and never scheduled around") {
  graph::Graph graph = with_units({{"TC", 1}});
  graph.machine.register_roles = true;
  for (int i = 0; i < 2;
       ++i) {  // carried, 160 each: no thread holds both, and a block has no room for two such roles and four more
    add(graph, "TC", 2, 2);
    graph.nodes.back().registers = 160;
    graph.edges.push_back(edge(i, i, 2, 1));
  }
  CHECK(solve(graph).roles == 2);
  graph.edges.push_back(edge(0, 1, 2));
  graph.edges.back().same_role = true;
  const auto tied = solve(graph);
  CHECK_FALSE(tied.found);
  CHECK(tied.proven_ii);
  CHECK(has(tied.binding, "registers"));
  CHECK(tied.certificate.find("320 registers a thread") != std::string::npos);
  CHECK_THROWS_AS(sched::schedule(graph), Error);
  graph.edges.pop_back();
  for (int i = 2; i < 4; ++i) {
    add(graph, "TC", 2, 2);
    graph.nodes.back().registers = 160;
    graph.edges.push_back(edge(i, i, 2, 1));
  }
  const auto many = solve(graph);
  CHECK_FALSE(many.found);
  CHECK(many.nowhere);
  CHECK(has(many.binding, "registers"));
  CHECK(many.search_nodes < 10'000);
  CHECK_THROWS_AS(sched::schedule(graph), Error);
}

TEST_CASE("two values of 100 columns with one reader, and one carried") {
  const auto columns = [](std::int64_t capacity) {
    graph::Graph graph = with_units({});
    graph.machine.memory_bytes["TMEM"] = capacity;
    for (int i = 0; i < 2; ++i) graph.nodes[static_cast<std::size_t>(add(graph, "", 1, 1))].memory_bytes["TMEM"] = 100;
    add(graph, "", 1, 1);
    graph.edges.push_back(edge(0, 2, 1));
    graph.edges.push_back(edge(1, 2, 1));
    return graph;
  };
  const auto fits = solve(columns(200));
  CHECK(fits.found);
  CHECK(has(fits.binding, "TMEM"));  // a second iteration in flight does not fit
  const auto not_fits = solve(columns(199));
  CHECK_FALSE(not_fits.found);
  CHECK(not_fits.proven_ii);
  CHECK(has(not_fits.binding, "TMEM"));
  const auto carried = [](std::int64_t bytes) {
    graph::Graph graph = with_units({});
    graph.machine.memory_bytes["TMEM"] = 512;
    graph.nodes[static_cast<std::size_t>(add(graph, "", 1, 1))].memory_bytes["TMEM"] = bytes;
    graph.edges.push_back(edge(0, 0, 1, 1));
    return graph;
  };
  CHECK(solve(carried(512)).ii == 1);
  graph::Graph waited = carried(512);  // the wait for the instance before the last one reads nothing
  waited.edges.push_back(edge(0, 0, 1, 2));
  CHECK(solve(waited).ii == 1);
  CHECK_FALSE(solve(carried(513)).found);
}

TEST_CASE("warps of a role: disjoint spans in one role, at once in two") {
  graph::Graph graph = with_units({});
  for (int i = 0; i < 2; ++i) graph.nodes[static_cast<std::size_t>(add(graph, "", 1, 1))].warp_cycles = 3;
  graph.edges.push_back(edge(0, 1, 1));
  const auto free = solve(graph);
  CHECK(free.ii == 3);  // a role each; one role would take 6
  CHECK(free.roles == 2);
  CHECK(free.length == 2);
  sched::JointOptions one;
  one.max_roles = 1;
  const auto shared = solve(graph, one);
  CHECK(shared.ii == 6);
  CHECK(shared.roles == 1);
  CHECK(has(shared.binding, "roles"));
  CHECK(has(shared.binding, "warps"));
  graph.edges.back().same_role = true;
  const auto tied = solve(graph);
  CHECK(tied.ii == 6);
  CHECK(tied.length == 4);
  CHECK(has(tied.binding, "unit"));
  CHECK(tied.certificate.find("warps of the role of op0") != std::string::npos);
  sched::Options split;
  split.joint = false;
  const sched::Schedule simple = sched::schedule(graph, split);
  CHECK(simple.ii == 6);
  CHECK(simple.certificate.find("warps of role compute0") != std::string::npos);
}

TEST_CASE("copies are issued as late as their readers allow, one after the other where their role's warps issue them") {
  graph::Graph graph = with_units({{"TC", 1}});
  for (int i = 0; i < 2; ++i) {
    graph::Node& copy = graph.nodes[static_cast<std::size_t>(add(graph, "", 1, 1))];
    copy.async = graph::Async::copy;
    copy.warp_cycles = 2;
  }
  add(graph, "", 1, 10);  // what the reader waits for longest
  add(graph, "TC", 5, 5);
  graph.edges = {edge(0, 3, 1), edge(1, 3, 1), edge(2, 3, 10)};
  const auto cycles = [&](const sched::JointOptions& options) {
    const sched::JointResult result = sched::joint_schedule(graph, options);
    CHECK(result.ii == 5);
    CHECK(result.role[0] == result.role[1]);
    return std::to_string(result.cycle[0]) + " and " + std::to_string(result.cycle[1]);
  };
  sched::JointOptions relaxed;
  relaxed.relaxed.warps = true;
  CHECK(cycles({}) == "8 and 6");  // the first moves beside the second at 0, then the second beside the first
  CHECK(cycles(relaxed) == "9 and 9");
}

TEST_CASE("bodies written for other numbers of warps, and values in shared memory, keep nodes in roles of their own") {
  graph::Graph graph = with_units({});
  for (int i = 0; i < 2; ++i) add(graph, "", 1, 1);
  graph.edges.push_back(edge(0, 1, 1));
  CHECK(solve(graph).roles == 1);
  graph.nodes[0].context = graph.nodes[1].context = "Worker";
  CHECK(solve(graph).roles == 1);
  graph.nodes[1].warps = 2;
  CHECK(solve(graph).roles == 2);
  graph.nodes[1].warps = 4;
  graph.values.push_back({"shared", 1024, 128, graph::Scope::iteration, 1, 4});
  graph.edges[0].value = 0;
  CHECK(solve(graph).roles == 2);
  graph.edges[0].same_role = true;
  const sched::JointResult nowhere = sched::joint_schedule(graph);
  CHECK_FALSE(nowhere.found);
}

TEST_CASE("a limit of slots is a limit of the search, and one left out is not") {
  graph::Graph graph = graph::fa_hopper();
  sched::JointOptions options;
  options.slots = {1, 1};
  const auto narrow = solve(graph, options);
  REQUIRE(narrow.found);
  for (int load = 0; load < 2; ++load) {
    const std::size_t reader = load == 0 ? 2 : 4;
    CHECK(narrow.cycle[reader] + graph.nodes[reader].latency - narrow.cycle[static_cast<std::size_t>(load)] <=
          narrow.ii);
  }
  graph.machine.memory_bytes["SMEM"] = 1024;
  CHECK_FALSE(solve(graph).found);
  options.slots.clear();
  options.relaxed.space = "SMEM";
  const sched::JointResult lifted = sched::joint_schedule(graph, options);
  CHECK(lifted.ii == 4);
  CHECK(lifted.length == 9);
}

TEST_CASE("two chained operations on a unit, with a cycle of distance 1 through both") {
  graph::Graph graph = with_units({{"TC", 1}});
  add(graph, "TC", 2, 2);
  add(graph, "TC", 2, 2);
  graph.edges.push_back(edge(0, 1, 2));
  graph.edges.push_back(edge(1, 0, 2, 1));
  const auto result = solve(graph);
  CHECK(result.ii == 4);
  CHECK(result.length == 4);
}

}  // namespace
