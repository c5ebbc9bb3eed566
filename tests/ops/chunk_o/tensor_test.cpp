// Protects what is found of chunk output on tensor memory: its roles and stages; and by how many heads an item may not
// have, what is refused.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

sched::Options usual() {
  sched::Options options;
  options.copies_apart = true;
  return options;
}
graph::Graph graph_of(int heads) {
  ops::ChunkOKernel kernel;
  kernel.divisor = heads;
  return ops::chunk_o_graph(kernel, heads, *arch::find("sm_100a"));
}

}  // namespace

TEST_CASE(
    "roles are found: copies, products, who weighs, who finishes, stores; two stages, and nothing but memory is waited "
    "for") {
  for (const int heads : {1, 2}) {
    CAPTURE(heads);
    const graph::Graph graph = graph_of(heads);
    const sched::Schedule schedule = sched::schedule(graph, usual());
    REQUIRE(schedule.roles.size() == 5);
    CHECK(schedule.roles[0].name == "load");
    CHECK(schedule.roles[1].name == "mma");
    const auto role_of = [&](const char* node) {
      return schedule.role[static_cast<std::size_t>(graph.node_index(node))];
    };
    CHECK(role_of("weigh") == role_of("fetch"));
    CHECK(role_of("stage_rows") == role_of("fetch_rows"));
    CHECK(role_of("weigh") != role_of("stage_rows"));
    CHECK(schedule.roles[4].name == "store");
    CHECK(schedule.cycle[static_cast<std::size_t>(graph.node_index("stage_rows"))] / schedule.ii == 1);
    CHECK(schedule.proven_ii);
    CHECK(has(schedule.certificate, "unit TMA"));
  }
}

TEST_CASE("items of three heads are refused by what there is; their ratio is served by items of one") {
  ops::ChunkOKernel kernel;
  kernel.divisor = 3;
  CHECK(ops::chunk_o_candidates(kernel, *arch::find("sm_100a")).size() == 1);
  kernel.heads = 3;
  const std::string message =
      testing::error_of([&] { ops::chunk_o_candidates(kernel, *arch::find("sm_100a")); }).message;
  CHECK_MESSAGE(has(message, "--item-heads is '3'; allowed on sm_100a: auto, 1, 2"), message);
}
