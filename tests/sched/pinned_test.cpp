// Protects schedules, and what is written of them, as they are: cycles, roles, rings and turns of graphs of several
// kinds, how many nodes the search visits for them, and hashes of listing, JSON, picture and trace, all in
// data/schedules.txt. Answers of the joint search to small graphs stand in data/joint.txt, with the limits that bind it
// and keep roles apart. Other tests say what is right; this one that nothing changes unseen, and that the search does
// not come to need more.
#include <doctest/doctest.h>

#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/examples.hpp"
#include "sched/attention_graph.hpp"
#include "sched/joint/joint.hpp"
#include "sched/oracle_graphs.hpp"
#include "sched/picture/svg.hpp"
#include "sched/picture/trace.hpp"
#include "sched/random_graphs.hpp"
#include "support/hash.hpp"
#include "support/pinned.hpp"

namespace {

using namespace tj;

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text.empty() ? "-" : text;
}

std::string hash(const std::string& text) { return support::to_hex(support::sha256(text)).substr(0, 16); }

/// The schedule that was found, and the work that it took.
std::string found(const sched::Schedule& s) {
  std::ostringstream text;
  text << "ii " << s.ii << " length " << s.length << " bounds " << s.res_mii << ' ' << s.rec_mii << " proven "
       << s.proven_ii << s.proven_length << " visited " << s.search_nodes << " cycles " << list(s.cycle);
  for (const sched::Role& role : s.roles)
    text << " role " << role.name << ' ' << role.warps << ' ' << role.registers << ' ' << role.origin << ' '
         << list(role.nodes);
  for (const sched::Ring& ring : s.rings)
    text << " ring " << ring.value << ' ' << ring.slots << ' ' << ring.producer_role << ' '
         << list(ring.consumer_roles);
  for (const sched::OrderBarrier& turns : s.order_barriers) {
    text << " turns " << turns.unit << ' ' << list(turns.roles);
    for (const std::vector<int>& nodes : turns.nodes) text << ' ' << list(nodes);
  }
  text << " as " << s.certificate;
  return text.str();
}

/// A few words for each of its forms.
std::string written(const graph::Graph& graph, sched::Schedule schedule) {
  schedule.solve_ms = 0;
  return "text " + hash(sched::to_text(graph, schedule)) + " json " + hash(sched::to_json(graph, schedule)) +
         " picture " + hash(sched::to_svg(graph, schedule)) + " trace " + hash(sched::to_trace(graph, schedule));
}

void add(const std::string& name, const graph::Graph& graph, const sched::Options& options,
         std::vector<std::string>& lines) {
  try {
    const sched::Schedule schedule = sched::schedule(graph, options);
    lines.push_back(name + ": " + found(schedule));
    lines.push_back(name + ": " + written(graph, schedule));
  } catch (const Error& error) {
    lines.push_back(name + ": " + error.message);
  }
}

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& each : list) text += (text.empty() ? "" : ",") + each;
  return text.empty() ? "-" : text;
}

/// The joint search's answer, and what keeps each two of its roles apart.
std::string answered(const graph::Graph& graph, const sched::JointOptions& options) {
  const sched::JointResult r = sched::joint_schedule(graph, options);
  std::ostringstream text;
  text << "ii " << r.ii << " length " << r.length << " of " << r.modulo_ii << ' ' << r.modulo_length << " proven "
       << r.proven_ii << r.proven_length << r.proven_roles << " visited " << r.search_nodes << " cycles "
       << list(r.cycle) << " roles " << list(r.role) << " registers " << list(r.role_registers) << " bytes "
       << r.cross_role_bytes << " bound by " << words(r.binding) << " as " << r.certificate;
  if (!r.found) return text.str() + (r.nowhere ? " nowhere" : "");
  for (const sched::RolePair& pair : sched::why_apart(graph, r, options))
    text << " apart " << pair.first << ' ' << pair.second << ' ' << words(pair.kept_by);
  return text.str();
}

/// The ways to ask: as it is, and with each option that changes what is allowed.
std::vector<std::pair<std::string, sched::JointOptions>> questions(const graph::Graph& graph) {
  std::vector<std::pair<std::string, sched::JointOptions>> all(8);
  const auto name = [&](std::size_t k, const char* text) -> sched::JointOptions& {
    all[k].first = text;
    return all[k].second;
  };
  name(0, "as it is");
  name(1, "two roles").max_roles = 2;
  name(2, "copies apart").copies_apart = true;
  name(3, "two stages").max_stages = 2;
  name(4, "one slot").slots.assign(graph.values.size(), 1);
  all[4].second.strict_slots = true;
  name(5, "one mixed role").mixed_roles = true;
  all[5].second.max_roles = 1;
  name(6, "without registers and waits").relaxed.registers = true;
  all[6].second.relaxed.concurrency = true;
  name(7, "without warps, spills and M").relaxed.warps = true;
  all[7].second.relaxed.spills = true;
  all[7].second.relaxed.space = "M";
  return all;
}

graph::Graph random_of(int nodes, int max_cycles, int max_delay, int max_capacity, std::uint64_t seed) {
  test::RandomShape shape;
  shape.nodes = nodes;
  shape.units = 3;
  shape.max_cycles = max_cycles;
  shape.max_delay = max_delay;
  shape.max_capacity = max_capacity;
  shape.extra_reservations = 20;
  return test::random_graph(shape, seed);
}

}  // namespace

TEST_CASE("schedules and what is written of them are those that are pinned") {
  std::vector<std::string> lines;
  std::vector<std::pair<std::string, graph::Graph>> graphs = {{"attention", test::attention_graph()}};
  for (const std::string& name : graph::example_names()) graphs.emplace_back(name, graph::example(name));
  for (const auto& [name, graph] : graphs) {
    add(name, graph, {}, lines);
    sched::Options split;
    split.joint = false;
    add(name + " split", graph, split, lines);
    sched::Options slots;
    slots.max_slots = 2;
    slots.max_stages = 2;
    slots.order_barriers = false;
    add(name + " of two", graph, slots, lines);
    sched::Options apart;
    apart.copies_apart = true;
    add(name + " apart", graph, apart, lines);
    sched::Options one;
    one.mixed_roles = true;
    one.max_roles = 1;
    add(name + " in one role", graph, one, lines);
  }
  graph::Graph costly = test::attention_graph(), busy = test::attention_graph();
  for (graph::Edge& edge : costly.edges) edge.spill_cycles = 137;
  for (graph::Node& node : busy.nodes) node.warp_cycles = node.async == graph::Async::none ? node.cycles : 0;
  add("attention, costly to split", costly, {}, lines);
  add("attention, warps busy", busy, {}, lines);
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    add("small " + std::to_string(seed), random_of(5 + static_cast<int>(seed), 6, 12, 2, seed), {}, lines);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    add("large " + std::to_string(seed), random_of(30, 120, 600, 1, seed), {}, lines);
  sched::Options few;  // what stands in where the search gives up
  few.node_budget = 30;
  for (std::uint64_t seed = 4; seed <= 8; ++seed)
    add("few nodes " + std::to_string(seed), random_of(24, 60, 200, 2, seed), few, lines);
  testing::check_pinned("tests/sched/data/schedules.txt", lines);
}

TEST_CASE("the joint search's answers to small graphs are those that are pinned") {
  std::vector<std::string> lines;
  std::vector<std::uint64_t> seeds(32);
  std::iota(seeds.begin(), seeds.end(), 0);
  seeds.insert(seeds.end(), {4382, 4647});  // memory alone keeps two roles apart, which few graphs have
  for (const std::uint64_t seed : seeds) {
    graph::Graph graph = test::oracle_joint_graph(seed);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].copy = static_cast<int>(i % 2);
    for (const auto& [name, options] : questions(graph))
      lines.push_back(graph.name + ", " + name + ": " + answered(graph, options));
  }
  testing::check_pinned("tests/sched/data/joint.txt", lines);
}
