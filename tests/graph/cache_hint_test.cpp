// Protects cache hints of bulk copies in graphs: read, written, told to the body, refused elsewhere.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include <tilejit/error.hpp>

#include "codegen/emit.hpp"
#include "graph/json_reader.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj;
using testing::has;

/// The graph of a coded kernel, with a piece of its text in the place of another.
std::string hinted(const std::string& piece = "", const std::string& added = "") {
  std::ifstream file(TJ_REPO_DIR "/tests/graph/data/coded.json", std::ios::binary);
  REQUIRE(file);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.insert(at + piece.size(), added);
}
std::string unit_of(const graph::Graph& graph) { return codegen::emit(graph, sched::schedule(graph), "sm90").text; }
std::string refusal(const std::string& text) {
  return testing::error_of([&] { graph::read_json(text, "mine"); }).message;
}

}  // namespace

TEST_CASE("a copy's cache hint is read, written and told to its body; other nodes have none") {
  const std::string copy = "\"context\": \"Loader\"", product = "\"warp_cycles\": 60";
  CHECK_FALSE(has(unit_of(graph::read_json(hinted())), "dev::Evict"));
  CHECK_FALSE(has(graph::to_json(graph::read_json(hinted())), "cache_hint"));
  for (const auto& [word, tag] : {std::pair("evict_first", "dev::EvictFirst{}"), {"evict_last", "dev::EvictLast{}"}}) {
    const graph::Graph graph = graph::read_json(hinted(copy, std::string(", \"cache_hint\": \"") + word + "\""));
    CHECK(graph::to_json(graph::read_json(graph::to_json(graph))) == graph::to_json(graph));
    CHECK(has(graph::to_json(graph), word));
    CHECK(has(unit_of(graph), std::string(", ") + tag + ");"));
  }
  const std::string word = refusal(hinted(copy, ", \"cache_hint\": \"no_allocate\""));
  CHECK_MESSAGE(has(word, "instructions[0].cache_hint is \"no_allocate\"; allowed are none, evict_first, evict_last"),
                word);
  const std::string node = refusal(hinted(product, ", \"cache_hint\": \"evict_last\""));
  CHECK_MESSAGE(has(node, "node 'mma.0' has a cache_hint and is no bulk copy; allowed with async 'copy' alone"), node);
}
