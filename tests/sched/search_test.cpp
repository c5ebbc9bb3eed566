// Protects the parts of the exact search that small enumerated graphs cannot show. Loops of dozens of nodes with raw
// cycles are proven within the default budget and legal. Nodes that may change places are found; narrowed distances
// leave no solution out.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/examples.hpp"
#include "loop_graphs.hpp"
#include "random_graphs.hpp"
#include "sched/modulo/conflicts.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/modulo/reservations.hpp"
#include "sched/modulo/symmetry.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

sched::Problem problem_of(const graph::Graph& graph) {
  return sched::make_problem(graph, std::vector<int>(graph.nodes.size(), 0), sched::SlotCaps(graph.values.size(), 0),
                             false, {});
}

bool pairs(const graph::Graph& graph, const std::vector<std::pair<int, int>>& found, const char* a, const char* b) {
  return std::find(found.begin(), found.end(), std::pair(graph.node_index(a), graph.node_index(b))) != found.end();
}

}  // namespace

TEST_CASE("loops taken apart are proven, legal, and the same again") {
  const std::vector<graph::Graph> loops = test::loop_graphs();
  for (std::size_t k = 0; k < 24; k += 5) {
    CAPTURE(loops[k].name);
    const sched::Schedule schedule = sched::schedule(loops[k]);
    CHECK(schedule.proven_ii);
    CHECK(schedule.proven_length);
    CHECK(sched::verify(loops[k], schedule) == std::vector<std::string>{});
    CHECK(sched::schedule(loops[k]).cycle == schedule.cycle);
  }
}

TEST_CASE("random graphs of 40 nodes are legal whatever the budget leaves unproven") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    for (const std::uint64_t budget : {1, 40, 400}) {
      const graph::Graph graph = test::random_graph(test::forty_nodes(), seed);
      sched::Options options;
      options.node_budget = budget;
      CHECK(sched::verify(graph, sched::schedule(graph, options)) == std::vector<std::string>{});
    }
}

TEST_CASE("copies and equal parts may change places, nothing else") {
  test::LoopShape shape;
  const graph::Graph attention = test::attention_loop(shape);
  const auto found = sched::exchangeable(problem_of(attention));
  CHECK(pairs(attention, found, "qk.0.0", "qk.1.0"));
  const graph::Graph gemm = test::gemm_loop(shape);
  const auto parts = sched::exchangeable(problem_of(gemm));
  CHECK(pairs(gemm, parts, "scale.0.0", "scale.0.1"));
  CHECK(pairs(gemm, parts, "load_a.0.0", "load_a.1.0"));
  graph::Graph uneven = attention;
  uneven.edges.back().delay += 1;
  CHECK(sched::exchangeable(problem_of(uneven)).empty());
  CHECK(sched::exchangeable(problem_of(graph::example("fa_hopper"))).empty());
}

TEST_CASE("on a unit without time to spare, two nodes are as far apart as what fits between them") {
  graph::Graph graph;
  graph.name = "full";
  graph.machine.units = {{"U", 1}};
  for (const int cycles : {100, 100, 30}) {
    graph::Node node;
    node.name = "n" + std::to_string(graph.nodes.size());
    node.reservations = {{0, 0, cycles, 1}};
    graph.nodes.push_back(node);
  }
  const sched::Conflicts conflicts = sched::make_conflicts(problem_of(graph), 230, true);
  REQUIRE(conflicts.possible);
  REQUIRE(conflicts.pairs.size() == 3);
  const sched::Pair& longest = conflicts.pairs[0];
  CHECK(sched::next_allowed(longest.allowed, 230, 101) == 101);
  CHECK(sched::next_allowed(longest.narrowed(), 230, 90) == 100);
  CHECK(sched::next_allowed(longest.narrowed(), 230, 101) == 130);
  CHECK(sched::previous_allowed(longest.narrowed(), 230, 129) == 100);
  CHECK(sched::next_allowed(longest.narrowed(), 230, 131) == 330);
  CHECK(sched::previous_allowed(longest.narrowed(), 230, -1) == -100);
  CHECK(sched::make_conflicts(problem_of(graph), 230).pairs[0].reachable.empty());
}

TEST_CASE("allowed distances: the nearest above and below, and two of one interval, as counting finds them") {
  const std::vector<std::vector<sched::Interval>> lists = {
      {{0, 9}}, {{3, 3}}, {{9, 9}}, {{2, 4}, {6, 6}, {8, 9}}, {{1, 1}, {3, 5}, {9, 12}}, {{4, 6}, {8, 13}}, {{5, 14}}};
  constexpr int kIi = 10;
  for (const std::vector<sched::Interval>& allowed : lists) {
    const auto place = [&](int x) {  // of the interval and its round; below 0: none
      for (int round = -4; round <= 4; ++round)
        for (std::size_t k = 0; k < allowed.size(); ++k)
          if (x >= allowed[k].low + round * kIi && x <= allowed[k].high + round * kIi)
            return static_cast<int>(allowed.size()) * (round + 4) + static_cast<int>(k);
      return -1;
    };
    for (int x = -25; x <= 25; ++x) {
      CAPTURE(allowed[0].low);
      CAPTURE(allowed.back().high);
      CAPTURE(x);
      int above = x, below = x;
      while (place(above) < 0) ++above;
      while (place(below) < 0) --below;
      CHECK(sched::next_allowed(allowed, kIi, x) == above);
      CHECK(sched::previous_allowed(allowed, kIi, x) == below);
      for (int b = x; place(x) >= 0 && b <= x + 2 * kIi; ++b) {
        CAPTURE(b);
        if (place(b) >= 0) CHECK(sched::same_interval(allowed, kIi, x, b) == (b - x < kIi && place(x) == place(b)));
      }
    }
  }
}

TEST_CASE("loads of 100,000 cycles move past each other without being tried cycle by cycle") {
  test::LoopBuilder loop("long");
  test::LoopShape shape;
  shape.copy_cycles = 100'000;
  shape.copy_latency = 110'000;
  const int use = loop.add("use", "TC", 300'000, 300'000);
  for (int k = 0; k < 5; ++k) loop.after(loop.load("load" + std::to_string(k), shape), use);
  const graph::Graph graph = [&] {
    graph::Graph built = loop.take();
    for (graph::Node& node : built.nodes)
      if (node.streaming) node.async = graph::Async::copy;
    return built;
  }();
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.ii == 500'000);
  CHECK(sched::verify(graph, schedule) == std::vector<std::string>{});
  const sched::Problem problem = problem_of(graph);
  sched::ReservationTable table(problem, schedule.ii);
  table.add(1, 0);
  CHECK(table.blocked(2, 50'000) == 50'000);
  CHECK(table.blocked_before(2, 50'000) == 100'000);
  CHECK(table.blocked_before(2, -50'000) == 50'000);
  CHECK(table.blocked_before(2, -100'000) == 0);
}

TEST_CASE("reservation tables of hundreds of runs") {
  graph::Graph graph;
  graph.name = "runs";
  graph.machine.units = {{"X", 2}};
  for (int i = 0; i < 10; ++i) {
    graph::Node node;
    node.name = "n" + std::to_string(i);
    for (int run = 0; run < 60; ++run) node.reservations.push_back({0, 2 * run, 1, 1});
    node.latency = 120;
    graph.nodes.push_back(node);
  }
  const sched::Schedule schedule = sched::schedule(graph);
  CHECK(schedule.ii >= 300);
  CHECK(sched::verify(graph, schedule) == std::vector<std::string>{});
}

TEST_CASE("what a conflict has taught cuts the search short") {
  // 159 and 803 nodes; 241 and 1040 where no learned clause were followed.
  const auto proves = [](const graph::Graph& graph, std::uint64_t budget) {
    sched::Options options;
    options.node_budget = budget;
    const sched::Schedule schedule = sched::schedule(graph, options);
    return schedule.proven_ii && schedule.proven_length;
  };
  CHECK(proves(test::random_graph(test::forty_nodes(), 12), 200));
  CHECK(proves(test::loop_graphs()[10], 920));
}
