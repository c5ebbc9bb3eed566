// Protects ranges of iterations in graphs: what is legal, the JSON text of it, and what listings and schedules say.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>

#include "graph/code.hpp"
#include "graph/graph.hpp"
#include "graph/json_reader.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using testing::has;

std::string with(const std::string& members, const std::string& of_graph = "") {
  return R"({"machine": "hopper")" + of_graph + R"(, "instructions": [{"name": "mma", "cycles": 2, "fu": "TC"},
    {"name": "act", "cycles": 2, "fu": "EXP")" +
         members + R"(}], "edges": [{"src": "mma", "dst": "act", "delay": 2}]})";
}

void refuses(const std::string& members, const std::string& words) {
  CAPTURE(members);
  const Error error = testing::error_of([&] { graph::read_json(with(members)); });
  CHECK(error.stage == Stage::graph);
  CHECK_MESSAGE(has(error.message, words), error.message);
}

}  // namespace

TEST_CASE("a range is read, written again, and shown by listings, schedules and their JSON") {
  const std::string members =
      R"(, "variant": "Whole", "variant_begin": "from", "variant_end": "until", "max_variant_begin": 3)";
  const graph::Graph graph = graph::read_json(with(members, R"(, "ranges": "guarded")"));
  CHECK(graph.nodes[1].range == graph::Range{"Whole", "from", "until", 3});
  CHECK(graph.ranges == graph::Ranges::guarded);
  const graph::Graph again = graph::read_json(graph::to_json(graph));
  CHECK(again.nodes[1].range == graph.nodes[1].range);
  CHECK(again.ranges == graph.ranges);
  CHECK(has(graph::to_text(graph), "ranges guarded\n"));
  CHECK(has(graph::to_text(graph), ", Whole from from until until\n"));
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(sched::verify(graph, schedule).empty());
  CHECK(has(sched::to_text(graph, schedule), "ranges guarded\n"));
  CHECK(has(sched::to_text(graph, schedule), "  Whole from from until until\n"));
  for (const char* member : {"\"ranges\": \"guarded\"", "\"variant\": \"Whole\"", "\"variant_begin\": \"from\"",
                             "\"variant_end\": \"until\""})
    CHECK_MESSAGE(has(sched::to_json(graph, schedule), member), member);
}

TEST_CASE("the schedule does not depend on ranges, and graphs without them do not speak of them") {
  const graph::Graph plain = graph::read_json(with(""));
  const graph::Graph ranged = graph::read_json(with(R"(, "variant": "Fast", "variant_begin": "fast_begin")"));
  CHECK(sched::schedule(plain).cycle == sched::schedule(ranged).cycle);
  CHECK_FALSE(has(graph::to_text(plain), "ranges"));
  CHECK_FALSE(has(sched::to_text(plain, sched::schedule(plain)), "ranges"));
  CHECK_FALSE(has(graph::to_json(plain), "ranges"));
}

TEST_CASE("ranges that say nothing, or cannot be, are refused by name") {
  refuses(R"(, "variant": "Fast")",
          "node 'act' has the variant 'Fast' and no range; give variant_begin, variant_end or both");
  refuses(R"(, "variant_end": "until")",
          "has the range of a variant (until until) and no variant; name it, such as Fast");
  refuses(R"(, "max_variant_begin": 4)", "has the range of a variant (max_variant_begin 4) and no variant");
  refuses(R"(, "variant": "Fast", "variant_end": "until", "max_variant_begin": 4)",
          "has max_variant_begin 4 and no variant_begin; give both");
  refuses(R"(, "variant": "General", "variant_end": "until")", "the name of the body for all iterations");
  refuses(R"(, "variant": "Fast", "variant_end": "until", "scope": "tile_end")",
          "has the variant 'Fast' and runs once a tile; allowed are nodes of the loop");
  const Error error = testing::error_of([] { graph::read_json(with("", R"(, "ranges": "unrolled")")); });
  CHECK_MESSAGE(has(error.message, "peeled"), error.message);
}

TEST_CASE("code takes names alone") {
  graph::Graph graph = graph::read_json(testing::read_bytes(TJ_REPO_DIR "/tests/graph/data/coded.json"), "coded");
  const auto act = static_cast<std::size_t>(graph.node_index("act.0"));
  graph.nodes[act].range = {"Fast", "a b", {}};
  CHECK(
      has(testing::error_of([&] { graph::check_code(graph); }).message, "has the bound 'a b' of its variant's range"));
  graph.nodes[act].range = {"My::Tag", "from", {}};
  CHECK(has(testing::error_of([&] { graph::check_code(graph); }).message,
            "has variant 'My::Tag'; it must be the name of a type"));
}
