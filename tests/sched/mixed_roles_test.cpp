// Protects loops of one role: copies and the rest share it, what it reads itself has slots, the II is what those slots allow,
// and the verifier accepts that only where it was asked for, and still names each kind of damage.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include <tilejit/error.hpp>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using graph::Async;
using graph::Scope;

namespace {

constexpr int kCopyLatency = 900, kMatrix = 500, kMatrixLatency = 600;

/// Two copies into rings and a product that sums up, as a matrix product has them.
graph::Graph product() {
  graph::Graph g;
  g.name = "product";
  g.machine.name = "toy";
  g.machine.units = {{"TMA", 1}, {"TC", 1}};
  g.machine.memory_bytes["SMEM"] = 200 * 1024;
  g.machine.register_roles = true;
  const auto load = [&](const char* name) {
    graph::Node n;
    n.name = n.body = name;
    n.context = "Loader";
    n.async = Async::copy;
    n.variable_latency = n.streaming = true;
    n.warps = 1;
    n.latency = kCopyLatency;
    n.reservations = {{0, 0, 100, 1}};
    g.nodes.push_back(n);
    g.values.push_back({name, 16384, 1024, Scope::iteration, 1, 6});
  };
  load("a");
  load("b");
  graph::Node mma;
  mma.name = mma.body = "mma";
  mma.context = "Consumer";
  mma.async = Async::matrix;
  mma.cycles = mma.warp_cycles = 20;
  mma.latency = kMatrixLatency;
  mma.registers = 128;
  mma.reservations = {{1, 0, kMatrix, 1}};
  g.nodes.push_back(mma);
  g.edges = {{0, 2, kCopyLatency, 0, false, 0}, {1, 2, kCopyLatency, 0, false, 1}, {2, 2, kMatrix, 1}, {2, 2, kMatrixLatency, 2, true}};
  return g;
}

sched::Options one_role(int slots) {
  sched::Options options;
  options.max_roles = 1;
  options.mixed_roles = true;
  options.max_slots = slots;
  return options;
}

std::string complaints(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::string all;
  for (const std::string& line : sched::verify(graph, schedule)) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("one role: the II is a round through the slots, down to what the matrix unit takes") {
  const graph::Graph graph = product();
  int before = 1 << 20;
  for (int slots = 1; slots <= 4; ++slots) {
    CAPTURE(slots);
    const sched::Schedule schedule = sched::schedule(graph, one_role(slots));
    CHECK(complaints(graph, schedule) == "");
    CHECK(schedule.roles.size() == 1);
    CHECK(schedule.roles[0].name == "compute0");
    CHECK(schedule.roles[0].warps == 4);
    REQUIRE(schedule.rings.size() == 2);
    for (const sched::Ring& ring : schedule.rings) {
      CHECK(ring.slots == slots);
      CHECK(ring.consumer_roles == std::vector<int>{0});
    }
    // The second copy follows the first by the cycles that the copy engine takes.
    CHECK(schedule.ii >= std::max(kMatrix, (kCopyLatency + kMatrixLatency + slots - 1) / slots));
    CHECK(schedule.ii <= std::max(kMatrix, (kCopyLatency + 100 + kMatrixLatency + slots - 1) / slots));
    CHECK(schedule.proven_ii);
    CHECK(schedule.ii < before);
    before = schedule.ii;
  }
}

TEST_CASE("ordinary stores of the same warps: one thing after the other") {
  graph::Graph graph = product();
  for (int load : {0, 1}) {
    graph::Node& n = graph.nodes[static_cast<std::size_t>(load)];
    n.async = Async::none;
    n.variable_latency = false;
    n.warps = 4;
    n.reservations.clear();
    n.cycles = n.warp_cycles = kCopyLatency;
  }
  const sched::Schedule schedule = sched::schedule(graph, one_role(1));
  CHECK(complaints(graph, schedule) == "");
  CHECK(schedule.roles.size() == 1);
  CHECK(schedule.ii == 2 * kCopyLatency + kMatrixLatency);
}

TEST_CASE("what is not asked for is not done, and what cannot be is refused") {
  const graph::Graph graph = product();
  sched::Options options;
  options.max_slots = 2;
  CHECK(sched::schedule(graph, options).roles.size() == 2);
  options.max_roles = 1;
  CHECK_THROWS_AS(sched::schedule(graph, options), Error);
  options = one_role(2);
  options.joint = false;
  CHECK_THROWS_AS(sched::schedule(graph, options), Error);
  options = one_role(2);
  options.max_roles = 0;  // may be mixed, need not
  const sched::Schedule free = sched::schedule(graph, options);
  CHECK(complaints(graph, free) == "");
}

TEST_CASE("damage to a loop of one role is found and named") {
  const graph::Graph graph = product();
  const auto rejects = [&](const char* part, const std::function<void(sched::Schedule&)>& damage) {
    sched::Schedule schedule = sched::schedule(graph, one_role(2));
    REQUIRE(complaints(graph, schedule) == "");
    damage(schedule);
    const std::string all = complaints(graph, schedule);
    CAPTURE(all);
    CAPTURE(std::string(part));
    CHECK(all.find(part) != std::string::npos);
  };
  rejects("mixes nodes of variable latency with others", [](sched::Schedule& s) { s.mixed_roles = false; });
  rejects("slots for a lifetime of", [](sched::Schedule& s) { s.rings[0].slots = 1; });
  rejects("crosses roles but has no ring", [](sched::Schedule& s) { s.rings.pop_back(); });
  rejects("names other consumers than its readers", [](sched::Schedule& s) { s.rings[1].consumer_roles.clear(); });
  rejects("is short of", [](sched::Schedule& s) { s.cycle[2] -= 1; });
  rejects("out of the order of its cycles", [](sched::Schedule& s) { std::reverse(s.roles[0].nodes.begin(), s.roles[0].nodes.end()); });
}
