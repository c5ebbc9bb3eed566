// Protects the promise of joint roles to graphs that ask nothing of roles: the modulo II and length, proven where those
// are. Also the words when a budget was gone.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/examples.hpp"
#include "random_graphs.hpp"
#include "sched/joint/joint.hpp"
#include "sched/schedule.hpp"

using namespace tj;

TEST_CASE("the example graphs: joint II and length are the modulo ones, loads in a role of their own") {
  for (const bool streaming : {false, true})
    for (const std::string& name : graph::example_names()) {
      CAPTURE(name);
      const graph::Graph graph = graph::example(name);
      sched::Options options;
      options.streaming_latency_zero = streaming;
      options.joint = false;
      const sched::Schedule modulo = sched::schedule(graph, options);
      options.joint = true;
      const sched::Schedule joint = sched::schedule(graph, options);
      CHECK(sched::verify(graph, joint).empty());
      CHECK(joint.ii == modulo.ii);
      CHECK(joint.length == modulo.length);
      CHECK(joint.proven_ii);
      CHECK(joint.proven_length);
      CHECK(joint.roles.size() == (name == "simplified_fa" ? 1 : 2));
      CHECK(sched::to_json(graph, joint).find("\"certificate\"") != std::string::npos);
    }
}

TEST_CASE("random graphs without roles, memory or registers: joint II and length are the modulo ones") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    test::RandomShape shape;
    shape.nodes = 3 + static_cast<int>(seed % 6);
    shape.max_capacity = 1 + static_cast<int>(seed % 3);
    const graph::Graph graph = test::random_graph(shape, 9000 + seed);
    sched::Options split;
    split.joint = false;
    const sched::Schedule modulo = sched::schedule(graph, split);
    const sched::JointResult joint = sched::joint_schedule(graph);
    CAPTURE(seed);
    CHECK(joint.ii == modulo.ii);
    CHECK(joint.length == modulo.length);
    CHECK(joint.proven_ii == modulo.proven_ii);
    CHECK(joint.proven_length == modulo.proven_length);
    CHECK(joint.roles == 1);
    CHECK(joint.proven_roles);
  }
}

TEST_CASE("waits alone do not make the joint schedule slower or longer: there are as many roles as it takes") {
  // Each node fills its unit and waits for the one before: no two fit into one role, whatever the usual size of the
  // pool.
  graph::Graph chain;
  chain.name = "chain";
  for (int i = 0; i < 8; ++i) {
    chain.machine.units.push_back({"U" + std::to_string(i), 1});
    graph::Node node;
    node.name = "n" + std::to_string(i);
    node.reservations = {{i, 0, 4, 1}};
    node.cycles = node.latency = 4;
    chain.nodes.push_back(node);
    if (i > 0) chain.edges.push_back({i - 1, i, 4, 0, true, -1, 0, false});
  }
  const sched::Schedule eight = sched::schedule(chain);
  CHECK(eight.ii == 4);
  CHECK(eight.length == 32);
  CHECK(eight.roles.size() > 6);
  CHECK(sched::verify(chain, eight) == std::vector<std::string>{});
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    test::RandomShape shape;
    shape.nodes = 6 + static_cast<int>(seed % 9);
    shape.units = 3;
    shape.max_capacity = 1 + static_cast<int>(seed % 3);
    graph::Graph graph = test::random_graph(shape, 19000 + seed);
    test::Random random(seed);
    for (graph::Node& node : graph.nodes) node.cycles = node.reservations[0].cycles;
    for (graph::Edge& edge : graph.edges) edge.blocking = random.chance(60);
    sched::Options options;
    options.joint = false;
    const sched::Schedule modulo = sched::schedule(graph, options);
    const sched::Schedule joint = sched::schedule(graph);
    CAPTURE(seed);
    CHECK(joint.joint);
    CHECK(joint.ii == modulo.ii);
    CHECK(joint.length == modulo.length);
    CHECK(sched::verify(graph, joint) == std::vector<std::string>{});
  }
}

TEST_CASE("a certificate calls infeasible only what is") {
  int not_found = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    graph::Graph graph = test::random_graph({8, 2, 2, 4, 6, 20, 2}, 23000 + seed);
    test::Random random(seed);
    graph.machine.max_registers_per_thread = 96;
    for (graph::Node& node : graph.nodes) {
      node.cycles = node.reservations[0].cycles;
      node.registers = 8 * random.between(1, 6);
    }
    for (graph::Edge& edge : graph.edges) edge.blocking = random.chance(50);
    sched::JointOptions options;
    const sched::JointResult full = sched::joint_schedule(graph, options);
    for (const std::uint64_t budget : {10, 40, 160}) {
      options.node_budget = budget;
      const sched::JointResult poor = sched::joint_schedule(graph, options);
      CAPTURE(seed);
      CAPTURE(budget);
      CAPTURE(poor.certificate);
      if (poor.found && full.found && poor.ii > full.ii && !poor.proven_ii) {
        const bool named = poor.certificate.find("II " + std::to_string(full.ii) + " with length") != std::string::npos;
        CHECK_FALSE((named && poor.certificate.find(" infeasible: ") != std::string::npos));
        not_found += poor.certificate.find("not found within the budget") != std::string::npos ? 1 : 0;
      }
    }
  }
  CHECK(not_found > 0);
}

TEST_CASE("a budget of one node proves nothing, and the same question gets the same answer") {
  const graph::Graph graph = graph::fa_hopper();
  sched::Options options;
  options.joint = true;
  const sched::Schedule first = sched::schedule(graph, options), again = sched::schedule(graph, options);
  CHECK(first.cycle == again.cycle);
  CHECK(first.role == again.role);
  CHECK(first.search_nodes == again.search_nodes);
  options.node_budget = 1;
  const sched::Schedule poor = sched::schedule(graph, options);
  CHECK_FALSE(poor.proven_length);
  CHECK(sched::verify(graph, poor).empty());
}
