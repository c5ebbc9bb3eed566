// Protects roles, registers, ring depths and turns: the parts of the emitted kernel besides cycles.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include <tilejit/error.hpp>

#include "attention_graph.hpp"
#include "graph/examples.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using tj::testing::has;
using namespace tj;

int slots(const graph::Graph& graph, const sched::Schedule& schedule, const char* name) {
  for (const auto& ring : schedule.rings)
    if (graph.values[static_cast<std::size_t>(ring.value)].name == name) return ring.slots;
  return 0;
}

std::string message_of(const graph::Graph& graph, const sched::Options& options = {}) {
  try {
    sched::schedule(graph, options);
  } catch (const Error& e) {
    return e.message;
  }
  return {};
}

}  // namespace

TEST_CASE("copies go to the load role, each copy of the rest to its own") {
  const graph::Graph graph = test::attention_graph();
  const sched::Schedule schedule = sched::schedule(graph);
  REQUIRE(schedule.roles.size() == 3);
  CHECK(schedule.roles[0].name == "load");
  CHECK(schedule.roles[0].warps == 1);
  CHECK(schedule.roles[1].name == "compute0");
  CHECK(schedule.roles[2].name == "compute1");
  CHECK(schedule.role[static_cast<std::size_t>(graph.node_index("load_q"))] == 0);
  CHECK(schedule.role[static_cast<std::size_t>(graph.node_index("pv.1"))] == 2);
  // Tile-scope nodes follow the iteration nodes.
  CHECK(schedule.roles[0].nodes.back() == graph.node_index("load_q"));
}

TEST_CASE("registers move from the loads to the consumers") {
  for (const auto& [copies, load, compute] : {std::array{2, 24, 240}, std::array{3, 32, 160}}) {
    const graph::Graph graph = test::attention_graph({copies, 16 * 1024, 227 * 1024, true});
    const sched::Schedule schedule = sched::schedule(graph);
    CHECK(schedule.roles[0].registers == load);
    CHECK(schedule.roles[1].registers == compute);
    CHECK(schedule.roles.back().registers == compute);
  }
  CHECK(sched::schedule(test::attention_graph({2, 16 * 1024, 227 * 1024, false})).roles[1].registers == 0);
  graph::Graph large = test::attention_graph({3, 16 * 1024, 227 * 1024, true});
  large.nodes.back().registers = 200;
  CHECK(has(message_of(large), "registers"));
  sched::Options split;
  split.joint = false;
  CHECK(has(message_of(large, split), "needs 200 registers a thread, role 'compute2' gets 160"));
}

TEST_CASE("rings take what memory allows, evenly") {
  const graph::Graph wide = test::attention_graph({2, 32 * 1024, 227 * 1024, true});
  const sched::Schedule deep = sched::schedule(wide);
  CHECK(slots(wide, deep, "q") == 1);
  CHECK(slots(wide, deep, "k") == 3);
  CHECK(slots(wide, deep, "v") == 3);
  sched::Options options;
  options.max_slots = 2;
  CHECK(slots(wide, sched::schedule(wide, options), "k") == 2);
  const graph::Graph small = test::attention_graph({2, 8 * 1024, 227 * 1024, true});
  CHECK(slots(small, sched::schedule(small), "k") == 4);  // the value's own limit
}

TEST_CASE("a ring that others read is deepened alone, one with the same readers is not") {
  // Room for q and seven slots of k and v.
  graph::Graph graph = test::attention_graph({2, 24 * 1024, (32 + 7 * 24) * 1024 + 1024, true});
  for (graph::Value& value : graph.values)
    if (value.scope == graph::Scope::iteration) value.min_slots = 2;
  const sched::Schedule apart = sched::schedule(graph);
  CHECK(slots(graph, apart, "k") == 4);
  CHECK(slots(graph, apart, "v") == 3);
  CHECK(sched::verify(graph, apart).empty());
  for (const graph::Edge& edge : std::vector(graph.edges))  // whoever reads k reads v, too
    if (edge.value == 1) {
      graph::Edge both = edge;
      both.src = graph.node_index("load_v");
      both.value = 2;
      graph.edges.push_back(both);
      both = edge;
      both.dst = graph.node_index(graph.nodes[static_cast<std::size_t>(edge.dst)].copy == 0 ? "pv.0" : "pv.1");
      graph.edges.push_back(both);
    }
  const sched::Schedule sisters = sched::schedule(graph);
  CHECK(slots(graph, sisters, "k") == 3);
  CHECK(slots(graph, sisters, "v") == 3);
}

TEST_CASE("a role that stores at a tile's end sits in the loads' group: it leaves the others their registers") {
  graph::Graph graph = test::attention_graph({3, 16 * 1024, 227 * 1024, true});
  for (int copy = 0; copy < 3; ++copy) {
    const std::string number = std::to_string(copy);
    graph.values.push_back({"o" + number, 1024, 1024, graph::Scope::tile_end, 1, 1});
    graph::Node left, put;
    left.name = "stage_rows." + number;
    put.name = "put_box." + number;
    left.scope = put.scope = graph::Scope::tile_end;
    left.copy = copy;
    put.async = graph::Async::store;
    put.warps = 1;
    put.registers = 32;
    graph.nodes.push_back(left);
    graph.nodes.push_back(put);
    const int last = static_cast<int>(graph.nodes.size()) - 1;
    graph.edges.push_back({graph.node_index("pv." + number), last - 1, 0, 0, true, -1, 0, true});
    graph.edges.push_back({last - 1, last, 0, 0, true, static_cast<int>(graph.values.size()) - 1, 0, false});
  }
  for (graph::Node& node : graph.nodes)
    if (node.warps == 4 && node.scope == graph::Scope::iteration) node.registers = 52;  // 156 of a thread's 160
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(sched::verify(graph, schedule).empty());
  REQUIRE(schedule.roles.size() == 5);
  for (const sched::Role& role : schedule.roles) CHECK(role.registers == (role.name.starts_with("compute") ? 160 : 32));
}

TEST_CASE("too little memory for the shortest schedule gives another legal one, too little for any a named error") {
  const graph::Graph two_each = test::attention_graph({2, 32 * 1024, (32 + 4 * 32) * 1024 + 256, true});
  const sched::Schedule fits = sched::schedule(two_each);
  CHECK(sched::verify(two_each, fits).empty());
  const graph::Graph one_each = test::attention_graph({2, 32 * 1024, (32 + 2 * 32) * 1024 + 256, true});
  const sched::Schedule slow = sched::schedule(one_each);
  CHECK(sched::verify(one_each, slow).empty());
  CHECK(slots(one_each, slow, "k") == 1);
  CHECK(slow.ii > fits.ii);
  const graph::Graph none = test::attention_graph({2, 32 * 1024, 64 * 1024, true});
  CHECK(has(message_of(none), "bytes of SMEM, machine 'test machine' has 65536"));
  sched::Options options;
  options.max_slots = 1;
  graph::Graph needs_two = test::attention_graph();
  needs_two.values[1].min_slots = 2;
  CHECK(has(message_of(needs_two, options), "max_slots is 1, but value 'k'"));
}

TEST_CASE("slots stay within limits for every stage limit") {
  for (int stages = 0; stages <= 3; ++stages)
    for (int limit = 1; limit <= 3; ++limit) {
      const graph::Graph graph = test::attention_graph();
      sched::Options options;
      options.max_stages = stages;
      options.max_slots = limit;
      const sched::Schedule schedule = sched::schedule(graph, options);
      CHECK(slots(graph, schedule, "k") <= limit);
      CHECK(slots(graph, schedule, "v") <= limit);
      CHECK(sched::verify(graph, schedule).empty());
    }
}

TEST_CASE("two consumers take turns on the matrix unit, one does not") {
  const graph::Graph graph = test::attention_graph();
  const sched::Schedule schedule = sched::schedule(graph);
  REQUIRE(schedule.order_barriers.size() == 1);
  CHECK(graph.machine.units[static_cast<std::size_t>(schedule.order_barriers[0].unit)].name == "TC");
  CHECK(schedule.order_barriers[0].roles.size() == 2);
  sched::Options options;
  options.order_barriers = false;
  CHECK(sched::schedule(graph, options).order_barriers.empty());
  CHECK(sched::schedule(test::attention_graph({1, 32 * 1024, 227 * 1024, true})).order_barriers.empty());
}

TEST_CASE("where the simple split finds room for its rings, so does the joint search, and no later") {
  int narrow = 0;
  for (int copies = 1; copies <= 3; ++copies)
    for (const int tile : {8 * 1024, 24 * 1024, 40 * 1024})
      for (const std::int64_t smem : {100, 160, 227}) {
        const graph::Graph graph = test::attention_graph({copies, tile, smem * 1024, true});
        for (const int slots : {0, 2}) {
          sched::Options options;
          options.max_slots = slots;
          options.joint = false;
          if (!message_of(graph, options).empty()) continue;
          const sched::Schedule split = sched::schedule(graph, options);
          options.joint = true;
          CAPTURE(copies);
          CAPTURE(tile);
          CAPTURE(smem);
          CAPTURE(slots);
          const sched::Schedule joint = sched::schedule(graph, options);
          CHECK(joint.joint);
          CHECK(sched::verify(graph, joint).empty());
          CHECK(joint.ii <= split.ii);
          narrow += joint.certificate.find("found again") != std::string::npos ? 1 : 0;
        }
      }
  CHECK(narrow > 0);
}

TEST_CASE("an edge that must stay in one role but cannot is named") {
  graph::Graph graph = test::attention_graph();
  graph.edges.push_back({graph.node_index("qk.0"), graph.node_index("softmax.1"), 1, 0, false, -1, 0, true});
  sched::Options split;
  split.joint = false;
  CHECK(has(message_of(graph, split), "'qk.0' -> 'softmax.1' must stay in one role"));
  CHECK(has(message_of(graph), "registers a thread"));  // one role for both copies
  graph.edges.back().src = graph.node_index("load_k");
  CHECK(has(message_of(graph),
            "'load_k' -> 'softmax.1' must stay in one role, but only one of them completes by itself"));
}

TEST_CASE("a spill between roles lengthens its edge") {
  graph::Graph graph = graph::fa_hopper();
  const int before = sched::schedule(graph).length;
  graph.edges[0].spill_cycles = 3;  // K_load -> S, between load and compute
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.length == before + 3);
  CHECK(sched::verify(graph, schedule).empty());
}

TEST_CASE("JSON has the documented keys") {
  const graph::Graph graph = test::attention_graph();
  const auto json = nlohmann::json::parse(sched::to_json(graph, sched::schedule(graph)));
  for (const char* key : {"ii", "length", "res_mii", "rec_mii", "proven_ii", "proven_length", "solve_ms", "nodes",
                          "rings", "certificate", "roles", "cluster", "blocks_per_sm", "walk", "units"})
    CHECK(json.contains(key));
  CHECK(json["nodes"].size() == graph.nodes.size());
  for (const char* key : {"name", "cycle", "stage", "role"}) CHECK(json["nodes"][0].contains(key));
  CHECK(json["rings"][0]["value"] == "q");
}

TEST_CASE("prediction counts overhead, steady state and one length") {
  graph::Graph graph = test::attention_graph();
  const sched::Schedule schedule = sched::schedule(graph);
  const double cycles = 3000 + 9.0 * schedule.ii + schedule.length;
  CHECK(sched::predict_tflops(graph, schedule, 100, 2.0, 10) ==
        doctest::Approx(graph.flops_per_iteration * 10 / cycles * 2.0 * 100 / 1e3));
  CHECK(sched::predict_tflops(graph, schedule, 100, 2.0, 0) == 0);
  CHECK(sched::predict_tflops(graph, sched::Schedule{}, 100, 2.0, 10) == 0);  // of none
  CHECK(sched::predict_tflops(graph, schedule, 100, 2.0, 0.5) ==  // on the average; none is shorter than one
        doctest::Approx(graph.flops_per_iteration * 0.5 / (3000 + schedule.length) * 2.0 * 100 / 1e3));
  const double alone = sched::predict_tflops(graph, schedule, 100, 2.0, 10);
  graph.blocks_per_sm = 2;  // each takes as long as it says, both at once
  CHECK(sched::predict_tflops(graph, schedule, 100, 2.0, 10) == doctest::Approx(2 * alone));
  CHECK(sched::to_text(graph, schedule).find(", 2 blocks an SM\n") != std::string::npos);
  CHECK(nlohmann::json::parse(sched::to_json(graph, schedule))["blocks_per_sm"] == 2);
}
