// Protects where a grid waits for those before it in its stream, and where it lets the next one begin: Graph::grids.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "ops/gemm/gemm.hpp"
#include "sched/schedule.hpp"

using namespace tj;

namespace {

std::string text_of(graph::Grids grids, bool overlapped = true) {
  graph::Graph graph = ops::gemm_candidate({}, *arch::find("sm_90a")).graph;
  graph.grids = grids;
  graph.machine.overlapped_launch = overlapped;
  return codegen::emit(graph, sched::schedule(graph), "sm90").text;
}

constexpr const char* kOpen = "dev::next_grid_may_start();";
constexpr const char* kWait = "dev::wait_for_grids_before<";
constexpr const char* kJoin = "if (dev::block_index() == 0) dev::wait_for_grids_before();";

}  // namespace

TEST_CASE("a grid lets the next one begin before it waits, or after it") {
  const std::string ordered = text_of(graph::Grids::ordered), opens = text_of(graph::Grids::opens);
  REQUIRE(ordered.find(kOpen) != std::string::npos);
  REQUIRE(opens.find(kOpen) != std::string::npos);
  CHECK(ordered.find(kOpen) < ordered.find(kWait));
  CHECK(opens.find(kWait) < opens.find(kOpen));
  CHECK(ordered.find(kJoin) == std::string::npos);
  CHECK(opens.find(kJoin) == std::string::npos);
}

TEST_CASE("a grid that works beside the one before it waits at its end, by one block") {
  const std::string joins = text_of(graph::Grids::joins);
  CHECK(joins.find(kWait) == std::string::npos);
  REQUIRE(joins.find("dev::go_beside_grid_before();") != std::string::npos);
  REQUIRE(joins.find(kJoin) != std::string::npos);
  CHECK(joins.find(kOpen) < joins.find(kJoin));
  REQUIRE(joins.find("next_tile") != std::string::npos);
  CHECK(joins.rfind("next_tile") < joins.find(kJoin));  // no loop over tiles comes behind it
}

TEST_CASE("a grid that draws its tiles has counters, so it does not work beside another one") {
  graph::Graph graph = ops::gemm_candidate({}, *arch::find("sm_90a")).graph;
  graph.grids = graph::Grids::joins;
  CHECK_NOTHROW(graph::check(graph));
  graph.walk = graph::Walk::dynamic;
  CHECK_THROWS_WITH(graph::check(graph), doctest::Contains("has grids 'joins' and the walk 'dynamic'"));
}

TEST_CASE("grids that do not overlap have none of it") {
  for (const graph::Grids grids : {graph::Grids::ordered, graph::Grids::opens, graph::Grids::joins}) {
    const std::string text = text_of(grids, false);
    CHECK(text.find(kOpen) == std::string::npos);
    CHECK(text.find(kJoin) == std::string::npos);
    CHECK(text.find("beside_grid") == std::string::npos);
  }
}
