// Protects the exactness of the joint search. On tiny graphs with everything that can bind, II, length, roles and bytes
// between roles agree with plain enumeration of all cycles and roles.
#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "graph/graph.hpp"
#include "joint_check.hpp"
#include "random_graphs.hpp"
#include "sched/joint/joint.hpp"

namespace {

using namespace tj;

constexpr int kMaxRoles = 2;
constexpr int kMaxInterval = 7;

graph::Graph tiny_graph(std::uint64_t seed) {
  test::RandomShape shape;
  shape.nodes = 2 + static_cast<int>(seed % 3);
  shape.max_capacity = 1 + static_cast<int>(seed / 3 % 2);
  shape.max_cycles = 2;
  shape.max_delay = 2;
  graph::Graph graph = test::random_graph(shape, 40'000 + seed);
  test::Random random(seed);
  graph.machine.memory_bytes["M"] = random.between(2, 4);
  graph.machine.register_roles = random.chance(40);
  graph.machine.registers = 128 * (graph.machine.register_roles ? 8 * random.between(6, 12) : 48);
  graph.machine.max_registers_per_thread = 40;
  const bool registers = random.chance(50);
  for (graph::Node& node : graph.nodes) {
    node.cycles = random.between(0, 2);
    node.variable_latency = random.chance(20);
    if (random.chance(50)) node.memory_bytes["M"] = random.between(0, 2);
    if (registers) node.registers = random.between(0, 24);
  }
  for (graph::Edge& edge : graph.edges) {
    edge.blocking = random.chance(30);
    edge.spill_cycles = random.between(0, 2);
    edge.same_role = random.chance(10) && graph.nodes[test::spot(edge.src)].variable_latency ==
                                              graph.nodes[test::spot(edge.dst)].variable_latency;
  }
  return graph;
}

/// All cycles and roles within a length at one II.
class Enumeration {
 public:
  Enumeration(const graph::Graph& graph, int ii, int length, bool copies_apart) : graph_(graph), length_(length) {
    place_.ii = ii;
    place_.copies_apart = copies_apart;
    place_.cycle.assign(graph.nodes.size(), 0);
    place_.role.assign(graph.nodes.size(), 0);
  }
  /// Is there one that satisfies units and edges, with spills only between producers and others, and copies that are
  /// apart?
  bool modulo() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      place_.role[i] = test::by_itself(graph_.nodes[i]) ? 1 : place_.copies_apart && graph_.nodes[i].copy != 0 ? 2 : 0;
    only_units_ = true;
    cycles(0);
    return any_;
  }
  /// Is there one that satisfies everything? `roles` and `bytes` are the least then.
  bool joint() {
    roles(0);
    return any_;
  }
  int least_roles = 0;
  std::int64_t least_bytes = 0;

 private:
  void roles(std::size_t node) {
    if (node == graph_.nodes.size()) return cycles(0);
    for (int r = 0; r < kMaxRoles; ++r) {
      place_.role[node] = r;
      roles(node + 1);
    }
  }

  void cycles(std::size_t node) {
    if (only_units_ && any_) return;
    if (node == graph_.nodes.size()) return rate();
    for (int c = 0; c + test::length_of(graph_.nodes[node]) <= length_; ++c) {
      place_.cycle[node] = c;
      const bool holds = std::all_of(graph_.edges.begin(), graph_.edges.end(), [&](const graph::Edge& edge) {
        return std::max(edge.src, edge.dst) != static_cast<int>(node) ||
               (only_units_ ? spread_edge_holds(edge) : test::edge_holds(place_, edge));
      });
      if (holds) cycles(node + 1);
    }
  }

  bool spread_edge_holds(graph::Edge edge) const {
    edge.same_role = false;
    return test::edge_holds(place_, edge);
  }

  void rate() {
    if (only_units_) {
      any_ = test::units_hold(graph_, place_);
      return;
    }
    if (!test::joint_violation(graph_, place_).empty()) return;
    const int roles = 1 + (std::count(place_.role.begin(), place_.role.end(), place_.role.front()) <
                                   static_cast<std::ptrdiff_t>(place_.role.size())
                               ? 1
                               : 0);
    const std::int64_t bytes = test::sent_bytes(graph_, place_);
    if (!any_ || std::tie(roles, bytes) < std::tie(least_roles, least_bytes)) {
      least_roles = roles;
      least_bytes = bytes;
    }
    any_ = true;
  }

  const graph::Graph& graph_;
  int length_;
  bool only_units_ = false, any_ = false;
  test::Placement place_;
};

struct Answer {
  int ii = 0, length = 0, roles = 0;
  std::int64_t bytes = 0;
};

/// The rule of joint.hpp: at each II the lengths from the shortest modulo one, as long as the number of stages stays.
Answer brute_force(const graph::Graph& graph, int horizon, bool copies_apart) {
  for (int ii = 1; ii <= kMaxInterval; ++ii) {
    int shortest = 1;
    while (shortest <= horizon && !Enumeration(graph, ii, shortest, copies_apart).modulo()) ++shortest;
    if (shortest > horizon) continue;
    for (int length = shortest; length <= (shortest + ii - 1) / ii * ii; ++length) {
      Enumeration all(graph, ii, length, copies_apart);
      if (all.joint()) return {ii, length, all.least_roles, all.least_bytes};
    }
  }
  return {};
}

struct Counts {
  int found = 0, beyond = 0, constrained = 0, apart = 0;  ///< apart: two roles without a producer
};

void compare(const graph::Graph& graph, bool copies_apart, Counts& counts) {
  CAPTURE(graph::to_text(graph));
  sched::JointOptions options;
  options.max_roles = kMaxRoles;
  options.max_ii = kMaxInterval;
  options.copies_apart = copies_apart;
  const sched::JointResult result = sched::joint_schedule(graph, options);
  CAPTURE(result.certificate);
  const Answer expected = brute_force(graph, 14, copies_apart);
  CHECK(result.proven_ii);
  CHECK(result.found == (expected.ii > 0));
  if (!result.found || expected.ii == 0) {
    ++counts.beyond;
    return;
  }
  ++counts.found;
  counts.constrained += result.ii > result.modulo_ii || result.length > result.modulo_length ? 1 : 0;
  counts.apart += result.roles == 2 && std::none_of(graph.nodes.begin(), graph.nodes.end(), test::by_itself) ? 1 : 0;
  CHECK(test::joint_violation(graph, {result.ii, result.cycle, result.role, copies_apart}) == "");
  CHECK(result.ii == expected.ii);
  CHECK(result.length == expected.length);
  CHECK(result.proven_length);
  CHECK(result.roles == expected.roles);
  CHECK(result.cross_role_bytes == expected.bytes);
  CHECK(result.proven_roles);
}

TEST_CASE("tiny graphs: II, length, roles and bytes agree with enumeration") {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    compare(tiny_graph(seed), false, counts);
  }
  MESSAGE(counts.found << " found, " << counts.constrained << " longer than the modulo schedule, " << counts.beyond
                       << " without one");
  CHECK(counts.found >= 80);
  CHECK(counts.constrained >= 20);
  CHECK(counts.beyond >= 5);
}

TEST_CASE("the same with copies that are apart") {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    graph::Graph graph = tiny_graph(seed);
    test::Random random(7'000 + seed);
    for (graph::Node& node : graph.nodes) node.copy = random.between(0, 1);
    compare(graph, true, counts);
  }
  MESSAGE(counts.found << " found, " << counts.apart << " of them in two roles that compute, " << counts.beyond
                       << " without one");
  CHECK(counts.found >= 60);
  CHECK(counts.apart >= 30);
  CHECK(counts.beyond >= 20);
}

}  // namespace
