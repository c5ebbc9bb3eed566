// Protects tj::Graph: a graph in code is its JSON text, member by member; mistakes are named by place; and tj::custom
// makes the same kernel from either.
#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>

#include "arch/arch.hpp"
#include "custom/custom.hpp"
#include "custom/sample_kernel.hpp"
#include "graph/json_reader.hpp"
#include "ops/common/machine.hpp"
#include "ops/op.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using tj::Graph;
using tj::test::SampleKernel;
using tj::testing::error_of;
using tj::testing::has;
using tj::testing::read_bytes;

/// Every member has a value that is not its default.
Graph full_graph() {
  Graph graph;
  graph.name = "full";
  graph.machine = {.functional_units = {{"TMA", 1}, {"TC", 2}, {"ALU", 4}},
                   .memory = {{"SMEM", 200000}, {"TMEM", 262144}},
                   .warps_per_group = 2,
                   .warp_size = 64,
                   .registers = 131072,
                   .max_registers_per_thread = 128,
                   .register_step = 16,
                   .register_roles = true,
                   .shared_barriers = false,
                   .overlapped_launch = false,
                   .max_cluster = 4};
  graph.instructions = {{.name = "load",
                         .cycles = 80,
                         .fu = "TMA",
                         .latency = 640,
                         .issue_cycles = 2,
                         .variable_latency = true,
                         .streaming = true,
                         .memory = {{"SMEM", 16384}},
                         .context = "Loader",
                         .cache_hint = Graph::CacheHint::evict_last},
                        {.name = "product.0",
                         .cycles = 512,
                         .fu = "TC",
                         .registers = 64,
                         .warp_cycles = 3,
                         .async = Graph::Async::unit,
                         .body = "product",
                         .context = "Matrix",
                         .copy = 1},
                        {.name = "scale",
                         .rrt = {{"TC", {0, 2, 2}}, {"ALU", {1, 1, 4}}},
                         .latency = 20,
                         .warps = 8,
                         .context = "Sums",
                         .variant = "Fast",
                         .variant_begin = "fast_begin",
                         .variant_end = "fast_end",
                         .max_variant_begin = 5},
                        {.name = "first", .cycles = 9, .scope = Graph::Scope::tile_begin, .context = "Sums"},
                        {.name = "last",
                         .cycles = 9,
                         .scope = Graph::Scope::tile_end,
                         .drains = true,
                         .context = "Sums",
                         .merges = true}};
  graph.edges = {
      {.src = "load", .dst = "scale", .delay = 640, .value = "tile"},
      {.src = "product.0", .dst = "scale", .delay = 512, .blocking = true, .value = "sums"},
      {.src = "product.0", .dst = "product.0", .delay = 512, .delta = 1, .spill_cycles = 7, .same_role = false},
      {.src = "scale", .dst = "last", .delay = 20, .same_role = false},
      {.src = "first", .dst = "product.0", .delay = 9},
      {.src = "product.0", .dst = "scale", .value = "sums", .updates = true}};
  graph.values = {
      {.name = "tile",
       .slot_bytes = 16384,
       .copied_bytes = 4096,
       .alignment = 512,
       .min_slots = 2,
       .max_slots = 6,
       .shared_by = 2,
       .shared_stride = 2},
      {.name = "sums", .slot_bytes = 512, .max_slots = 1, .within_warp = true, .space = Graph::Space::tensor},
      {.name = "rest", .slot_bytes = 512, .scope = Graph::Scope::tile_end, .max_slots = 2}};
  graph.lists_values = true;
  graph.code = Graph::Code{"user::full",
                           {"full.cuh"},
                           "user::full::Params",
                           {{"kRows", 64}, {"kWide", true}, {"Element", std::string("tj::dev::F16")}}};
  graph.cluster = 4;
  graph.pairs = true;
  graph.blocks_per_sm = 2;
  graph.walk = tj::Graph::Walk::one_tile;
  graph.grids = tj::Graph::Grids::opens;
  graph.piece_bytes = 512;
  graph.most_iterations = 12;
  graph.least_smem_bytes = 1000;
  graph.flops_per_iteration = 1.1e9;
  graph.overhead_cycles = 0.1;
  return graph;
}

/// Two instructions and an edge, to be damaged.
Graph small_graph() {
  Graph graph{.name = "small", .machine = {.name = "hopper"}};
  graph.instructions = {{.name = "load", .fu = "TMA", .variable_latency = true, .memory = {{"SMEM", 1024}}},
                        {.name = "mma", .cycles = 2, .fu = "TC"}};
  graph.edges = {{.src = "load", .dst = "mma", .delay = 1}};
  return graph;
}

template <class Change>
void refuses_graph(const std::string& part, Change&& change) {
  CAPTURE(part);
  Graph graph = small_graph();
  change(graph);
  const tj::Error error = error_of([&] { graph.check(); });
  CHECK(error.stage == tj::Stage::graph);
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, part), error.message);
  CHECK(error_of([&] { static_cast<void>(graph.json()); }).message == error.message);
  CHECK(error_of([&] { tj::schedule(graph); }).message == error.message);
}

std::vector<std::string> known_documents() {
  nlohmann::ordered_json product =
      nlohmann::ordered_json::parse(read_bytes(std::string(tj::test::kSampleFolder) + "/gemm_gelu.json"));
  product.erase("trials");  // they stand beside the graph
  std::vector<std::string> texts = {product.dump()};
  for (const auto& entry : std::filesystem::directory_iterator(TJ_REPO_DIR "/tests/graph/data"))
    texts.push_back(read_bytes(entry.path().string()));
  REQUIRE(texts.size() > 5);
  return texts;
}

}  // namespace

TEST_CASE("every member of a graph survives being written and parsed") {
  const Graph graph = full_graph();
  const Graph again = Graph::parse(graph.json());
  CHECK(again == graph);
  CHECK(again.json() == graph.json());
  CHECK(Graph::parse(small_graph().json(), "another name") == small_graph());
}

TEST_CASE("a graph in code is its text: a parsed graph is written as the text was read") {
  for (const std::string& text : known_documents()) {
    CAPTURE(text.substr(0, 200));
    const Graph graph = Graph::parse(text, "known");
    const std::string canonical = tj::ops::write_graph(tj::ops::read_graph(text, "known"));
    CHECK(graph.json() == canonical);
    CHECK(Graph::parse(canonical).json() == canonical);
  }
}

TEST_CASE("what a document leaves out means the same in code") {
  const Graph least = Graph::parse(R"({"machine": "hopper", "instructions": [{"name": "a", "cycles": 1}]})", "least");
  Graph made{.name = "least", .machine = {.name = "hopper"}};
  made.instructions = {{.name = "a"}};
  CHECK(least == made);
  const Graph table = Graph::parse(R"({"name": "t", "machine": "hopper", "values": [],
    "instructions": [{"name": "a", "rrt": {}}, {"name": "b", "rrt": {"TC": [1, 0, 1]}, "cycles": 9, "fu": "TC"}]})");
  CHECK(table.name == "t");
  CHECK(table.lists_values);
  CHECK(table.instructions[0].cycles == 0);
  CHECK(table.instructions[1].rrt == std::vector<Graph::Row>{{"TC", {1, 0, 1}}});
  CHECK(table.json() == tj::ops::write_graph(tj::ops::read_graph(table.json(), "")));
  CHECK(has(table.json(), "{\"name\":\"a\",\"cycles\":0,\"fu\":null}"));
  // A list of values that is empty is not the same as none: results in SMEM are no rings then.
  Graph loads = small_graph();
  CHECK(tj::schedule(loads).rings().size() == 1);
  loads.lists_values = true;
  CHECK(tj::schedule(loads).rings().empty());
  CHECK(Graph::parse(loads.json()) == loads);
}

TEST_CASE("a graph of a shipped op can be said in code, and its kernel's schedule is the same") {
  for (const char* name : {"sm_90a", "sm_100a", "sm_120a", "gfx1100"}) {
    const tj::arch::Arch& arch = *tj::arch::find(name);
    const tj::ops::Op& op = *tj::ops::find("fmha");
    const tj::ops::Request request = op.requests_for({}, arch).front();
    const tj::graph::Graph shipped = op.candidates(request, arch).front().graph;
    CAPTURE(shipped.name);
    const Graph graph = Graph::parse(tj::ops::write_graph(shipped));
    CHECK(graph.name == shipped.name);
    CHECK(graph.machine == Graph::Machine{.name = name});
    CHECK(graph.json() == tj::ops::write_graph(shipped));
    CHECK(tj::schedule(graph).ii() == tj::sched::schedule(shipped).ii);
  }
}

TEST_CASE("machines that are alike keep their names, with options too") {
  for (const char* name : {"hopper", "blackwell", "sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a", "gfx1100",
                           "gfx1101", "sm_90a+smem=226K"}) {
    Graph graph{.name = "named", .machine = {.name = name}};
    graph.instructions = {{.name = "a"}};
    CHECK(Graph::parse(graph.json()).machine.name == name);
  }
  for (const tj::arch::Arch* arch : tj::arch::all()) {  // a description with every member right is that machine
    Graph described{.name = "described", .machine = Graph::Machine::described(arch->name)};
    described.instructions = {{.name = "a"}};
    CHECK_FALSE(Graph::parse(described.json()).machine.name.empty());
  }
  const Graph::Machine hopper = Graph::Machine::described("hopper");
  CHECK(hopper.name.empty());
  CHECK(hopper.functional_units == std::vector<Graph::Unit>{{"TC", 1}, {"EXP", 1}, {"TMA", 1}});
  CHECK(hopper.memory.at("SMEM") == 227 * 1024);
  Graph graph = small_graph();
  graph.machine = hopper;
  graph.machine.functional_units[0].capacity = 2;
  CHECK(Graph::parse(graph.json()) == graph);
  const tj::Error error = error_of([] { Graph::Machine::described("ampere"); });
  CHECK_MESSAGE(error.message.starts_with("graph 'machine'"), error.message);
  CHECK(error.stage == tj::Stage::graph);
  CHECK_MESSAGE(has(error.message, "machine is 'ampere'; allowed are hopper, blackwell, sm_90a"), error.message);
}

TEST_CASE("a mistake in code is refused by its place, as one in a text is") {
  refuses_graph("graph '': name is ''; a name has 1 to 128 bytes", [](Graph& g) { g.name.clear(); });
  refuses_graph("machine is 'ampere'; allowed are hopper", [](Graph& g) { g.machine.name = "ampere"; });
  refuses_graph("machine.name is 'hopper' and other members of the machine are set; give the name alone",
                [](Graph& g) { g.machine.max_cluster = 2; });
  refuses_graph("machine.functional_units.TC is given twice; keep one",
                [](Graph& g) { g.machine = {.functional_units = {{"TC", 1}, {"TMA", 1}, {"TC", 2}}}; });
  refuses_graph("machine.functional_units.TC is 0", [](Graph& g) { g.machine = {.functional_units = {{"TC", 0}}}; });
  refuses_graph("machine.warp_size is 0",
                [](Graph& g) { g.machine = {.functional_units = {{"TC", 1}}, .warp_size = 0}; });
  refuses_graph("has no nodes", [](Graph& g) { g.instructions.clear(), g.edges.clear(); });
  refuses_graph("instructions[1].name is missing", [](Graph& g) { g.instructions[1].name.clear(); });
  refuses_graph("instructions[1].name is 'load', as is instructions[0].name",
                [](Graph& g) { g.instructions[1].name = "load"; });
  refuses_graph("instructions[1].fu names the unit 'XU'; machine 'hopper (normalised)' has TC, EXP, TMA",
                [](Graph& g) { g.instructions[1].fu = "XU"; });
  refuses_graph("instructions[1].cycles is -1", [](Graph& g) { g.instructions[1].cycles = -1; });
  refuses_graph("instructions[1].rrt.TC[1] is 2; it must be a whole number from 0 to 1",
                [](Graph& g) { g.instructions[1].rrt = {{"TC", {1, 2}}}; });
  refuses_graph("instructions[1].rrt.TC is given twice; keep one",
                [](Graph& g) { g.instructions[1].rrt = {{"TC", {1}}, {"TC", {1}}}; });
  refuses_graph("instructions[0].memory.TMEM is a space that machine 'hopper (normalised)' does not have; it has SMEM",
                [](Graph& g) { g.instructions[0].memory["TMEM"] = 1; });
  refuses_graph("instructions[0].scope is 7; allowed are tile_begin, iteration, tile_end",
                [](Graph& g) { g.instructions[0].scope = static_cast<Graph::Scope>(7); });
  refuses_graph("instructions[0].warps is 33", [](Graph& g) { g.instructions[0].warps = 33; });
  refuses_graph("edges[0].dst is 'sum', which no instruction is called", [](Graph& g) { g.edges[0].dst = "sum"; });
  refuses_graph("edges[0].src is missing", [](Graph& g) { g.edges[0].src.clear(); });
  refuses_graph("edges[0].delta is -1", [](Graph& g) { g.edges[0].delta = -1; });
  refuses_graph("edges[0].value is 'tile', but the document has no values; list them",
                [](Graph& g) { g.edges[0].value = "tile"; });
  refuses_graph("values[0].slot_bytes is 0 for a value in shared memory",
                [](Graph& g) { g.values = {{.name = "tile"}}; });
  refuses_graph("code.config.kRows is given twice",
                [](Graph& g) { g.code = Graph::Code{"a", {"a.cuh"}, "P", {{"kRows", 1}, {"kRows", 2}}}; });
  refuses_graph("blocks_per_sm is 33", [](Graph& g) { g.blocks_per_sm = 33; });
  refuses_graph("overhead_cycles is null; it must be a number from 0",
                [](Graph& g) { g.overhead_cycles = std::numeric_limits<double>::quiet_NaN(); });
  refuses_graph("cycle 'load' -> 'mma' -> 'load' has distance 0 and delay 2",
                [](Graph& g) { g.edges.push_back({.src = "mma", .dst = "load", .delay = 1}); });
}

TEST_CASE("a text with a mistake is refused by its place, and by the name that it was given") {
  const tj::Error error = error_of([] { Graph::parse("{\"machine\": 3}", "mine"); });
  CHECK(error.stage == tj::Stage::graph);
  CHECK_MESSAGE(has(error.message, "graph 'mine': machine is 3"), error.message);
  CHECK(has(error_of([] { Graph::parse("{", "mine"); }).message, "graph 'mine': not JSON, at or after"));
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string(129, 'x')})
    CHECK(has(error_of([&] { Graph::parse(small_graph().json(), name); }).message, "a name has 1 to 128 bytes"));
}

TEST_CASE("a listing names machine, nodes and edges") {
  const std::string text = small_graph().text();
  CHECK_MESSAGE(has(text, "graph small on hopper (normalised)"), text);
  CHECK_MESSAGE(has(text, "node load: iteration, cycles 1, latency 1, TMA [0, 1) async-copy variable-latency"), text);
}

TEST_CASE("a kernel is made from a graph in code as from its text") {
  SampleKernel by_text, by_code;
  const Graph graph = Graph::parse(by_text.description.graph);
  by_code.description.graph = graph.json();
  const auto one = tj::read_custom(by_text.description), other = tj::read_custom(by_code.description);
  const tj::arch::Arch& arch = *tj::arch::find("sm_90a");
  const tj::graph::Graph first = one->candidates(one->request(), arch).front().graph,
                         second = other->candidates(other->request(), arch).front().graph;
  CHECK(tj::graph::to_text(first) == tj::graph::to_text(second));
  CHECK(tj::ops::write_graph(first) == tj::ops::write_graph(second));
  CHECK(first.name == "gemm_gelu");
}

TEST_CASE("the name of a kernel's unit is the description's, whatever the graph calls itself") {
  SampleKernel sample;
  Graph graph = Graph::parse(sample.description.graph);
  graph.name = "a \\ comment that would go on \\";
  sample.description.graph = graph.json();
  const auto made = tj::read_custom(sample.description);
  CHECK(made->candidates(made->request(), *tj::arch::find("sm_90a")).front().graph.name == "gemm_gelu");
}

TEST_CASE("blocks that do one tile each need no way to the next") {
  SampleKernel sample;
  Graph graph = Graph::parse(sample.description.graph);
  std::string text = read_bytes(sample.folder() + "/gemm_gelu.cuh");
  for (std::size_t at = text.find("next_tile"); at != std::string::npos; at = text.find("next_tile", at))
    text.replace(at, 9, "x");
  sample.write("gemm_gelu.cuh", text);
  CHECK_THROWS_WITH(tj::read_custom(sample.description), doctest::Contains("next_tile"));
  graph.walk = tj::Graph::Walk::one_tile;
  sample.description.graph = graph.json();
  CHECK_NOTHROW(tj::read_custom(sample.description));
}
