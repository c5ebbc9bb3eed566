// Protects what a certificate says where a search excluded the interval below: the longest recurrence, and the nodes
// that have no place beside it.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj;
using tj::testing::has;

graph::Node node(const char* name, std::vector<graph::Reservation> uses, int latency) {
  graph::Node made;
  made.name = name;
  made.reservations = std::move(uses);
  made.latency = latency;
  return made;
}

/// Two products, of which one waits for what is made of the other. `beside` has to be done before that as well.
graph::Graph chain(int unit_of_beside) {
  graph::Graph graph;
  graph.name = "chain";
  graph.machine.units = {{"TC", 1}, {"ALU", 1}};
  graph.nodes = {node("read", {{0, 0, 20, 1}}, 20), node("weigh", {{1, 0, 5, 1}}, 5),
                 node("change", {{0, 0, 20, 1}}, 20), node("beside", {{unit_of_beside, 0, 18, 1}}, 18)};
  const auto edge = [&](int from, int to, int distance) {
    graph::Edge made;
    made.src = from;
    made.dst = to;
    made.delay = graph.nodes[static_cast<std::size_t>(from)].latency;
    made.distance = distance;
    graph.edges.push_back(made);
  };
  edge(0, 1, 0);
  edge(1, 2, 0);
  edge(2, 0, 1);
  edge(3, 1, 0);
  edge(2, 3, 1);
  return graph;
}

}  // namespace

TEST_CASE("the longest recurrence is named, and the node that has no place beside it") {
  const graph::Graph graph = chain(0);
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.res_mii == 58);
  CHECK(schedule.rec_mii == 45);
  CHECK(schedule.ii == 63);
  CHECK(schedule.proven_ii);
  CHECK(schedule.excluded.ii == 62);
  CHECK(schedule.excluded.recurrence == std::vector<std::string>{"change", "read", "weigh"});
  CHECK(schedule.excluded.cycles == 45);
  CHECK(schedule.excluded.distance == 1);
  CHECK(schedule.excluded.unit == "TC");
  CHECK(schedule.excluded.nodes == std::vector<std::string>{"beside"});
  CAPTURE(schedule.certificate);
  CHECK(has(schedule.certificate, "takes 45 cycles over distance 1, and unit TC has no place beside it for beside"));
  CHECK(has(sched::to_text(graph, schedule), "has no place beside it for beside\n"));
  const std::string json = sched::to_json(graph, schedule);
  CHECK(has(json, "\"excluded\": {"));
  CHECK(has(json, "\"unit\": \"TC\""));
}

TEST_CASE("an interval that units or recurrences alone set has nothing to add") {
  const graph::Graph graph = chain(1);
  const sched::Schedule schedule = sched::schedule(graph);
  CAPTURE(schedule.certificate);
  CHECK(schedule.ii == 45);
  CHECK(schedule.excluded.ii == 0);
  CHECK(!has(schedule.certificate, "has no place"));
  CHECK(!has(sched::to_json(graph, schedule), "\"excluded\""));
}
