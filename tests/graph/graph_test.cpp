// Protects the graph's invariant: each way to break it is refused with a message that names the place. The examples
// stand in pinned/examples.txt, each cost at its node.
#include <doctest/doctest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/cycles.hpp"
#include "graph/examples.hpp"
#include "graph/graph.hpp"
#include "graph/json_reader.hpp"
#include "support/pinned.hpp"

namespace {

using namespace tj;

void refuses(const char* part, const std::function<void(graph::Graph&)>& damage) {
  graph::Graph graph = graph::fa_hopper();
  REQUIRE_NOTHROW(graph::check(graph));
  damage(graph);
  CAPTURE(part);
  try {
    graph::check(graph);
    FAIL("not refused");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::graph);
    CHECK(e.code == Code::invalid_argument);
    CHECK_MESSAGE(e.message.find(part) != std::string::npos, e.message);
  }
}

}  // namespace

TEST_CASE("a broken graph is refused by name") {
  refuses("no nodes", [](graph::Graph& g) {
    g.nodes.clear();
    g.edges.clear();
  });
  refuses("node 'S' is given twice", [](graph::Graph& g) { g.nodes[0].name = "S"; });
  refuses("has no name", [](graph::Graph& g) { g.nodes[0].name.clear(); });
  refuses("unit 'TC' is given twice", [](graph::Graph& g) { g.machine.units[1].name = "TC"; });
  refuses("unit 'TC' has capacity 0", [](graph::Graph& g) { g.machine.units[0].capacity = 0; });
  refuses("node 'S' reserves unit 7", [](graph::Graph& g) { g.nodes[2].reservations[0].unit = 7; });
  refuses("reserves 2 of 'TC'", [](graph::Graph& g) { g.nodes[2].reservations[0].count = 2; });
  refuses("holds 2 of 'TC' in its cycle 1", [](graph::Graph& g) { g.nodes[2].reservations.push_back({0, 1, 1, 1}); });
  refuses("from cycle -1", [](graph::Graph& g) { g.nodes[2].reservations[0].start = -1; });
  refuses("latency -1", [](graph::Graph& g) { g.nodes[2].latency = -1; });
  refuses("has 0 warps", [](graph::Graph& g) { g.nodes[2].warps = 0; });
  refuses("edge 0 joins nodes 0 and 50", [](graph::Graph& g) { g.edges[0].dst = 50; });
  refuses("has distance -1", [](graph::Graph& g) { g.edges[0].distance = -1; });
  refuses("carries value 9", [](graph::Graph& g) { g.edges[0].value = 9; });
  refuses("earlier scope", [](graph::Graph& g) { g.nodes[2].scope = graph::Scope::tile_begin; });
  refuses("only edges between iteration nodes", [](graph::Graph& g) {
    g.nodes[0].scope = graph::Scope::tile_begin;
    g.edges[0].distance = 1;
  });
  refuses("has alignment 3", [](graph::Graph& g) { g.values[0].alignment = 3; });
  refuses("allows 5 to 4", [](graph::Graph& g) {
    g.values[0].min_slots = 5;
    g.values[0].max_slots = 4;
  });
  refuses("value 'V' is given twice", [](graph::Graph& g) { g.values[0].name = "V"; });
  refuses("at most -1 iterations a tile", [](graph::Graph& g) { g.most_iterations = -1; });
  refuses("cycles; at most", [](graph::Graph& g) { g.edges[0].delay = 1 << 30; });
  refuses("nodes; at most", [](graph::Graph& g) { g.nodes.resize(10000); });
  refuses("has distance 0 and delay 6", [](graph::Graph& g) { g.edges.push_back({4, 2, 2, 0, false, -1, 0, false}); });
}

TEST_CASE("cycles of distance 0 are fine while they only bound from above") {
  graph::Graph graph = graph::fa_hopper();
  graph.edges.push_back({4, 2, -9, 0, false, -1, 0, false});
  CHECK_NOTHROW(graph::check(graph));
}

TEST_CASE("a positive cycle is found with its edges in walking order") {
  const std::vector<graph::Edge> edges = {{0, 1, 3, 0, false, -1, 0, false},
                                          {1, 2, 4, 0, false, -1, 0, false},
                                          {2, 0, 1, 2, false, -1, 0, false},
                                          {3, 0, 9, 0, false, -1, 0, false}};
  CHECK(graph::positive_cycle(4, edges, 4).empty());
  const std::vector<int> cycle = graph::positive_cycle(4, edges, 3);
  REQUIRE(cycle.size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(edges[static_cast<std::size_t>(cycle[i])].dst == edges[static_cast<std::size_t>(cycle[(i + 1) % 3])].src);
}

TEST_CASE("look-ups and examples") {
  const graph::Graph graph = graph::fa_blackwell(1, 2, 3, 4);
  CHECK(graph.node_index("S_read") == 3);
  CHECK(graph.node_index("nothing") == -1);
  CHECK(graph.machine.unit_index("TMEM") == 3);
  CHECK(graph.machine.unit_index("nothing") == -1);
  CHECK(graph.nodes[3].latency == 4);
  for (const std::string& name : graph::example_names()) {
    CHECK(graph::example(name).name == name);
    CHECK_NOTHROW(graph::check(graph::example(name)));
  }
  CHECK_THROWS_AS(graph::example("nothing"), Error);
  graph::Machine machine;
  machine.units = {{"TC", 1}};
  CHECK_THROWS_AS(graph::simplified_fa(1, 1, machine), Error);
}

TEST_CASE("the listing names everything once") {
  const std::string text = graph::to_text(graph::fa_hopper());
  for (const char* part : {"graph fa_hopper", "unit EXP: capacity 1", "node K_load", "TMA [0, 1)",
                           "edge P -> O: delay 2, distance 0", "value K: 32768 bytes"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}

TEST_CASE("the examples are the graphs that are pinned, each cost at its node") {
  graph::TensorMemoryAttention costs;
  int next = 1;
  for (int* cost :
       {&costs.load_cycles, &costs.load_latency, &costs.matrix_cycles, &costs.matrix_latency, &costs.matrix_issue,
        &costs.score_read, &costs.weight_write, &costs.maximum, &costs.exponential, &costs.arithmetic,
        &costs.output_read, &costs.output_scale, &costs.output_write, &costs.score_registers, &costs.state_registers,
        &costs.output_registers, &costs.signal, &costs.score_exchange, &costs.factor_exchange})
    *cost = ++next;
  costs.load_bytes = 1024, costs.score_bytes = 512, costs.weight_bytes = 256, costs.output_bytes = 128;
  graph::Machine machine;
  machine.name = "toy";
  machine.units = {{"TMA", 1}, {"TC", 1}, {"EXP", 4}, {"ALU", 4}, {"TMEM", 1}};
  machine.memory_bytes = {{"SMEM", 1 << 20}, {"TMEM", 1 << 18}};
  std::vector<std::string> lines;
  for (const graph::Graph& graph :
       {graph::attention_with_tensor_memory(costs, machine), graph::simplified_fa(2, 3), graph::fa_hopper(2, 3, 5),
        graph::fa_blackwell(2, 3, 5, 7), graph::simple_gemm(2, 3)}) {
    std::istringstream text(graph::to_json(graph));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }
  testing::check_pinned("tests/graph/pinned/examples.txt", lines);
  const graph::Graph attention = graph::attention_with_tensor_memory(costs, machine);
  for (const graph::Node& node : attention.nodes) CHECK(node.copy == (node.name.ends_with(".1") ? 1 : 0));
}
