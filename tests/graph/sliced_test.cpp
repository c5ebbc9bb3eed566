// Protects what a graph of slices must be, and the unit that is written for it: clusters that share no values, shared
// memory for the sums of all blocks but the last, one announcement of them, a wait for them.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "custom/listed_kernel.hpp"
#include "graph/graph.hpp"
#include "graph/json_code.hpp"
#include "graph/json_reader.hpp"
#include "ops/common/machine.hpp"
#include "sched/schedule.hpp"

using namespace tj;

namespace {

graph::Graph sliced(int cluster) {
  const test::ListedKernel source("sm_90a", "sliced", test::ListedKernel::Loads::engine, cluster);
  return graph::read_json(source.description.graph, "listed", {ops::machine_of(*arch::find("sm_90a"))});
}

}  // namespace

TEST_CASE("slices are for clusters that share nothing, and take shared memory for the sums of all blocks but one") {
  graph::Graph graph = sliced(4);
  CHECK(graph.walk == graph::Walk::sliced);
  CHECK_NOTHROW(graph::check(graph));
  CHECK(graph::walk_bytes(graph) >= 3 * test::kListedPieceBytes + 16);
  CHECK_FALSE(graph.walks());
  CHECK_FALSE(graph.draws());
  const auto refused = [](graph::Graph other, const char* says) {
    CHECK_THROWS_WITH(graph::check(other), doctest::Contains(says));
  };
  graph.cluster = 1;
  refused(graph, "clusters of 1 blocks");
  graph = sliced(2);
  graph.values.front().shared_by = 2;
  refused(graph, "allowed where the walk is 'sliced' are 1 block, or those whose product divides 1, the tiles of a");
  graph = sliced(2);
  graph.machine.shared_barriers = false;
  refused(graph, "which has no barriers in shared memory");
  graph = sliced(2);
  graph.piece_bytes = 0;
  refused(graph, "has the walk 'sliced' and 0 bytes a piece");
  graph = sliced(2);
  for (graph::Node& node : graph.nodes) node.merges = false;
  refused(graph, "has the walk 'sliced' and no node that merges");
}

TEST_CASE("a cluster of several tiles in slices shares copies among blocks of a slice alone") {
  graph::Graph graph = sliced(4);
  const auto refused = [](const graph::Graph& other, const char* says) {
    CHECK_THROWS_WITH(graph::check(other), doctest::Contains(says));
  };
  graph.slices = 2;
  graph.values.front().shared_by = 2;
  CHECK_NOTHROW(graph::check(graph));
  CHECK(graph::walk_bytes(graph) < 2 * test::kListedPieceBytes);  // sums of one other block
  graph.values.front().shared_stride = 2;                         // ranks 0 and 2 are slices of one tile
  refused(graph, "shared by 2 blocks whose ranks are 2 apart; allowed where the walk is 'sliced'");
  graph.values.front().shared_stride = 1;
  for (const int slices : {1, 3, 8}) {
    graph.slices = slices;
    refused(graph, "slices; allowed are 0 (as many as a cluster has blocks) and divisors of 4 from 2 on");
  }
  graph.slices = 2;
  graph.walk = graph::Walk::persistent;
  refused(graph, "has 2 slices and the walk 'persistent'; allowed is 0 where the walk is not 'sliced'");
}

TEST_CASE("the last block announces the sums once, where it has a tile, and waits for them") {
  const graph::Graph graph = sliced(4);
  const std::string text = codegen::emit(graph, sched::schedule(graph), "sm90").text;
  const auto at = [&](const char* part) { return text.find(part); };
  CHECK(at("#include \"sliced_walk.cuh\"") != std::string::npos);
  CHECK(at("dev::slice_of<RingSlices, 4, 4>(shared, tile_iterations") < at("dev::expect_slices<"));
  CHECK(at("dev::expect_slices<") < at("dev::wait_slices<"));
  CHECK(at("dev::expect_slices<") == text.rfind("dev::expect_slices<"));
  CHECK(at("kSlotBytes = 6144") != std::string::npos);
}
