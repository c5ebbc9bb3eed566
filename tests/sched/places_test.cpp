// Protects schedules of values that lie in one place of shared memory. The loop keeps their turns, rings take the bytes
// of their places, listings say where a ring lies, and the verifier sees each turn that is not kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "attention_graph.hpp"
#include "sched/rings.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;
using tj::testing::has;

namespace {

int value_of(const graph::Graph& graph, const std::string& name) {
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].name == name) return static_cast<int>(v);
  return -1;
}

/// Loads, two products and what is between them, in one role; v lies in k's place.
graph::Graph turns(bool shared) {
  graph::Graph graph;
  graph.name = "turns";
  graph.machine.name = "toy";
  graph.machine.units = {{"TC", 1}, {"LSU", 1}};
  graph.machine.memory_bytes["SMEM"] = 4096 + 256;
  const auto add = [&](const char* name, int unit, int cycles) {
    graph::Node node;
    node.name = name;
    node.cycles = node.latency = cycles;
    node.reservations.push_back({unit, 0, cycles, 1});
    graph.nodes.push_back(std::move(node));
  };
  add("load_k", 1, 20), add("qk", 0, 100), add("load_v", 1, 20), add("pv", 0, 100);
  for (const char* name : {"k", "v"}) graph.values.push_back({name, 2048});
  graph.edges = {{0, 1, 20, 0, false, 0}, {1, 3, 100, 0}, {2, 3, 20, 0, false, 1}, {3, 3, 100, 1}};
  if (shared) graph.values[1].lies_in = 0;
  return graph;
}

sched::Options one_role() {
  sched::Options options;
  options.mixed_roles = true;
  options.max_roles = 1;
  return options;
}

}  // namespace

TEST_CASE("turns of the loop bind the schedule, and take one place") {
  const graph::Graph apart = turns(false), together = turns(true);
  const sched::Schedule one = sched::schedule(apart, one_role()), other = sched::schedule(together, one_role());
  CHECK(sched::verify(apart, one).empty());
  CHECK(sched::verify(together, other).empty());
  CHECK(one.ii == 200);
  CHECK(other.ii == 240);  // a load follows each product, and the next product it
  CHECK(other.proven_ii);
  CHECK(has(other.certificate, "recurrence"));
  for (const sched::Ring& ring : other.rings) CHECK(ring.slots == 1);
  CHECK(sched::ring_bytes(together, other, {1, 1}) == 2048 + 32);
  CHECK(sched::ring_bytes(apart, one, {1, 1}) == 4096 + 32);
}

TEST_CASE("a machine without room for both places has a schedule only where they are one") {
  graph::Graph graph = turns(false);
  graph.machine.memory_bytes["SMEM"] = 3000;
  CHECK_THROWS_WITH_AS(sched::schedule(graph, one_role()), doctest::Contains("the rings need at least 4128 bytes"),
                       Error);
  graph.values[1].lies_in = 0;
  CHECK(sched::verify(graph, sched::schedule(graph, one_role())).empty());
}

TEST_CASE("the verifier names the node that fills a place too early") {
  const graph::Graph graph = turns(true);
  const sched::Schedule right = sched::schedule(graph, one_role());
  sched::Schedule wrong = right;
  wrong.cycle[2] = wrong.cycle[1];  // load_v while qk reads
  std::string all;
  for (const std::string& line : sched::verify(graph, wrong)) all += line + "\n";
  CHECK(all != "");
  // The order of the role is checked first; with it right, the place is what is wrong.
  const sched::Schedule apart = sched::schedule(turns(false), one_role());
  all.clear();
  for (const std::string& line : sched::verify(graph, apart)) all += line + "\n";
  CHECK(has(all, " in the place of "));
  CHECK((has(all, "'load_v' fills v at cycle") || has(all, "'load_k' fills k at cycle") ||
         has(all, "slots, must have 1")));
}

TEST_CASE("what follows in a tile lies in the other's place, and deepens rings") {
  graph::Graph graph = test::attention_graph();
  const sched::Schedule before = sched::schedule(graph);
  const int q = value_of(graph, "q"), v = value_of(graph, "v");
  REQUIRE(q >= 0);
  REQUIRE(v >= 0);
  // A value of the tile's end beside the others, then in the place of values.
  graph::Value o;
  o.name = "o";
  o.slot_bytes = 16 * 1024;
  o.scope = graph::Scope::tile_end;
  o.max_slots = 1;
  graph.values.push_back(o);
  graph::Node stage;
  stage.name = "stage";
  stage.scope = graph::Scope::tile_end;
  graph::Node put = stage;
  put.name = "put";
  put.drains = true;
  put.warps = 1;
  const int first = static_cast<int>(graph.nodes.size());
  graph.nodes.push_back(stage), graph.nodes.push_back(put);
  graph.edges.push_back({first, first + 1, 0, 0, true, static_cast<int>(graph.values.size()) - 1});
  const sched::Schedule apart = sched::schedule(graph);
  graph.values.back().lies_in = v;
  const sched::Schedule together = sched::schedule(graph);
  CHECK(sched::verify(graph, together).empty());
  const auto slots = [&](const sched::Schedule& schedule) {
    int sum = 0;
    for (const sched::Ring& ring : schedule.rings) sum += ring.slots;
    return sum;
  };
  CHECK(together.ii == apart.ii);
  CHECK(slots(together) >= slots(apart));
  CHECK(has(sched::to_text(graph, together), ", in the place of v\n"));
  CHECK(has(sched::to_json(graph, together), "\"lies_in\": \"v\""));
  CHECK_FALSE(has(sched::to_json(graph, apart), "lies_in\": \"v\"\n,"));
}
