// Protects graphs whose blocks multiply in pairs: which barrier counts in which block and for how many arrivals. One
// block alone asks for products, and a graph that a pair cannot express is refused. On the matrix product's graph.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/layout.hpp"
#include "graph/code.hpp"
#include "graph/json_reader.hpp"
#include "ops/common/machine.hpp"
#include "ops/gemm/gemm.hpp"
#include "pipeline.hpp"
#include "sched/attention_graph.hpp"
#include "sched/picture/svg.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::error_of;
using testing::has;

namespace {

const arch::Arch& blackwell() { return *arch::find("sm_100a"); }

Choice product(const char* tile) {
  return choose(ops::gemm_op(), ops::gemm_op().requests({{"dtype", {"f16"}}, {"tile", {tile}}}).front(), blackwell());
}
std::string text_of(const Choice& choice) {
  return codegen::emit(choice.candidate.graph, choice.schedule, blackwell().primitives).text;
}

int node(const Choice& choice, const char* name) { return choice.candidate.graph.node_index(name); }

/// Its one edge to the product c's value of that name.
graph::Edge& edge_of(Choice& choice, const std::string& value) {
  for (graph::Edge& edge : choice.candidate.graph.edges)
    if (edge.value >= 0 && choice.candidate.graph.values[static_cast<std::size_t>(edge.value)].name == value)
      return edge;
  FAIL("no edge with value " << value);
  return choice.candidate.graph.edges.front();
}

std::string refused(const Choice& choice) {
  return error_of([&] { graph::check_code(choice.candidate.graph); }).message;
}

}  // namespace

TEST_CASE("the first block of a pair asks; both bring, both hand back, and the unit arrives in both") {
  const Choice choice = product("128x256x64c2x1");
  REQUIRE(choice.candidate.graph.pairs);
  CHECK_NOTHROW(graph::check_code(choice.candidate.graph));
  CHECK(choice.schedule.roles.size() == 4);  // load, mma, one that takes the sums, one that stores
  const std::string text = text_of(choice);
  for (const char* part :
       {"dev::tensor_begin<512, 2>(", "dev::tensor_free<2>(", "dev::first_of_pair() && dev::elect_one()",
        "if (dev::first_of_pair()) dev::expect_full<", "dev::publish_products_to_pair<",
        "dev::release_products_to_pair<", "dev::release_to_first<", "static constexpr bool kPairs = true;"}) {
    CAPTURE(part);
    CHECK(has(text, part));
  }
  for (const char* part : {"dev::publish_products<", "dev::release_products<"}) CHECK_FALSE(has(text, part));
  // Each block has 128 rows of a and half of b's 256 columns; four warps in each take the sums.
  CHECK(has(text, "kSlotBytes = 16384, kCopiedBytes = 32768;"));
  CHECK(has(text, "kSharers = 1;\n    static constexpr unsigned kFullArrivals = 1, kEmptyArrivals = 8;"));
  // Nobody ends while another block may still arrive at its barriers.
  CHECK(has(text, "dev::cluster_sync_all<"));
  for (const char* ring : {"RingA>(shared, base)", "RingB>(shared, base)"}) {
    CAPTURE(ring);
    const std::size_t drain = text.find("dev::wait_drained<");
    REQUIRE(drain != std::string::npos);
    CHECK(text.find(ring, drain) != std::string::npos);
  }
}

TEST_CASE("blocks alone, and of other clusters, do as they did") {
  for (const char* tile : {"128x256x64", "128x256x64c1x2", "64x256x64c2x1"}) {
    CAPTURE(tile);
    const Choice choice = product(tile);
    CHECK_FALSE(choice.candidate.graph.pairs);
    CHECK_FALSE(has(text_of(choice), "pair"));
    CHECK(has(text_of(choice), "kPairs = false;"));
  }
}

TEST_CASE("which barriers count for both blocks") {
  const Choice choice = product("128x256x64c2x1");
  const graph::Graph& graph = choice.candidate.graph;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const std::string& name = graph.values[v].name;
    CAPTURE(name);
    CHECK(codegen::of_pair(graph, static_cast<int>(v)) == (name == "a" || name == "b" ? codegen::OfPair::read
                                                           : name == "sums0"          ? codegen::OfPair::filled
                                                                                      : codegen::OfPair::none));
  }
}

TEST_CASE("a pair is read, written, listed, and survives being written") {
  const Choice choice = product("128x256x64c2x1");
  const graph::Graph& graph = choice.candidate.graph;
  CHECK(has(graph::to_text(graph), ", clusters of 2 blocks, products of pairs of blocks"));
  CHECK(has(sched::to_text(graph, choice.schedule), "pairs of blocks"));
  CHECK(has(sched::to_svg(graph, choice.schedule), "on sm_100a, pairs of blocks</text>"));
  CHECK(has(sched::to_json(graph, choice.schedule), "\"pairs\": true"));
  const graph::Graph again = ops::read_graph(graph::to_json(graph), "again");
  CHECK(again.pairs);
  CHECK(graph::to_json(again) == graph::to_json(graph));
}

TEST_CASE("what cannot be a pair is refused by name") {
  graph::Graph graph = product("128x256x64c2x1").candidate.graph;
  graph.cluster = 3;
  CHECK(has(error_of([&] { check(graph); }).message, "multiplies in pairs of blocks and runs in clusters of 3"));
  graph.cluster = 2;
  graph.machine.memory_bytes.erase("TMEM");
  CHECK(has(error_of([&] { check(graph); }).message, "which has no tensor memory"));
  graph::Graph without = test::attention_graph();
  without.cluster = without.machine.max_cluster = 2;
  CHECK_NOTHROW(check(without));
  without.machine.memory_bytes["TMEM"] = 262144;
  without.pairs = true;
  CHECK(has(error_of([&] { check(without); }).message,
            "multiplies in pairs of blocks, but no node of it is a product in tensor memory (async unit)"));
}

TEST_CASE("what a pair's products read is brought by copies of each block's own, and read by products alone") {
  Choice choice = product("128x256x64c2x1");
  graph::Graph& graph = choice.candidate.graph;
  graph.values[static_cast<std::size_t>(edge_of(choice, "b").value)].shared_by = 2;
  CHECK(has(refused(choice),
            "value 'b' is read by node 'mma.0', a product of a pair of blocks, and filled by node 'load_b', which 2 "
            "blocks share"));
  graph.values[static_cast<std::size_t>(edge_of(choice, "b").value)].shared_by = 1;
  graph.nodes[static_cast<std::size_t>(node(choice, "load_b"))].async = graph::Async::none;
  CHECK(has(refused(choice), "filled by node 'load_b', which is no copy"));
  graph.nodes[static_cast<std::size_t>(node(choice, "load_b"))].async = graph::Async::copy;
  CHECK_NOTHROW(graph::check_code(graph));
  graph::Node other = graph.nodes[static_cast<std::size_t>(node(choice, "mma.0"))];
  other.name = "looks";
  other.async = graph::Async::none;
  graph.nodes.push_back(other);
  graph::Edge also = edge_of(choice, "a");
  also.dst = node(choice, "looks");
  graph.edges.push_back(also);
  CHECK(has(refused(choice), "and by node 'looks', which is none: only the first block of a pair learns"));
}

TEST_CASE("a role that asks for a pair's products is the first block's, however many warps it has") {
  for (const int warps : {1, 2, 4, 8}) {
    CAPTURE(warps);
    Choice choice = product("256x128x64c2x1");
    graph::Graph graph = choice.candidate.graph;
    for (graph::Node& each : graph.nodes)
      if (each.async == graph::Async::unit) each.warps = warps;
    const std::string text = codegen::emit(graph, sched::schedule(graph), blackwell().primitives).text;
    const std::size_t context = text.find("Product<Config>");
    REQUIRE(context != std::string::npos);
    CHECK(has(text.substr(context - 100, 100), "first_of_pair()"));  // the condition before
  }
}

TEST_CASE("what products read an iteration later is handed back in both blocks after the loop") {
  Choice choice = product("128x256x64c2x1");
  edge_of(choice, "a").distance = 1;
  const std::string text =
      codegen::emit(choice.candidate.graph, sched::schedule(choice.candidate.graph), blackwell().primitives).text;
  for (std::size_t at = text.find("dev::release_alone<"); at != std::string::npos;
       at = text.find("dev::release_alone<", at + 1))
    CHECK(has(text.substr(at, 60), "RingD0"));  // of the role that stores
  const std::size_t after = text.rfind("dev::release_products_to_pair<");
  REQUIRE(after != std::string::npos);
  CHECK(has(text.substr(after, 120), "n) - 1u"));
}

TEST_CASE("a role that asks for a pair's products does nothing else") {
  Choice choice = product("128x256x64c2x1");
  int mma = choice.schedule.role[static_cast<std::size_t>(node(choice, "mma.0"))];
  const auto load = static_cast<std::size_t>(node(choice, "load_a"));
  for (sched::Role& role : choice.schedule.roles) std::erase(role.nodes, static_cast<int>(load));
  choice.schedule.roles[static_cast<std::size_t>(mma)].nodes.push_back(static_cast<int>(load));
  choice.schedule.role[load] = mma;
  CHECK(has(error_of([&] { text_of(choice); }).message,
            "runs 'mma.0', a product of a pair of blocks, and 'load_a', which is none; allowed are products in a role "
            "of their own"));
}
