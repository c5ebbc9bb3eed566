// Protects the verifier where a joint schedule promises more than edges, units and rings. Each promise is broken by as
// little as possible in a schedule that keeps all of them, and must be named. No other schedule is held to them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "joint_check.hpp"
#include "oracle_graphs.hpp"
#include "sched/joint/joint.hpp"
#include "sched/schedule.hpp"
#include "tilejit/error.hpp"

namespace {

using namespace tj;

#ifdef TJ_SANITIZED
constexpr int kGraphs = 100;  // random ones
#else
constexpr int kGraphs = 400;
#endif

graph::Edge edge(int src, int dst, int delay, int distance, bool blocking, int spill) {
  return {src, dst, delay, distance, blocking, -1, spill, false};
}

/// A load, a matrix operation and two steps of arithmetic at II 6, with nothing to spare. SMEM is full in slot 0,
/// compute1 has its warps busy in every slot, and every edge is tight. The wait of `soft` ends where `out` of the round
/// before does.
struct Tight {
  graph::Graph graph;
  sched::Schedule schedule;

  Tight() {
    graph.name = "tight";
    graph.machine.name = "test machine";
    graph.machine.units = {{"TMA", 1}, {"TC", 1}};
    graph.machine.memory_bytes["SMEM"] = 300;
    graph.machine.register_roles = true;
    add("load", {0, 0, 2, 1}, 4, 1);
    graph.nodes[0].variable_latency = true;
    graph.nodes[0].warps = 1;
    graph.nodes[0].memory_bytes["SMEM"] = 100;
    add("mma", {1, 0, 3, 1}, 3, 1);
    graph.nodes[1].memory_bytes["SMEM"] = 50;
    graph.nodes[1].registers = 64;
    add("soft", {0, 0, 0, 1}, 4, 4);
    graph.nodes[2].registers = 100;
    graph.nodes[2].warp_cycles = 4;
    add("out", {0, 0, 0, 1}, 2, 2);
    graph.nodes[3].registers = 30;
    graph.nodes[3].warp_cycles = 2;
    graph.edges = {edge(0, 1, 4, 0, true, 0), edge(1, 2, 3, 0, true, 2), edge(2, 3, 4, 0, false, 7),
                   edge(3, 3, 2, 1, false, 0)};
    schedule.ii = 6;
    schedule.length = 15;
    schedule.joint = true;
    schedule.cycle = {0, 4, 9, 13};
    schedule.role = {0, 1, 2, 2};
    schedule.roles = {{"load", 1, 24, 0, {0}}, {"compute0", 4, 128, 4, {1}}, {"compute1", 4, 136, 3, {2, 3}}};
  }

  void add(const char* name, const graph::Reservation& use, int latency, int cycles) {
    graph::Node node;
    node.name = name;
    node.latency = latency;
    node.cycles = cycles;
    node.reservations = {use};
    graph.nodes.push_back(node);
  }
  /// Into another role, at the right place of its order.
  void move(int node, int role) {
    auto& from = schedule.roles[static_cast<std::size_t>(schedule.role[static_cast<std::size_t>(node)])].nodes;
    from.erase(std::find(from.begin(), from.end(), node));
    auto& to = schedule.roles[static_cast<std::size_t>(role)].nodes;
    to.push_back(node);
    schedule.role[static_cast<std::size_t>(node)] = role;
    std::sort(to.begin(), to.end(), [&](int a, int b) { return schedule.step_cycle(a) < schedule.step_cycle(b); });
  }
  std::string lines() const {
    std::string all;
    for (const std::string& line : sched::verify(graph, schedule)) all += line + "\n";
    return all;
  }
};

/// The damaged schedule must be rejected with a line that contains `part`.
void rejects(const char* part, const std::function<void(Tight&)>& damage) {
  Tight tight;
  REQUIRE(tight.lines() == "");
  damage(tight);
  CAPTURE(std::string(part));
  const std::string all = tight.lines();
  CAPTURE(all);
  CHECK(all.find(part) != std::string::npos);
}

void accepts(const std::function<void(Tight&)>& change) {
  Tight tight;
  change(tight);
  CHECK(tight.lines() == "");
}

TEST_CASE("memory: one byte or one cycle too much") {
  rejects("memory SMEM holds 300 bytes of 299 in slot 0: load 100, load 100, mma 50, mma 50",
          [](Tight& t) { t.graph.machine.memory_bytes["SMEM"] = 299; });
  rejects("memory SMEM holds 301 bytes of 300", [](Tight& t) { t.graph.nodes[2].memory_bytes["SMEM"] = 1; });
  rejects("memory TMEM holds 64 bytes of 63",
          [](Tight& t) { t.graph.nodes[3].memory_bytes["TMEM"] = 64, t.graph.machine.memory_bytes["TMEM"] = 63; });
  // A reader that takes longer holds what it reads longer: 13 cycles at II 6 are three at once.
  const auto other = [](Tight& t) {
    t.graph.nodes[0].memory_bytes["SMEM"] = 0, t.graph.nodes[1].memory_bytes["SMEM"] = 150;
  };
  accepts(other);
  rejects("memory SMEM holds 450 bytes of 300 in slot 4: mma 150, mma 150, mma 150",
          [&](Tight& t) { other(t), t.graph.nodes[2].latency = 8; });
  rejects("memory SMEM holds 400 bytes",
          [](Tight& t) { t.graph.edges.push_back(edge(0, 3, 4, 0, false, 0)); });  // a late reader
  accepts([](Tight& t) { t.graph.nodes[2].memory_bytes["elsewhere"] = 1 << 20; });
  // An edge to its own node in the same round gives way at once, whatever later rounds ask for.
  accepts([](Tight& t) {
    t.graph.nodes[3].memory_bytes["M"] = 8, t.graph.machine.memory_bytes["M"] = 7;
    t.graph.edges.insert(t.graph.edges.begin(), edge(3, 3, 0, 0, false, 0));
  });
  rejects("memory SMEM holds", [](Tight& t) {  // no sum overflows
    t.graph.nodes[0].memory_bytes["SMEM"] = t.graph.nodes[1].memory_bytes["SMEM"] = INT64_MAX;
    for (int k = 0; k < 4; ++k) t.graph.edges.push_back(edge(k % 2, 3, 4, graph::kMaxDistance, false, 0));
  });
}

TEST_CASE("registers: of the role, of the launch, of a thread") {
  rejects("role compute1 holds 130 registers a thread in slot 0, it has 128: soft 100, out 30",
          [](Tight& t) { t.schedule.roles[2].registers = 128; });
  rejects("role compute0 holds 128 registers a thread in slot 0, it has 120: mma 64, mma 64",
          [](Tight& t) { t.schedule.roles[1].registers = 120; });
  rejects("role compute1 holds 258 registers", [](Tight& t) { t.move(1, 2); });
  const auto counts = [](Tight& t, int first, int second) {
    t.schedule.roles[1].registers = first, t.schedule.roles[2].registers = second;
  };
  rejects("roles take 65536 registers of 64512: the block starts with 168 a thread",
          [&](Tight& t) { counts(t, 240, 248); });
  accepts([&](Tight& t) { counts(t, 240, 240); });
  rejects("allowed are multiples of 8 from 24", [](Tight& t) { t.schedule.roles[0].registers = 16; });
  rejects("allowed are multiples of 8 from 24", [](Tight& t) { t.schedule.roles[1].registers = 132; });
  rejects("registers, but the machine cannot move any", [](Tight& t) { t.graph.machine.register_roles = false; });
  const auto fixed = [](Tight& t, int registers) {
    t.graph.machine.register_roles = false;
    t.graph.machine.registers = 3 * 128 * registers;
    for (sched::Role& each : t.schedule.roles) each.registers = 0;
  };
  accepts([&](Tight& t) { fixed(t, 136); });
  rejects("role compute1 holds 130 registers a thread in slot 0, it has 128", [&](Tight& t) { fixed(t, 135); });
  rejects("role compute1 holds 130 registers a thread in slot 0, it has 128", [&](Tight& t) {
    fixed(t, 136);
    t.graph.nodes[0].warps = t.schedule.roles[0].warps = 5;  // a second group of warps takes its share as well
    t.graph.machine.registers = 4 * 128 * 135;
  });
}

TEST_CASE("warps of a role: one node at a time") {
  rejects("role compute1 has its warps in 2 nodes at once in slot 1: soft 1, out 1",
          [](Tight& t) { t.graph.nodes[2].warp_cycles = 5; });
  rejects("role compute1 has its warps in 2 nodes at once in slot 3",
          [](Tight& t) { t.graph.nodes[3].warp_cycles = 3; });
  rejects("role compute0 has its warps in 2 nodes at once",
          [](Tight& t) { t.graph.nodes[1].warp_cycles = 7; });  // longer than II
  rejects("role compute1 has its warps in 2 nodes at once",
          [](Tight& t) { t.graph.nodes[1].warp_cycles = 1, t.move(1, 2); });
  rejects("role compute1 has its warps in 2 nodes at once",
          [](Tight& t) { t.schedule.joint = false, t.graph.nodes[2].warp_cycles = 5; });
  accepts([](Tight& t) { t.graph.nodes[1].warp_cycles = 6; });
}

TEST_CASE("a role that waits issues nothing") {
  rejects("node soft waits in role compute1 while out issues: 2 cycles before, it takes 3",
          [](Tight& t) { t.graph.nodes[3].cycles = 3; });
  rejects("node soft waits in role compute1 while out issues: 1 cycles before",
          [](Tight& t) { t.schedule.cycle[3] = 14; });
  rejects("node mma waits in role compute1 while soft issues: 1 cycles before, it takes 4",
          [](Tight& t) { t.move(1, 2); });
  rejects("node out waits in role compute1 while soft issues",
          [](Tight& t) { t.graph.edges[2].blocking = true, t.graph.nodes[2].cycles = 5; });
  rejects("node soft waits in role compute1 while out issues", [](Tight& t) { t.graph.nodes[3].cycles = 6; });
  accepts([](Tight& t) { t.graph.edges[2].blocking = true; });
}

TEST_CASE("spills and kinds of roles") {
  rejects("edge mma -> soft is short of 1 cycles", [](Tight& t) { t.schedule.cycle[2] = 8; });
  rejects("edge mma -> soft is short of 1 cycles", [](Tight& t) { t.graph.edges[1].spill_cycles = 3; });
  rejects("edge soft -> out is short of 7 cycles", [](Tight& t) { t.move(3, 1); });
  rejects(
      "role compute0 mixes nodes of variable latency, bulk stores, or products that one thread asks for, with others",
      [](Tight& t) { t.move(0, 1); });
  rejects("role load mixes nodes of variable latency, bulk stores, or products that one thread asks for, with others",
          [](Tight& t) { t.move(1, 0); });
  rejects("role compute1 mixes nodes", [](Tight& t) { t.graph.nodes[3].async = graph::Async::copy; });
  rejects("leaves its role", [](Tight& t) { t.graph.edges[1].same_role = true; });
}

TEST_CASE("bodies for a number of warps, values for another role") {
  rejects("role compute1 runs soft, written for 4 warps, and out, written for 2", [](Tight& t) {
    t.graph.nodes[2].context = t.graph.nodes[3].context = "Consumer";
    t.graph.nodes[3].warps = 2;
  });
  accepts([](Tight& t) { t.graph.nodes[2].context = "Consumer", t.graph.nodes[3].warps = 2; });
  rejects("value p is read in the role that writes it alone", [](Tight& t) {
    t.graph.values.push_back({"p", 16, 16, graph::Scope::iteration, 1, 4});
    t.graph.edges[2].value = 0;
  });
}

TEST_CASE("what is not promised is not asked") {
  const auto split = [](Tight& t) { t.schedule.joint = false; };
  accepts([&](Tight& t) { split(t), t.graph.machine.memory_bytes["SMEM"] = 1; });
  accepts([&](Tight& t) { split(t), t.schedule.roles[2].registers = 104; });
  accepts([&](Tight& t) { split(t), t.graph.nodes[3].cycles = 3; });
}

TEST_CASE("a role for what runs once a tile takes its share of the registers") {
  graph::Graph graph;
  graph.name = "tile";
  graph.machine.name = "test machine";
  graph.machine.units = {{"U", 1}};
  for (const char* name : {"load", "loop"}) {
    graph::Node node;
    node.name = name;
    graph.nodes.push_back(node);
  }
  graph.nodes[0].scope = graph::Scope::tile_begin;
  graph.nodes[0].variable_latency = true;
  graph.nodes[1].registers = 150;
  graph.nodes[1].reservations = {{0, 0, 2, 1}};
  graph.edges = {edge(0, 1, 1, 0, false, 0), edge(1, 1, 2, 1, false, 0)};
  const auto lines = [&](bool moves, int registers) -> std::string {
    graph.machine.register_roles = moves;
    graph.machine.registers = 2 * 128 * registers;
    try {
      const sched::Schedule found = sched::schedule(graph);
      CHECK(found.joint);
      std::string all;
      for (const std::string& line : sched::verify(graph, found)) all += line + "\n";
      return all;
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(lines(false, 152) == "");
  CHECK(lines(false, 151).find("without the limit on registers") != std::string::npos);  // 144 for each of two roles
  CHECK(lines(true, 88) == "");                                                          // 24 and 152
  CHECK(lines(true, 87).find("without the limit on registers") != std::string::npos);
}

TEST_CASE("random graphs with nodes that run once a tile: a schedule is right, or refused") {
  int schedules = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const graph::Graph graph = test::with_tile_nodes(test::oracle_joint_graph(seed), seed);
    CAPTURE(seed);
    CAPTURE(graph::to_text(graph));
    try {
      const sched::Schedule found = sched::schedule(graph);
      CHECK(sched::verify(graph, found) == std::vector<std::string>{});
      ++schedules;
    } catch (const Error& error) {
      CHECK(error.code == Code::unsupported);
    }
  }
  CHECK(schedules * 8 >= kGraphs * 5);
}

/// Slot by slot: do two nodes of a role, or two rounds of one, hold its warps?
bool warps_hold(const graph::Graph& graph, const test::Placement& p) {
  std::map<std::pair<int, int>, int> held;  // by role and slot
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (int c = 0; c < graph.nodes[i].warp_cycles; ++c)
      if (++held[{p.role[i], (p.cycle[i] + c) % p.ii}] > 1) return false;
  return true;
}

bool bodies_hold(const graph::Graph& graph, const test::Placement& p) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (p.role[i] == p.role[k] && !graph.nodes[i].context.empty() && !graph.nodes[k].context.empty() &&
          graph.nodes[i].warps != graph.nodes[k].warps)
        return false;
  return true;
}

bool values_hold(const graph::Graph& graph, const test::Placement& p) {
  std::map<int, bool> leaves;
  for (const graph::Edge& edge : graph.edges)
    if (edge.value >= 0)
      leaves[edge.value] = leaves[edge.value] || p.role[test::spot(edge.src)] != p.role[test::spot(edge.dst)];
  return std::all_of(leaves.begin(), leaves.end(), [](const auto& each) { return each.second; });
}

/// The first rule that does not hold; empty when all do.
std::string violation_of(const graph::Graph& graph, const test::Placement& p) {
  if (!warps_hold(graph, p)) return "warps";
  if (!bodies_hold(graph, p)) return "bodies";
  if (!values_hold(graph, p)) return "values";
  return test::joint_violation(graph, p);
}

/// Do the lines of the verifier say so about limits, in the words of joint_check.hpp?
bool says(const std::vector<std::string>& lines, const std::string& violation) {
  const auto any = [&](const char* part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  if (violation == "warps") return any(" has its warps in ");
  if (violation == "bodies") return any(", written for ");
  if (violation == "values") return any(" in the role that writes it alone");
  if (violation == "unit") return any("unit ");
  if (violation == "kinds of roles") return any("mixes nodes");
  if (violation == "concurrency") return any(" waits in role ");
  if (violation == "memory") return any("memory ");
  if (violation == "registers") return any(" registers a thread in slot ") || any("roles take ");
  return any("is short of") || any("leaves its role");
}

TEST_CASE(
    "random joint schedules pass; with one node moved in time or to another role, what the definition forbids is "
    "named") {
  int schedules = 0, moved = 0;
  std::vector<std::string> seen;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const graph::Graph graph = test::oracle_joint_graph(seed);
    sched::JointOptions options;
    options.max_roles = 3;
    const sched::JointResult result = sched::joint_schedule(graph, options);
    if (!result.found) continue;
    CAPTURE(seed);
    CAPTURE(graph::to_text(graph));
    const sched::Schedule whole = sched::to_schedule(graph, result);
    REQUIRE(sched::verify(graph, whole) == std::vector<std::string>{});
    ++schedules;
    const auto compare = [&](const sched::Schedule& damaged) {
      const std::string violation = violation_of(graph, {damaged.ii, damaged.cycle, damaged.role});
      const auto lines = sched::verify(graph, damaged);
      CAPTURE(violation);
      if (violation.empty()) {
        for (const char* limit : {"warps", "bodies", "values", "unit", "concurrency", "memory", "edge"})
          CHECK_FALSE(says(lines, limit));
        return;
      }
      ++moved;
      CHECK(says(lines, violation));
      if (std::find(seen.begin(), seen.end(), violation) == seen.end()) seen.push_back(violation);
    };
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const int by : {-1, 1, 2}) {
        if (whole.cycle[i] + by < 0) continue;
        sched::Schedule damaged = whole;
        damaged.cycle[i] += by;
        compare(damaged);
      }
      for (int role = 0; role < static_cast<int>(whole.roles.size()); ++role) {
        sched::Schedule damaged = whole;
        auto& from = damaged.roles[static_cast<std::size_t>(damaged.role[i])].nodes;
        from.erase(std::find(from.begin(), from.end(), static_cast<int>(i)));
        damaged.role[i] = role;
        damaged.roles[static_cast<std::size_t>(role)].nodes.push_back(static_cast<int>(i));
        damaged.roles[static_cast<std::size_t>(role)].warps =
            std::max(damaged.roles[static_cast<std::size_t>(role)].warps, graph.nodes[i].warps);
        compare(damaged);
      }
    }
  }
  CHECK(schedules * 8 >= kGraphs * 5);
  CHECK(moved >= 5 * kGraphs);
  for (const char* violation :
       {"warps", "bodies", "values", "unit", "kinds of roles", "concurrency", "memory", "registers"})
    CHECK(std::find(seen.begin(), seen.end(), violation) != seen.end());
}

}  // namespace
