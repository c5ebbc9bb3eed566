// Protects the verifier: it accepts what the scheduler makes and rejects each kind of damage, naming it.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "attention_graph.hpp"
#include "graph/examples.hpp"
#include "random_graphs.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

struct Fixture {
  graph::Graph graph = test::attention_graph();
  sched::Schedule schedule = sched::schedule(graph);
  int node(const char* name) const { return graph.node_index(name); }
  int& cycle(const char* name) { return schedule.cycle[static_cast<std::size_t>(node(name))]; }
  sched::Ring& ring(const char* name) {
    return *std::find_if(schedule.rings.begin(), schedule.rings.end(), [&](const sched::Ring& each) {
      return graph.values[static_cast<std::size_t>(each.value)].name == name;
    });
  }
};

/// The damaged schedule must be rejected with a line that contains `part`.
void rejects(const char* part, const std::function<void(Fixture&)>& damage) {
  Fixture fixture;
  REQUIRE(sched::verify(fixture.graph, fixture.schedule).empty());
  damage(fixture);
  const auto lines = sched::verify(fixture.graph, fixture.schedule);
  CAPTURE(std::string(part));
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  CAPTURE(all);
  CHECK(all.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("damage is found and named") {
  rejects("edge load_k -> qk", [](Fixture& f) { f.cycle("load_k") += 300; });
  rejects("is short of", [](Fixture& f) { f.cycle("softmax.0") -= 1; });
  rejects("unit TC holds 2", [](Fixture& f) { f.cycle("pv.1") = f.cycle("qk.0") + 10 * f.schedule.ii + 5; });
  rejects("negative cycle", [](Fixture& f) { f.cycle("qk.1") = -4; });
  rejects("must be 0", [](Fixture& f) { f.cycle("load_q") = 7; });
  rejects("first node issues", [](Fixture& f) {
    for (std::size_t i = 0; i < f.graph.nodes.size(); ++i)
      if (f.graph.nodes[i].scope == graph::Scope::iteration) f.schedule.cycle[i] += 1;
  });
  rejects("length is", [](Fixture& f) { f.schedule.length += 1; });
  rejects("II is 0", [](Fixture& f) { f.schedule.ii = 0; });
  rejects("unit", [](Fixture& f) { f.schedule.ii -= 1; });
  rejects("cycles are given for", [](Fixture& f) { f.schedule.cycle.pop_back(); });
  rejects("belongs to role 7, which does not exist", [](Fixture& f) { f.schedule.role[0] = 7; });
  rejects("begins its steps at cycle -1", [](Fixture& f) { f.schedule.roles[0].origin = -1; });
  rejects("roles are given for", [](Fixture& f) { f.schedule.role.push_back(0); });
  rejects("is in 0 roles", [](Fixture& f) { f.schedule.roles[1].nodes.pop_back(); });
  rejects("is in 2 roles", [](Fixture& f) { f.schedule.roles[1].nodes.push_back(f.schedule.roles[1].nodes[0]); });
  rejects("does not exist", [](Fixture& f) { f.schedule.roles[1].nodes.push_back(99); });
  rejects("mixes nodes of variable latency", [](Fixture& f) {
    const int moved = f.schedule.roles[1].nodes.back();
    f.schedule.roles[1].nodes.pop_back();
    f.schedule.roles[0].nodes.push_back(moved);
    f.schedule.role[static_cast<std::size_t>(moved)] = 0;
  });
  rejects("leaves its role", [](Fixture& f) {
    f.schedule.role[static_cast<std::size_t>(f.node("pv.0"))] =
        f.schedule.role[static_cast<std::size_t>(f.node("pv.1"))];
  });
  rejects("out of the order of its cycles",
          [](Fixture& f) { std::swap(f.schedule.roles[1].nodes[0], f.schedule.roles[1].nodes[1]); });
  rejects("has 1 slots for a lifetime", [](Fixture& f) { f.ring("v").slots = 1; });
  rejects("has 9 slots, allowed are", [](Fixture& f) { f.ring("k").slots = 9; });
  rejects("bytes of SMEM", [](Fixture& f) { f.graph.machine.memory_bytes["SMEM"] = 100 * 1024; });
  rejects("crosses roles but has no ring", [](Fixture& f) { f.schedule.rings.pop_back(); });
  rejects("has two rings", [](Fixture& f) { f.schedule.rings.push_back(f.schedule.rings[0]); });
  rejects("names other consumers", [](Fixture& f) { f.ring("k").consumer_roles.pop_back(); });
  rejects("is filled by role", [](Fixture& f) { f.ring("k").producer_role = 1; });
  rejects("registers of", [](Fixture& f) { f.schedule.roles[1].registers = f.schedule.roles[2].registers = 248; });
  rejects("allowed are multiples", [](Fixture& f) { f.schedule.roles[0].registers = 25; });
  rejects("needs 42 registers", [](Fixture& f) { f.schedule.roles[1].registers = 40; });
  rejects("warps, node", [](Fixture& f) { f.schedule.roles[1].warps = 2; });
}

TEST_CASE("damage to turns is found") {
  Fixture whole;
  REQUIRE(whole.schedule.order_barriers.size() == 1);
  rejects("out of order", [](Fixture& f) {
    std::swap(f.schedule.order_barriers[0].roles[0], f.schedule.order_barriers[0].roles[1]);
    std::swap(f.schedule.order_barriers[0].nodes[0], f.schedule.order_barriers[0].nodes[1]);
  });
  rejects("leaves out", [](Fixture& f) {
    for (auto& nodes : f.schedule.order_barriers[0].nodes) nodes.pop_back();
  });
  rejects("unequal lists", [](Fixture& f) { f.schedule.order_barriers[0].nodes.pop_back(); });
  rejects("not an asynchronous node of its role",
          [](Fixture& f) { f.schedule.order_barriers[0].nodes[0][0] = f.node("softmax.0"); });
}

TEST_CASE("every shift of a node of a tight schedule is either legal by the definition or rejected") {
  // The definition, once more and in the plainest form: only edges and units, node by node.
  const auto legal = [](const graph::Graph& graph, const sched::Schedule& s) {
    for (const auto& e : graph.edges)
      if (s.cycle[static_cast<std::size_t>(e.dst)] + e.distance * s.ii <
          s.cycle[static_cast<std::size_t>(e.src)] + e.delay)
        return false;
    for (std::size_t u = 0; u < graph.machine.units.size(); ++u) {
      std::vector<int> slot(static_cast<std::size_t>(s.ii), 0);
      for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        for (const auto& use : graph.nodes[i].reservations)
          for (int c = 0; c < use.cycles && use.unit == static_cast<int>(u); ++c)
            slot[static_cast<std::size_t>((s.cycle[i] + use.start + c) % s.ii)] += use.count;
      for (const int used : slot)
        if (used > graph.machine.units[u].capacity) return false;
    }
    return true;
  };
  int rejected = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const graph::Graph graph = test::random_graph({6, 2, 2, 4, 6, 30, 2}, seed);
    const sched::Schedule schedule = sched::schedule(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      sched::Schedule moved = schedule;
      moved.cycle[i] += 1;
      if (legal(graph, moved)) continue;
      ++rejected;
      CHECK_FALSE(sched::verify(graph, moved).empty());
    }
  }
  CHECK(rejected > 100);
}

TEST_CASE("schedules of every option pass") {
  for (int copies = 1; copies <= 3; ++copies)
    for (int stages = 0; stages <= 3; ++stages)
      for (const bool zero : {false, true}) {
        const graph::Graph graph = test::attention_graph({copies, 24 * 1024, 227 * 1024, copies == 2});
        sched::Options options;
        options.max_stages = stages;
        options.streaming_latency_zero = zero;
        const auto lines = sched::verify(graph, sched::schedule(graph, options));
        CHECK_MESSAGE(lines.empty(), (lines.empty() ? std::string() : lines[0]));
      }
}
