// Protects the condition under which two roles share a text. Copies of a context may wait for different things of their
// own. One text would wait for the first copy's alone, and the second would read an accumulator that is still being
// written.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "codegen/emit.hpp"
#include "codegen/family.hpp"
#include "codegen/sites.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using graph::Async;

namespace {

/// load brings x; mma.c adds up in registers what use.c takes, for each of two copies c. The edges of copy 1 may be
/// others.
struct Loop {
  graph::Graph graph;
  sched::Schedule schedule;
  int first = -1, second = -1;  ///< roles of the copies

  explicit Loop(const std::function<void(graph::Graph&)>& change = {}) {
    graph.name = "loop";
    graph.machine.name = "toy";
    graph.machine.units = {{"IN", 1}, {"TC", 2}, {"ALU", 2}};
    graph.machine.memory_bytes["SMEM"] = 65536;
    graph.namespace_name = "tj::ops::toy";
    graph.params_type = "tj::ops::toy::Params";
    graph.values = {{"x", 1024, 1024, graph::Scope::iteration, 1, 4}};
    add("load", "Loader", 0, Async::copy, 0, 500);
    for (int c = 0; c < 2; ++c) {
      add("mma", "Worker", c, Async::matrix, 1, 200);
      add("use", "Worker", c, Async::none, 2, 60);
    }
    for (int c = 0; c < 2; ++c) {
      graph.edges.push_back({0, mma(c), 500, 0, false, 0});
      graph.edges.push_back({mma(c), mma(c), 200, 1, true});
      graph.edges.push_back({mma(c), use(c), 200, 0, true});
      graph.edges.back().same_role = true;
    }
    if (change) change(graph);
    sched::Options options;
    options.copies_apart = true;
    schedule = sched::schedule(graph, options);
    first = schedule.role[static_cast<std::size_t>(mma(0))];
    second = schedule.role[static_cast<std::size_t>(mma(1))];
  }
  static int mma(int copy) { return 1 + 2 * copy; }
  static int use(int copy) { return 2 + 2 * copy; }
  std::string text() const { return codegen::emit(graph, schedule, "toy").text; }

 private:
  void add(const char* name, const char* context, int copy, Async async, int unit, int latency) {
    graph::Node n;
    n.name = async == Async::copy ? name : std::string(name) + "." + std::to_string(copy);
    n.body = name;
    n.context = context;
    n.copy = copy;
    n.async = async;
    n.cycles = async == Async::none ? latency : 1;
    n.latency = latency;
    n.warps = async == Async::copy ? 1 : 4;
    n.variable_latency = async == Async::copy;
    n.reservations = {{unit, 0, latency < 200 ? latency : 200, 1}};
    graph.nodes.push_back(n);
  }
};

graph::Edge& edge_between(graph::Graph& graph, int src, int dst) {
  for (graph::Edge& edge : graph.edges)
    if (edge.src == src && edge.dst == dst) return edge;
  FAIL("there is no such edge");
  return graph.edges.front();
}

}  // namespace

TEST_CASE("copies that wait alike share a text") {
  const Loop loop;
  REQUIRE(loop.first != loop.second);
  CHECK(sched::verify(loop.graph, loop.schedule).empty());
  CHECK(codegen::congruent(loop.graph, loop.schedule, loop.first, loop.second));
  CHECK(loop.text().find("const int member") != std::string::npos);
}

TEST_CASE("copies that do not wait alike have a text each") {
  struct Difference {
    std::string what;
    std::function<void(graph::Graph&)> change;
  };
  const Difference differences[] = {
      {"the first alone does not wait for its product",
       [](graph::Graph& g) { edge_between(g, Loop::mma(0), Loop::use(0)).blocking = false; }},
      {"the second alone does not wait for its product",
       [](graph::Graph& g) { edge_between(g, Loop::mma(1), Loop::use(1)).blocking = false; }},
      {"the second waits for an older product",
       [](graph::Graph& g) { edge_between(g, Loop::mma(1), Loop::mma(1)).distance = 2; }},
      {"the second waits for another node's end",
       [](graph::Graph& g) {
         for (int c = 0; c < 2; ++c)
           g.edges.push_back({c == 0 ? Loop::mma(c) : Loop::use(c), Loop::mma(c), 60, 2, false});
       }},
      {"the second alone has a fast variant",
       [](graph::Graph& g) { g.nodes[static_cast<std::size_t>(Loop::use(1))].range = {"Fast", "fast_begin", {}}; }},
  };
  for (const Difference& difference : differences) {
    CAPTURE(difference.what);
    const Loop loop(difference.change);
    REQUIRE(loop.first != loop.second);
    CHECK(sched::verify(loop.graph, loop.schedule).empty());
    CHECK_FALSE(codegen::congruent(loop.graph, loop.schedule, loop.first, loop.second));
    CHECK(loop.text().find("const int member") == std::string::npos);
  }
}

TEST_CASE("roles that take turns hand over the first turn once, whether they share a text or not") {
  for (const bool alike : {true, false}) {
    CAPTURE(alike);
    const Loop loop([&](graph::Graph& g) {
      g.machine.units[1].capacity = 1;
      if (!alike) g.nodes[static_cast<std::size_t>(Loop::use(1))].range = {"Fast", "fast_begin", {}};
    });
    REQUIRE(loop.schedule.order_barriers.size() == 1);
    CHECK(codegen::congruent(loop.graph, loop.schedule, loop.first, loop.second) == alike);
    const std::vector<int>& order = loop.schedule.order_barriers.front().roles;
    const codegen::Unit unit = codegen::emit(loop.graph, loop.schedule, "toy");
    std::vector<int> handed_by, taken_back_by;
    for (const codegen::Site& site : unit.sites) {
      const bool first = site.what.find("first turn to the first role") != std::string::npos,
                 last = site.what.find("takes back the last turn") != std::string::npos;
      for (const int role : site.roles) {
        if (first) handed_by.push_back(role);
        if (last) taken_back_by.push_back(role);
      }
    }
    CHECK(handed_by == std::vector<int>{order.back()});
    CHECK(taken_back_by == std::vector<int>{order.front()});
  }
}
