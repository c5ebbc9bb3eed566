// Protects refusals of users' graphs that a unit cannot hold: each is refused by name before there is any text.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>

#include "codegen/emit.hpp"
#include "graph/json_reader.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;

graph::Graph coded() {
  return graph::read_json(testing::read_bytes(TJ_REPO_DIR "/tests/graph/data/coded.json"), "coded");
}

void refuses(const graph::Graph& graph, const std::string& part) {
  CAPTURE(part);
  const Error error = testing::error_of([&] { codegen::emit(graph, sched::schedule(graph), "sm90"); });
  CHECK(error.stage == Stage::codegen);
  CHECK(error.code == Code::unsupported);
  CHECK_MESSAGE(testing::has(error.message, part), error.message);
}

}  // namespace

TEST_CASE("the graph itself can be written") {
  const graph::Graph graph = coded();
  CHECK(testing::has(codegen::emit(graph, sched::schedule(graph), "sm90").text, "mma(worker0, tile, s,"));
}

TEST_CASE("matrix work that no node of the loop waits for") {
  graph::Graph graph = coded();
  graph.edges[2].blocking = false;  // mma.0 -> act.0
  refuses(graph, "no node of the loop waits for 'mma.0'");
  graph.edges[3].blocking = true;  // mma.0 -> mma.0, one iteration later
  codegen::emit(graph, sched::schedule(graph), "sm90");
  graph.nodes[2].registers = 32;       // registers a thread; every group in flight holds as many
  for (const int distance : {2, 3}) {  // so many groups in flight
    graph.edges[3].distance = distance;
    CHECK(testing::has(codegen::emit(graph, sched::schedule(graph), "sm90").text, "dev::matrix_wait<"));
  }
}

TEST_CASE("names that the unit uses itself, or would use twice") {
  graph::Graph graph = coded();
  graph.nodes[0].context = "Tile";
  refuses(graph, "context 'Tile' of node 'load' would be a variable 'tile', a name that the unit uses");
  graph.nodes[0].context = "worker";
  refuses(graph, "would be a variable 'worker', a name that context 'worker' uses");
  graph = coded();
  graph::Node second = graph.nodes[0];
  second.name = "load_too";
  graph.nodes.push_back(second);
  graph.values.push_back(graph.values[0]);
  graph.values[1].name = "ti-le";
  graph.values[0].name = "ti.le";
  graph::Edge edge = graph.edges[0];
  edge.src = static_cast<int>(graph.nodes.size()) - 1;
  edge.value = 1;
  graph.edges.push_back(edge);
  refuses(graph, "two values would both be a type 'RingTiLe'");
}
