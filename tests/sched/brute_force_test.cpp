// Protects the exactness of the modulo search: minimal II and minimal length agree with plain enumeration on small
// graphs.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "random_graphs.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

struct Answer {
  int ii = 0, length = 0;
};

/// All residues at one II, and for each the earliest whole rounds by relaxation.
class Enumeration {
 public:
  Enumeration(const graph::Graph& graph, int ii, int max_stages)
      : graph_(graph), ii_(ii), max_stages_(max_stages), residue_(graph.nodes.size(), 0) {}

  /// The least length, or -1.
  int run() {
    enumerate(0);
    return best_;
  }

 private:
  void enumerate(std::size_t node) {
    if (node == residue_.size()) {
      if (units_hold()) rate();
      return;
    }
    for (int r = 0; r < ii_; ++r) {
      residue_[node] = r;
      enumerate(node + 1);
    }
  }

  bool units_hold() const {
    for (std::size_t u = 0; u < graph_.machine.units.size(); ++u) {
      std::vector<int> slot(static_cast<std::size_t>(ii_), 0);
      for (std::size_t i = 0; i < residue_.size(); ++i)
        for (const auto& use : graph_.nodes[i].reservations)
          for (int c = 0; c < use.cycles && use.unit == static_cast<int>(u); ++c)
            slot[static_cast<std::size_t>((residue_[i] + use.start + c) % ii_)] += use.count;
      if (*std::max_element(slot.begin(), slot.end()) > graph_.machine.units[u].capacity) return false;
    }
    return true;
  }

  void rate() {
    std::vector<int> time = residue_;
    for (std::size_t pass = 0; pass <= time.size() * 8; ++pass) {
      bool moved = false;
      for (const auto& edge : graph_.edges) {
        int& to = time[static_cast<std::size_t>(edge.dst)];
        const int least = time[static_cast<std::size_t>(edge.src)] + edge.delay - edge.distance * ii_;
        while (to < least) {
          to += ii_;
          moved = true;
        }
      }
      if (moved) continue;
      int length = 0;
      for (std::size_t i = 0; i < time.size(); ++i) {
        if (max_stages_ > 0 && time[i] >= max_stages_ * ii_) return;
        length = std::max(length, time[i] + std::max(1, graph_.nodes[i].latency));
      }
      if (best_ < 0 || length < best_) best_ = length;
      return;
    }
  }

  const graph::Graph& graph_;
  int ii_, max_stages_;
  std::vector<int> residue_;
  int best_ = -1;
};

Answer brute_force(const graph::Graph& graph, int max_stages) {
  for (int ii = 1;; ++ii)
    if (const int length = Enumeration(graph, ii, max_stages).run(); length >= 0) return {ii, length};
}

void compare(const test::RandomShape& shape, int graphs, std::uint64_t first_seed, int max_stages = 0) {
  for (int n = 0; n < graphs; ++n) {
    const graph::Graph graph = test::random_graph(shape, first_seed + static_cast<std::uint64_t>(n));
    CAPTURE(graph::to_text(graph));
    sched::Options options;
    options.max_stages = max_stages;
    const sched::Schedule schedule = sched::schedule(graph, options);
    const Answer answer = brute_force(graph, max_stages);
    CHECK(schedule.ii == answer.ii);
    CHECK(schedule.length == answer.length);
    CHECK(schedule.proven_ii);
    CHECK(schedule.proven_length);
    CHECK(sched::verify(graph, schedule).empty());
  }
}

}  // namespace

TEST_CASE("units of one instance agree with enumeration") { compare({4, 2, 1, 3, 4, 0, 1}, 100, 1000); }

TEST_CASE("nodes with two reservations agree with enumeration") { compare({4, 2, 1, 2, 3, 60, 1}, 100, 2000); }

TEST_CASE("a node whose reservations meet each other modulo II leaves less to others, whoever places it") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    graph::Graph graph = test::random_graph({3, 1, 3, 2, 4, 0, 1}, 6000 + seed);
    test::Random random(seed);
    const int capacity = graph.machine.units[0].capacity;
    for (graph::Node& node : graph.nodes)  // of the unit, a cycle or two now and again some cycles later
      node.reservations = {{0, 0, random.between(0, 3), 1},
                           {0, random.between(3, 5), random.between(0, 2), random.between(1, capacity)}};
    CAPTURE(graph::to_text(graph));
    const sched::Schedule schedule = sched::schedule(graph);
    const Answer answer = brute_force(graph, 0);
    CHECK(schedule.ii == answer.ii);
    CHECK(schedule.length == answer.length);
    CHECK(sched::verify(graph, schedule) == std::vector<std::string>{});
    sched::Options heuristic;
    heuristic.node_budget = 1;
    CHECK(sched::verify(graph, sched::schedule(graph, heuristic)) == std::vector<std::string>{});
  }
}

TEST_CASE("units of several instances agree with enumeration") { compare({5, 2, 3, 3, 3, 40, 2}, 50, 3000); }

TEST_CASE("a limit on stages agrees with enumeration") {
  compare({4, 2, 2, 2, 3, 30, 1}, 40, 4000, 1);
  compare({4, 2, 1, 2, 3, 0, 2}, 40, 5000, 2);
}

TEST_CASE("copies that may change places agree with enumeration") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    graph::Graph graph = test::random_graph({3, 2, 1, 2, 3, 30, 1}, 7000 + seed);
    const std::size_t edges = graph.edges.size();
    for (std::size_t i = 0; i < 3; ++i) {
      graph.nodes.push_back(graph.nodes[i]);
      graph.nodes.back().name += ".copy";
    }
    for (std::size_t e = 0; e < edges; ++e) {
      graph.edges.push_back(graph.edges[e]);
      graph.edges.back().src += 3;
      graph.edges.back().dst += 3;
    }
    CAPTURE(graph::to_text(graph));
    const sched::Schedule schedule = sched::schedule(graph);
    const Answer answer = brute_force(graph, 0);
    CHECK(schedule.ii == answer.ii);
    CHECK(schedule.length == answer.length);
    CHECK(schedule.proven_length);
    CHECK(sched::verify(graph, schedule) == std::vector<std::string>{});
  }
}
