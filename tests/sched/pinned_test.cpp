// Protects schedules, and what is written of them, as they are: cycles, roles, rings and turns of graphs of several
// kinds, how many nodes the search visits for them, and hashes of listing, JSON, picture and trace, all in
// data/schedules.txt. Other tests say what is right; this one that nothing changes unseen, and that the search does not
// come to need more.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/examples.hpp"
#include "sched/attention_graph.hpp"
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
