// Protects values that lie in the places of others: which lifetimes may share a place, who comes first, where values
// lie, what is refused with which names, and the key of a graph's document.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/json_reader.hpp"
#include "graph/lifetimes.hpp"
#include "support/expect.hpp"

using namespace tj;
using tj::testing::has;

namespace {

// The order of document 003: queries and weights have one place in turns, keys and values another, and the output lies
// where the table was. `before` goes into the entry of weights, `more` behind the edges.
std::string text(const std::string& of_p = R"(, "lies_in": "q")", const std::string& of_v = R"(, "lies_in": "k")",
                 const std::string& of_o = R"(, "lies_in": "t")", const std::string& more = "") {
  return R"({"name": "turns", "machine": {"functional_units": {"TC": 1}, "memory": {"SMEM": 65536}}, "walk": "persistent",
  "code": {"namespace": "n", "includes": ["n.cuh"], "params_type": "n::P"},
  "instructions": [
    {"name": "table", "context": "C", "scope": "tile_begin", "cycles": 1},
    {"name": "begin", "context": "C", "scope": "tile_begin", "cycles": 1},
    {"name": "load_q", "context": "L", "cycles": 10}, {"name": "load_k", "context": "L", "cycles": 10},
    {"name": "qk", "context": "C", "cycles": 40, "fu": "TC"}, {"name": "weights", "context": "C", "cycles": 30},
    {"name": "load_v", "context": "L", "cycles": 10}, {"name": "pv", "context": "C", "cycles": 40, "fu": "TC"},
    {"name": "stage", "context": "C", "scope": "tile_end", "cycles": 1},
    {"name": "put", "context": "W", "scope": "tile_end", "cycles": 1}],
  "values": [{"name": "t", "slot_bytes": 256, "scope": "tile_begin", "max_slots": 1, "alignment": 256},
    {"name": "q", "slot_bytes": 1024}, {"name": "k", "slot_bytes": 2048},
    {"name": "p", "slot_bytes": 2048)" +
         of_p + R"(}, {"name": "v", "slot_bytes": 1024)" + of_v +
         R"(}, {"name": "o", "slot_bytes": 512, "scope": "tile_end", "max_slots": 1, "alignment": 512)" + of_o + R"(}],
  "edges": [{"src": "table", "dst": "begin", "delay": 1, "value": "t"},
    {"src": "load_q", "dst": "qk", "delay": 10, "value": "q"}, {"src": "load_k", "dst": "qk", "delay": 10, "value": "k"},
    {"src": "qk", "dst": "weights", "delay": 40}, {"src": "weights", "dst": "pv", "delay": 30, "value": "p"},
    {"src": "load_v", "dst": "pv", "delay": 10, "value": "v"}, {"src": "pv", "dst": "stage", "delay": 40},
    {"src": "stage", "dst": "put", "delay": 1, "value": "o"})" +
         more + "]}";
}

std::string message_of(const std::string& json) {
  try {
    graph::read_json(json);
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

}  // namespace

TEST_CASE("values that take turns in the loop, and one that follows another in a tile") {
  const graph::Graph graph = graph::read_json(text());
  const std::vector<graph::Sharing> sharings = graph::sharings(graph);
  REQUIRE(sharings.size() == 3);
  CHECK((sharings[0].first == 1 && sharings[0].second == 3 && sharings[0].every_iteration));
  CHECK((sharings[1].first == 2 && sharings[1].second == 4 && sharings[1].every_iteration));
  CHECK((sharings[2].first == 0 && sharings[2].second == 5 && !sharings[2].every_iteration));
  CHECK(graph::alternates(graph, 1));
  CHECK_FALSE(graph::alternates(graph, 0));
  // qk -> weights, weights' reader -> load_q an iteration later; qk -> load_v, pv -> load_k.
  const std::vector<graph::Edge> edges = graph::place_edges(graph);
  REQUIRE(edges.size() == 4);
  for (const graph::Edge& edge : edges) {
    const std::string from = graph.nodes[static_cast<std::size_t>(edge.src)].name;
    CHECK((from == "qk" ? edge.distance == 0 : from == "pv" && edge.distance == 1));
    CHECK(edge.delay == 40);
    CHECK(edge.value == -1);
  }
}

TEST_CASE("a value that is filled before the one in whose place it lies comes first") {
  std::string turned = text("", "", "");
  turned.replace(turned.find(R"("name": "q", "slot_bytes": 1024)"), 31,
                 R"("name": "q", "slot_bytes": 1024, "lies_in": "p")");
  const graph::Graph graph = graph::read_json(turned);
  REQUIRE(graph::sharings(graph).size() == 1);
  CHECK((graph::sharings(graph)[0].first == 1 && graph::sharings(graph)[0].second == 3));
}

TEST_CASE("places: as large as the larger of both sides, values in one place behind each other") {
  const graph::Graph graph = graph::read_json(text());
  const graph::Places places = graph::place_values(graph, {1, 1, 1, 1, 1, 1});
  CHECK(places.offset == std::vector<std::int64_t>{0, 1024, 3072, 1024, 3072, 0});
  CHECK(places.bytes == 5120);  // 512 for o, 2048 for p, 2048 for k, with the alignment of q
  CHECK(graph::place_values(graph::read_json(text("", "", "")), {1, 1, 1, 1, 1, 1}).bytes == 7680);
  // A value whose host has no ring has a place of its own.
  CHECK(graph::place_values(graph, {1, 0, 1, 1, 1, 1}).offset[3] == 3072 - 1024 + 1024);
  const graph::Graph two = graph::read_json(text(R"(, "lies_in": "k", "alignment": 1024)", "", R"(, "lies_in": "k")"));
  const graph::Places beside = graph::place_values(two, {1, 1, 1, 1, 1, 1});
  CHECK(beside.offset[5] == beside.offset[3] + 2048);
}

TEST_CASE("lifetimes that meet are refused with a node of each") {
  CHECK(message_of(text()) == "");
  // Both are in use for all of the loop.
  std::string message = message_of(text(R"(, "lies_in": "k")", ""));
  CHECK(message == "");
  message = message_of(text("", "", "", R"(, {"src": "load_v", "dst": "qk", "delay": 10, "value": "v"})"));
  CHECK(message == "");
  message =
      message_of(text("", R"(, "lies_in": "k")", "", R"(, {"src": "load_v", "dst": "qk", "delay": 10, "value": "v"})"));
  CHECK(has(message,
            "value 'v' is to lie in the place of value 'k', but their lifetimes meet: 'qk' reads 'k' when "
            "'load_v' has filled 'v'; allowed are"));
  message = message_of(text("", R"(, "lies_in": "k")", "",
                            R"(, {"src": "load_k", "dst": "pv", "delay": 10, "value": "k", "delta": 1})"));
  CHECK(has(message, "'pv' reads 'k' an iteration later, when 'load_v' has filled 'v'"));
  message =
      message_of(text(R"(, "lies_in": "t")", "", "", R"(, {"src": "table", "dst": "qk", "delay": 1, "value": "t"})"));
  CHECK(has(message, "'table' fills 't' outside the loop, and 'weights' fills 'p' meanwhile"));
  message = message_of(text(R"(, "lies_in": "q", "min_slots": 2)"));
  CHECK(has(message, "'p' has 2 slots at least, so that 'load_q' would fill the place while 'pv' still reads there"));
}

TEST_CASE("hosts that are none are refused") {
  CHECK(has(message_of(text(R"(, "lies_in": "none")")),
            "values[3].lies_in is \"none\"; allowed is the name of another entry of values"));
  CHECK(has(message_of(text(R"(, "lies_in": "p")")), "allowed is the name of another entry of values"));
  CHECK(has(message_of(text(R"(, "lies_in": "v")")),
            "value 'p' is to lie in the place of value 'v', which lies in the place of 'k' itself; name that one"));
  graph::Graph graph = graph::read_json(text());
  graph.values[3].lies_in = 9;
  CHECK_THROWS_WITH_AS(graph::check(graph), doctest::Contains("value 'p' lies in the place of value 9; allowed"),
                       Error);
  graph.values[3].lies_in = 1;
  graph.values[1].space = graph::Space::tensor;
  CHECK_THROWS_WITH_AS(graph::check(graph), doctest::Contains("'q' is in tensor memory"), Error);
  graph.values[1].space = graph::Space::shared;
  graph.cluster = graph.values[1].shared_by = 2;
  graph.machine.max_cluster = 2;
  CHECK_THROWS_WITH_AS(graph::check(graph), doctest::Contains("other blocks of the cluster copy into a slot"), Error);
}

TEST_CASE("a sum lies in no other's place") {
  graph::Graph graph = graph::read_json(text());
  graph.edges[6].value = 5;  // pv fills what the tile's end reads
  graph.edges.back().value = -1;
  CHECK_THROWS_WITH_AS(graph::check(graph), doctest::Contains("'pv' fills 'o' as a sum"), Error);
}

TEST_CASE("the key is read, written and listed") {
  const graph::Graph graph = graph::read_json(text());
  CHECK(graph.values[3].lies_in == 1);
  CHECK(graph.values[0].lies_in == -1);
  const std::string json = graph::to_json(graph);
  CHECK((has(json, R"("lies_in": "q")") || has(json, R"("lies_in":"q")")));
  CHECK(graph::to_json(graph::read_json(json)) == json);
  CHECK(has(graph::to_text(graph), "value p: 2048 bytes a slot, 1 to 8 slots, iteration, in the place of q"));
}
