// Protects the format of user graphs: what is read, with which defaults; what is refused, by place; what is written.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <tilejit/error.hpp>

#include "graph/examples.hpp"
#include "graph/json_reader.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

std::string slurp(const std::string& path) {
  std::ifstream file(std::string(TJ_REPO_DIR "/") + path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Two instructions and an edge, with one piece of the text replaced.
std::string altered(std::string_view piece, std::string_view other) {
  std::string text =
      R"({"machine": {"functional_units": {"TC": 2, "EXP": 1}, "memory": {"SMEM": 1000}}, "instructions": [
    {"name": "a", "cycles": 2, "fu": "TC", "latency": 3, "variable_latency": false, "streaming": false, "memory": {"SMEM": 10}, "registers": 8},
    {"name": "b", "cycles": 1, "fu": "EXP"}],
    "edges": [{"src": "a", "dst": "b", "delay": 3, "delta": 0, "blocking": true}, {"src": "b", "dst": "a", "delay": -3, "delta": 0}]})";
  const std::size_t at = text.find(piece);
  REQUIRE_MESSAGE(at != std::string::npos, piece);
  return text.replace(at, piece.size(), other);
}

void refuses_text(const std::string& text, const std::string& part) {
  CAPTURE(part);
  try {
    graph::read_json(text, "mine");
    FAIL("not refused");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::graph);
    CHECK(e.code == Code::invalid_argument);
    CHECK_MESSAGE(e.message.find("graph 'mine': ") == 0, e.message);
    CHECK_MESSAGE(e.message.find(part) != std::string::npos, e.message);
  }
}

void refuses(std::string_view piece, std::string_view other, const std::string& part) {
  refuses_text(altered(piece, other), part);
}

void agrees(const graph::Graph& graph, const char* name, int ii, int length, bool latency_zero) {
  CAPTURE(name);
  sched::Options options;
  options.streaming_latency_zero = latency_zero;
  const sched::Schedule result = sched::schedule(graph, options);
  CHECK(result.ii == ii);
  CHECK(result.length == length);
  CHECK(result.proven_ii);
  CHECK(result.proven_length);
  CHECK(sched::verify(graph, result).empty());
}

}  // namespace

TEST_CASE("the example files schedule as the library's functions do") {
  struct Known {
    const char* name;
    int ii, length, length_zero;
  };
  for (const Known& known :
       {Known{"simplified_fa", 2, 4, 4}, {"fa_hopper", 4, 9, 8}, {"fa_blackwell", 2, 7, 6}, {"simple_gemm", 2, 4, 3}}) {
    const graph::Graph read =
        graph::read_json(slurp(std::string("tests/graph/data/") + known.name + ".json"), known.name);
    const graph::Graph again = graph::read_json(graph::to_json(graph::example(known.name)), known.name);
    for (const graph::Graph& graph : {read, again, graph::example(known.name)}) {
      agrees(graph, known.name, known.ii, known.length, false);
      agrees(graph, known.name, known.ii, known.length_zero, true);
    }
    CHECK(read.edges.size() == again.edges.size());
    CHECK(sched::schedule(read).rings.size() == sched::schedule(graph::example(known.name)).rings.size());
    sched::Options tight;
    tight.node_budget = 1;
    if (known.name == std::string("fa_hopper")) CHECK_FALSE(sched::schedule(read, tight).proven_length);
  }
}

TEST_CASE("every field is read, and left-out ones have their defaults") {
  const graph::Graph graph =
      graph::read_json(altered("\"cycles\": 1, \"fu\": \"EXP\"",
                               "\"rrt\": {\"TC\": [2, 2, 0, 1], \"EXP\": [0, 1]}, \"cycles\": 9, \"fu\": null"));
  REQUIRE(graph.nodes.size() == 2);
  const graph::Node &a = graph.nodes[0], &b = graph.nodes[1];
  CHECK(graph.machine.units[0].capacity == 2);
  CHECK(graph.machine.memory_bytes.at("SMEM") == 1000);
  CHECK(a.cycles == 2);
  CHECK(a.latency == 3);
  CHECK(a.registers == 8);
  CHECK(a.memory_bytes.at("SMEM") == 10);
  REQUIRE(a.reservations.size() == 1);
  CHECK(a.reservations[0].cycles == 2);
  CHECK(b.cycles == 4);  // the table's
  CHECK(b.latency == 4);
  REQUIRE(b.reservations.size() == 3);
  CHECK(b.reservations[0].count == 2);
  CHECK(b.reservations[0].cycles == 2);
  CHECK(b.reservations[1].start == 3);
  CHECK(b.reservations[2].unit == 1);
  CHECK(b.reservations[2].start == 1);
  REQUIRE(graph.edges.size() == 2);
  CHECK(graph.edges[0].blocking);
  CHECK(graph.edges[1].delay == -3);
  CHECK_FALSE(graph.edges[1].blocking);
  REQUIRE(graph.values.size() == 1);  // what a hands to b
  CHECK(graph.edges[0].value == 0);
  CHECK(graph::to_json(graph::read_json(graph::to_json(graph))) == graph::to_json(graph));
}

TEST_CASE("no cycles on a unit, no unit and negative delays are legal") {
  const graph::Graph graph = graph::read_json(R"({"machine": "blackwell", "instructions": [
    {"name": "none", "cycles": 0, "fu": "TC"}, {"name": "free", "cycles": 5, "fu": null}, {"name": "also", "cycles": 2}],
    "edges": [{"src": "none", "dst": "free", "delay": -4}]})");
  CHECK(sched::schedule(graph).ii == 1);
  CHECK(sched::schedule(graph).length == 5);
}

TEST_CASE("a graph with a mistake is refused by place") {
  refuses("\"fu\": \"EXP\"", "\"fu\": \"XU\"", "instructions[1].fu names the unit 'XU'; machine 'custom' has TC, EXP");
  refuses("\"fu\": \"EXP\"", "\"fu\": 3", "instructions[1].fu is 3; it must be a string");
  refuses("\"name\": \"b\"", "\"name\": \"a\"", "instructions[1].name is 'a', as is instructions[0].name");
  refuses("\"name\": \"b\"", "\"name\": \"\"", "instructions[1].name");
  refuses("\"name\": \"b\"", "\"name\": \"\\u0007\"", "instructions[1].name");
  refuses("\"name\": \"b\", ", "", "instructions[1].name is missing");
  refuses("\"cycles\": 1, ", "", "instructions[1].cycles is missing");
  refuses("\"cycles\": 1", "\"cycles\": -1", "instructions[1].cycles is -1");
  refuses("\"cycles\": 1", "\"cycles\": 1.5", "instructions[1].cycles is 1.5");
  refuses("\"cycles\": 1", "\"cycles\": \"1\"", "instructions[1].cycles is \"1\"");
  refuses("\"cycles\": 1", "\"cycles\": 99999999999999999999", "instructions[1].cycles is 1e+20");
  refuses("\"cycles\": 1", "\"cycles\": 9223372036854775808", "instructions[1].cycles is 9223372036854775808");
  refuses("\"cycles\": 1", "\"cycles\": 1e999", "at or after instructions[1].cycles");
  refuses("\"cycles\": 1", "\"cycles\": NaN", "at or after instructions[1].cycles: parse error at line 3");
  refuses("\"latency\": 3", "\"latency\": true", "instructions[0].latency is true");
  refuses("\"streaming\": false", "\"streaming\": 0", "instructions[0].streaming is 0; it must be true or false");
  refuses("{\"SMEM\": 10}", "{\"SMEM\": 1001}",
          "instructions[0].memory.SMEM is 1001; it must be a whole number from 0 to 1000");
  refuses("{\"SMEM\": 10}", "{\"TMEM\": 1}",
          "instructions[0].memory.TMEM is a space that machine 'custom' does not have; it has SMEM");
  refuses("{\"SMEM\": 10}", "[]", "instructions[0].memory is an array of 0");
  refuses("\"registers\": 8", "\"regs\": 8", "instructions[0] has the key 'regs'; allowed are name, cycles,");
  refuses("\"cycles\": 1,", "\"rrt\": {\"TC\": [1, 3]},",
          "instructions[1].rrt.TC[1] is 3; it must be a whole number from 0 to 2");
  refuses("\"cycles\": 1,", "\"rrt\": {\"XU\": [1]},", "instructions[1].rrt.XU names the unit 'XU'");
  refuses("\"cycles\": 1,", "\"rrt\": {\"TC\": 1},", "instructions[1].rrt.TC is 1; it must be an array");
  refuses("\"TC\": 2", "\"TC\": 0", "machine.functional_units.TC is 0");
  refuses("\"TC\": 2", "\"TC\": 2, \"TC\": 1", "machine.functional_units.TC is given twice");
  refuses("{\"SMEM\": 1000}", "{\"SMEM\": 0}", "machine.memory.SMEM is 0");
  refuses("\"src\": \"a\"", "\"src\": \"c\"", "edges[0].src is 'c', which no instruction is called");
  refuses("\"dst\": \"a\"", "\"dst\": null", "edges[1].dst is null");
  refuses("\"delta\": 0, \"blocking\"", "\"delta\": -1, \"blocking\"", "edges[0].delta is -1");
}

TEST_CASE("a graph that is wrong as a whole is refused") {
  refuses("\"delay\": -3", "\"delay\": 1", "cycle 'a' -> 'b' -> 'a' has distance 0 and delay 4");
  refuses_text("", "not JSON, at or after the document");
  refuses_text("[]", "the document is an array of 0; it must be an object");
  refuses_text("{}", "machine is missing");
  refuses_text(R"({"machine": "ampere", "instructions": []})", "machine is 'ampere'; allowed are hopper, blackwell");
  refuses_text(R"({"machine": "hopper", "instructions": []})", "has no nodes");
  refuses_text(R"({"machine": {}, "instructions": []})", "machine.functional_units is missing");
  std::string many = R"({"machine": "hopper", "instructions": [)";
  for (int i = 0; i < 10000; ++i)
    many += (i == 0 ? "{\"name\": \"n" : ",{\"name\": \"n") + std::to_string(i) + "\", \"cycles\": 1, \"fu\": \"TC\"}";
  refuses_text(many + "]}", "instructions has 10000 entries; at most 1024");
  const auto keys = [](int count) {
    std::string text = "{\"k\": 0";
    for (int i = 1; i < count; ++i) text += ", \"k" + std::to_string(i) + "\": 0";
    return text + "}";
  };
  refuses_text(keys(1024), "the document has the key 'k'; allowed are name, machine");
  refuses_text(keys(1025), "k1024 is one key too many; an object may have 1024");
  refuses_text(std::string(100000, '['), "nested deeper");
  refuses_text(R"({"machine": "hopper", "instructions": [{"name": )" + std::string(1000, '[') + "]}",
               "instructions[0].name[0]");
}

TEST_CASE("spill costs and ties to a role are written and read") {
  graph::Graph graph = graph::fa_hopper();
  graph.edges[0].spill_cycles = 5;
  graph.edges[2].same_role = true;
  const graph::Graph again = graph::read_json(graph::to_json(graph));
  CHECK(again.edges[0].spill_cycles == 5);
  CHECK(again.edges[2].same_role);
  CHECK_FALSE(again.edges[1].same_role);
}

TEST_CASE("a reservation that ends after its node's own cycles is written and read whole") {
  graph::Graph graph = graph::fa_hopper();
  graph::Node& node = graph.nodes[0];
  node.cycles = 2;
  node.latency = 9;
  node.reservations = {{node.reservations.empty() ? 0 : node.reservations[0].unit, 3, 4, 1}};
  const graph::Graph again = graph::read_json(graph::to_json(graph));
  REQUIRE(again.nodes[0].reservations.size() == 1);
  CHECK(again.nodes[0].reservations[0].start == 3);
  CHECK(again.nodes[0].reservations[0].cycles == 4);
  CHECK(again.nodes[0].cycles == 2);
  CHECK(again.nodes[0].latency == 9);
}

TEST_CASE("blocks side by side have a share of a machine that is named, and what a machine that is an object says") {
  graph::Machine whole;
  whole.name = "whole";
  whole.units = {{"TC", 1}};
  whole.memory_bytes = {{"SMEM", 99 * 1024}, {"TMEM", 4096}};
  whole.smem_per_sm_bytes = 100 * 1024;
  whole.smem_reserved_bytes = 1024;
  const std::string nodes = R"("instructions": [{"name": "a", "cycles": 8, "fu": "TC"}]})";
  const graph::Graph named = graph::read_json(R"({"machine": "whole", "blocks_per_sm": 2, )" + nodes, "named", {whole});
  CHECK(named.blocks_per_sm == 2);
  CHECK(named.machine.memory_bytes.at("SMEM") == 49 * 1024);
  CHECK(named.machine.memory_bytes.at("TMEM") == 2048);
  CHECK(named.machine.registers == 32768);
  CHECK(graph::to_text(named).find("graph named on whole, 2 blocks an SM\n") == 0);
  const std::string text = graph::to_json(named, {whole});
  CHECK(text.find("\"machine\": \"whole\",\n  \"blocks_per_sm\": 2,") != std::string::npos);
  CHECK(graph::to_text(graph::read_json(text, "named", {whole})) == graph::to_text(named));

  const graph::Graph object = graph::read_json(
      R"({"machine": {"functional_units": {"TC": 1}, "memory": {"SMEM": 1000}, "registers": 4096}, "blocks_per_sm": 4, )" +
      nodes);
  CHECK(object.machine.memory_bytes.at("SMEM") == 1000);
  CHECK(object.machine.registers == 4096);
  CHECK(graph::to_json(graph::read_json(graph::to_json(object))) == graph::to_json(object));

  for (const char* wrong : {"0", "33", "1.5", "\"2\""})
    refuses_text(std::string(R"({"machine": "hopper", "blocks_per_sm": )") + wrong + ", " + nodes,
                 std::string("blocks_per_sm is ") + wrong);
  graph::Graph checked = named;
  checked.blocks_per_sm = 0;
  CHECK_THROWS_WITH(graph::check(checked), doctest::Contains("runs 0 blocks an SM; allowed are 1 to 32"));
}

TEST_CASE("letters beyond ASCII stand as they are in what is written and in what is refused") {
  graph::Graph graph = graph::fa_hopper();
  graph.nodes[0].name = "l\u00e4dt";
  CHECK(graph::to_json(graph).find("\"l\u00e4dt\"") != std::string::npos);
  refuses("\"fu\": \"EXP\"", "\"fu\": null, \"async\": \"l\u00e4dt\"",
          "instructions[1].async is \"l\u00e4dt\"; allowed");
}

TEST_CASE("the README's example is a graph") {
  const std::string page = slurp("src/graph/README.md");
  const std::size_t begin = page.find("```json\n");
  REQUIRE(begin != std::string::npos);
  const std::size_t from = begin + 8;
  const graph::Graph graph = graph::read_json(page.substr(from, page.find("```", from) - from), "readme");
  CHECK(graph.nodes.size() == 5);
  agrees(graph, "readme", 512, 1252, false);
}
