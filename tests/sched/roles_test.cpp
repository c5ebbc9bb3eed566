// Protects the division of blocks and registers. That is how many groups of warps roles open, how many registers a
// thread of each group gets, and which roles nodes belong to. A wrong number here is a launch that the driver refuses,
// or a role whose accumulators do not fit.
#include "sched/roles.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/expect.hpp"

namespace {

using namespace tj;
using graph::Async;
using sched::RoleKind;
using testing::error_of;
using testing::has;

sched::Role role(const char* name, int warps) {
  sched::Role role;
  role.name = name;
  role.warps = warps;
  return role;
}

std::vector<int> groups(std::vector<sched::Role> roles) {
  sched::Schedule schedule;
  schedule.roles = std::move(roles);
  return sched::groups_of(graph::Machine{}, schedule);
}

/// A copy, and so many copies of a consumer of its own.
graph::Graph consumers(int count, bool copies = true) {
  graph::Graph graph;
  graph.name = "g";
  graph.machine.register_roles = true;
  graph.machine.max_registers_per_thread = 240;
  const auto add = [&](const std::string& name, Async async, int copy) {
    graph::Node node;
    node.name = name;
    node.async = async;
    node.copy = copy;
    node.warps = async == Async::copy ? 1 : 4;
    graph.nodes.push_back(node);
  };
  if (copies) add("load", Async::copy, 0);
  for (int c = 0; c < count; ++c) add("use." + std::to_string(c), Async::none, c);
  return graph;
}

/// Registers of each role.
std::vector<int> registers(const graph::Graph& graph) {
  sched::Schedule schedule;
  sched::assign_roles(graph, schedule);
  std::vector<int> found;
  for (const sched::Role& each : schedule.roles) found.push_back(each.registers);
  return found;
}

}  // namespace

TEST_CASE("small roles share a group until it is full; those that compute have groups of their own") {
  const auto one = [](const char* name) { return role(name, 1); };
  CHECK(groups({one("load"), one("store"), one("mma"), one("load1"), one("load2")}) == std::vector<int>{1, 0, 0, 0, 1});
  CHECK(groups({role("store", 3), role("load", 2), one("mma"), one("load1"), one("load2"), one("load3"),
                one("load4")}) == std::vector<int>{1, 1, 0, 0, 0, 1, 0});
  CHECK(groups({role("compute0", 4), role("compute1", 5), role("compute2", 1), one("load"), role("load1", 4)}) ==
        std::vector<int>{1, 2, 1, 1, 1});
  CHECK(sched::shares_group(graph::Machine{}, role("load", 3)));
  CHECK_FALSE(sched::shares_group(graph::Machine{}, role("load", 4)));
  CHECK_FALSE(sched::shares_group(graph::Machine{}, role("compute0", 1)));
}

TEST_CASE("what a node does by itself decides its kind of role") {
  graph::Node node;
  CHECK(sched::kind_of(node) == RoleKind::compute);
  node.variable_latency = true;
  CHECK(sched::kind_of(node) == RoleKind::load);
  node.variable_latency = false;
  const std::pair<Async, RoleKind> kinds[] = {
      {Async::copy, RoleKind::load},      {Async::threads, RoleKind::load}, {Async::store, RoleKind::store},
      {Async::matrix, RoleKind::compute}, {Async::unit, RoleKind::matrix},
  };
  for (const auto& [async, kind] : kinds) {
    node.async = async;
    CHECK(sched::kind_of(node) == kind);
  }
  node.async = Async::none;
  node.drains = true;
  CHECK(sched::kind_of(node) == RoleKind::store);
}

TEST_CASE("registers go from who copies to who computes, in whole steps and within what the block was launched with") {
  // 65536 registers for groups of 128 threads: 512 a thread for one group, 256 for two, 168 for three, 128 for four.
  CHECK(registers(consumers(1)) == std::vector<int>{40, 240});
  CHECK(registers(consumers(2)) == std::vector<int>{24, 240, 240});
  CHECK(registers(consumers(3)) == std::vector<int>{32, 160, 160, 160});
  CHECK(registers(consumers(1, false)) == std::vector<int>{240});
  CHECK(registers(consumers(3, false)) == std::vector<int>{168, 168, 168});
  graph::Graph plain = consumers(2);
  plain.machine.register_roles = false;
  CHECK(registers(plain) == std::vector<int>{0, 0, 0});
}

TEST_CASE("too many groups, and a node that needs more than its role gets, are refused by name") {
  CHECK(registers(consumers(21, false)) == std::vector<int>(21, 24));
  const Error groups = error_of([] { registers(consumers(22, false)); });
  CHECK(groups.code == Code::unsupported);
  CHECK_MESSAGE(has(groups.message, "22 groups of 128 threads leave 16 registers a thread, at least 24 are needed"),
                groups.message);
  graph::Graph graph = consumers(2);
  graph.nodes[1].registers = 240;
  CHECK(registers(graph).size() == 3);
  graph.nodes[1].registers = 241;
  const Error needs = error_of([&] { registers(graph); });
  CHECK_MESSAGE(has(needs.message, "node 'use.0' needs 241 registers a thread, role 'compute0' gets 240"),
                needs.message);
}

TEST_CASE("each node is in one role, which has the most warps of any of its nodes") {
  graph::Graph graph = consumers(2);
  graph.nodes[2].warps = 8;
  sched::Schedule schedule;
  sched::assign_roles(graph, schedule);
  REQUIRE(schedule.roles.size() == 3);
  CHECK(schedule.role == std::vector<int>{0, 1, 2});
  CHECK(schedule.roles[0].name == "load");
  CHECK(schedule.roles[0].warps == 1);
  CHECK(schedule.roles[1].name == "compute0");
  CHECK(schedule.roles[2].warps == 8);
  graph.edges.push_back({1, 2, 1, 0, false});
  CHECK_NOTHROW(sched::assign_roles(graph, schedule));
  graph.edges.back().same_role = true;
  const Error crosses = error_of([&] { sched::assign_roles(graph, schedule); });
  CHECK_MESSAGE(has(crosses.message, "'use.0' -> 'use.1' must stay in one role"), crosses.message);
}
