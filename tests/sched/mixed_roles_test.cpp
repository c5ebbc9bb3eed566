// Protects loops of one role. Copies and the rest share it, a value that it reads itself has slots, and II and length
// are what those slots allow. The verifier accepts that only where it was asked for, and still names each kind of
// damage.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include <tilejit/error.hpp>

#include "graph/graph.hpp"
#include "random_graphs.hpp"
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
  g.edges = {{0, 2, kCopyLatency, 0, false, 0},
             {1, 2, kCopyLatency, 0, false, 1},
             {2, 2, kMatrix, 1},
             {2, 2, kMatrixLatency, 2, true}};
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
  rejects("mixes nodes of variable latency, bulk stores, or products that one thread asks for, with others",
          [](sched::Schedule& s) { s.mixed_roles = false; });
  rejects("slots for a lifetime of", [](sched::Schedule& s) { s.rings[0].slots = 1; });
  rejects("crosses roles but has no ring", [](sched::Schedule& s) { s.rings.pop_back(); });
  rejects("names other consumers than its readers", [](sched::Schedule& s) { s.rings[1].consumer_roles.clear(); });
  rejects("is short of", [](sched::Schedule& s) { s.cycle[2] -= 1; });
  rejects("out of the order of its cycles",
          [](sched::Schedule& s) { std::reverse(s.roles[0].nodes.begin(), s.roles[0].nodes.end()); });
}

namespace {

graph::Graph small_product(test::Random& random) {
  graph::Graph g = product();
  g.machine.register_roles = false;
  for (int i = 0; i < 3; ++i) {
    graph::Node& n = g.nodes[static_cast<std::size_t>(i)];
    n.registers = 0;
    const bool copy = i < 2 && random.between(0, 2) > 0;
    const int held = random.between(1, 3);
    n.latency = held + random.between(0, 4);
    n.cycles = copy ? 1 : i < 2 ? n.latency : 1;
    n.warp_cycles = copy ? 0 : n.cycles;
    n.reservations = {{i < 2 ? 0 : 1, 0, held, 1}};
    if (i < 2 && !copy) {
      n.async = Async::none;
      n.variable_latency = false;
      n.warps = 4;
      n.reservations.clear();
    }
  }
  const graph::Node& mma = g.nodes[2];
  for (int i = 0; i < 2; ++i) g.edges[static_cast<std::size_t>(i)].delay = g.nodes[static_cast<std::size_t>(i)].latency;
  g.edges[2].delay = mma.reservations[0].cycles;
  g.edges[3].delay = mma.latency;
  g.edges[3].distance = random.between(1, 2);
  return g;
}

/// The definition of what one role with so many slots asks of cycles at an II. `waits`: also that nothing else is being
/// issued where the role waits.
bool holds(const graph::Graph& g, int slots, int ii, const int (&t)[3], bool waits) {
  const auto modulo = [ii](int x) { return (x % ii + ii) % ii; };
  const auto overlap = [&](int i, int length_i, int j, int length_j) {
    if (length_i == 0 || length_j == 0) return false;
    return length_i + length_j > ii || modulo(t[j] - t[i]) < length_i || modulo(t[i] - t[j]) < length_j;
  };
  for (const graph::Edge& e : g.edges) {
    if (t[e.dst] + e.distance * ii < t[e.src] + e.delay) return false;
    if (e.value >= 0 &&
        t[e.src] + slots * ii < t[e.dst] + std::max(1, g.nodes[static_cast<std::size_t>(e.dst)].latency))
      return false;
  }
  for (int i = 0; i < 3; ++i) {
    const graph::Node& a = g.nodes[static_cast<std::size_t>(i)];
    if (a.warp_cycles > ii || (!a.reservations.empty() && a.reservations[0].cycles > ii)) return false;
    if (waits && i < 2 && (a.cycles >= ii || modulo(t[2] - t[i]) < a.cycles)) return false;
    for (int j = 0; j < i; ++j) {
      const graph::Node& b = g.nodes[static_cast<std::size_t>(j)];
      if (overlap(i, a.warp_cycles, j, b.warp_cycles)) return false;
      const bool one_unit =
          !a.reservations.empty() && !b.reservations.empty() && a.reservations[0].unit == b.reservations[0].unit;
      if (one_unit && overlap(i, a.reservations[0].cycles, j, b.reservations[0].cycles)) return false;
    }
  }
  return true;
}

/// The shortest length of at most `most` with these rules; 0 when there is none.
int shortest(const graph::Graph& g, int slots, int ii, int most, bool waits) {
  int best = 0;
  for (int a = 0; a <= most; ++a)
    for (int b = 0; b <= most; ++b)
      for (int c = 0; c <= most; ++c) {
        const int t[3] = {a, b, c};
        if (std::min({a, b, c}) != 0 || !holds(g, slots, ii, t, waits)) continue;
        int length = 0;
        for (int i = 0; i < 3; ++i)
          length = std::max(length, t[i] + std::max(1, g.nodes[static_cast<std::size_t>(i)].latency));
        if (length <= most && (best == 0 || length < best)) best = length;
      }
  return best;
}

}  // namespace

TEST_CASE("II and length of random loops of one role are those that trying all cycles finds") {
  for (unsigned seed = 1; seed <= 120; ++seed) {
    test::Random random(seed);
    const graph::Graph graph = small_product(random);
    const int slots = random.between(1, 3);
    CAPTURE(seed);
    CAPTURE(slots);
    const sched::Schedule schedule = sched::schedule(graph, one_role(slots));
    CHECK(complaints(graph, schedule) == "");
    REQUIRE(schedule.roles.size() == 1);
    int ii = 1, length = 0;
    for (; length == 0 && ii < 40; ++ii) {  // no longer pipeline than the shortest schedule without waits has stages
      const int without = shortest(graph, slots, ii, 30, false);
      if (without > 0) length = shortest(graph, slots, ii, (without + ii - 1) / ii * ii, true);
    }
    CHECK(schedule.ii == ii - 1);
    CHECK(schedule.length == length);
  }
}
