// Protects the limit that keeps copies apart. Reasons and certificates name it; it alone makes the roles more than they
// need be. The verifier holds a schedule to it, and options that exclude it are refused. Exactness is
// joint_brute_force's and oracle_joint's.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "sched/joint/joint.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

/// A copy brings what `copies` products use, on a unit with room for all of them: one role could do them.
graph::Graph products(int copies, bool loads = true) {
  graph::Graph graph;
  graph.name = "products";
  graph.machine.name = "toy";
  graph.machine.units = {{"IN", 1}, {"ALU", 8}};
  const auto add = [&](std::string name, int copy, int unit, int latency, bool load) {
    graph::Node node;
    node.name = std::move(name);
    node.copy = copy;
    node.latency = latency;
    node.cycles = 1;
    node.variable_latency = load;
    node.reservations = {{unit, 0, 4, 1}};
    graph.nodes.push_back(node);
  };
  if (loads) add("load", 0, 0, 20, true);
  for (int c = 0; c < copies; ++c) {
    add("work." + std::to_string(c), c, 1, 6, false);
    if (loads) graph.edges.push_back({0, c + 1, 20, 0, false, -1, 0, false});
  }
  return graph;
}

sched::JointOptions apart() {
  sched::JointOptions options;
  options.copies_apart = true;
  return options;
}

std::string lines(const graph::Graph& graph, const sched::Schedule& schedule) {
  std::string all;
  for (const std::string& line : sched::verify(graph, schedule)) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("a role for each copy, and the reason is that they are copies") {
  const graph::Graph graph = products(2, false);
  CHECK(sched::joint_schedule(graph).roles == 1);
  const sched::JointResult result = sched::joint_schedule(graph, apart());
  REQUIRE(result.roles == 2);
  const std::vector<sched::RolePair> pairs = sched::why_apart(graph, result, apart());
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].kept_by == std::vector<std::string>{"copies"});
  sched::JointOptions relaxed = apart();
  relaxed.relaxed.copies = true;
  CHECK(sched::joint_schedule(graph, relaxed).roles == 1);
}

TEST_CASE("copies and kinds of nodes are reasons of their own") {
  const graph::Graph graph = products(2);
  const sched::JointResult result = sched::joint_schedule(graph, apart());
  REQUIRE(result.roles == 3);
  int copies = 0, latency = 0;
  for (const sched::RolePair& pair : sched::why_apart(graph, result, apart())) {
    copies += pair.kept_by == std::vector<std::string>{"copies"} ? 1 : 0;
    latency += pair.kept_by == std::vector<std::string>{"variable latency"} ? 1 : 0;
  }
  CHECK(copies == 1);
  CHECK(latency == 2);
}

TEST_CASE("what is of no copy may join any, but does not bring two copies together") {
  sched::JointOptions options = apart();
  options.relaxed.variable_latency = true;
  for (const int pool : {0, 2, 3}) {
    CAPTURE(pool);
    options.max_roles = pool;
    const graph::Graph graph = products(2);
    const sched::JointResult result = sched::joint_schedule(graph, options);
    CAPTURE(result.certificate);
    REQUIRE(result.found);
    CHECK(result.roles == 2);
    CHECK(result.role[1] != result.role[2]);
    CHECK(result.proven_roles);
  }
}

TEST_CASE("fewer roles than copies, and copies that must share a role: no schedule, and why") {
  sched::JointOptions options = apart();
  options.max_roles = 2;
  sched::JointResult result = sched::joint_schedule(products(3, false), options);
  CHECK_FALSE(result.found);
  CHECK(result.proven_ii);
  CHECK(result.certificate.find("at least 3 roles are needed, 2 are allowed") != std::string::npos);
  graph::Graph tied = products(2, false);
  tied.edges.push_back({0, 1, 6, 0, false, -1, 0, true});
  result = sched::joint_schedule(tied, apart());
  CHECK_FALSE(result.found);
  CHECK(result.proven_ii);
  CHECK(result.binding == std::vector<std::string>{"copies"});
  CHECK(result.certificate.find("'work.0' and 'work.1' must share a role") != std::string::npos);
  CHECK(sched::joint_schedule(tied).found);
}

TEST_CASE("the verifier holds a schedule to it, joint or not") {
  const graph::Graph graph = products(2);
  for (const bool joint : {true, false}) {
    CAPTURE(joint);
    sched::Options options;
    options.copies_apart = true;
    options.joint = joint;
    const sched::Schedule schedule = sched::schedule(graph, options);
    CHECK(schedule.copies_apart);
    CHECK(schedule.roles.size() == 3);
    CHECK(lines(graph, schedule) == "");
  }
  sched::Schedule together = sched::schedule(graph, {});
  REQUIRE(together.roles.size() == 2);
  CHECK_FALSE(together.copies_apart);
  CHECK(lines(graph, together) == "");
  together.copies_apart = true;
  CHECK(lines(graph, together).find("runs work.0, of copy 0, and work.1, of copy 1, which must be apart") !=
        std::string::npos);
}

TEST_CASE("not together with mixed roles") {
  sched::Options options;
  options.copies_apart = options.mixed_roles = true;
  const Error error = testing::error_of([&] { sched::schedule(products(2), options); });
  CHECK(error.stage == Stage::schedule);
  CHECK(error.code == Code::invalid_argument);
  CHECK(error.message.find("copies_apart is set with mixed_roles") != std::string::npos);
}
