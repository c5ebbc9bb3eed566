// Protects the exactness of the joint search on graphs that enumeration cannot reach. Z3 is asked for cycles and roles
// by the meaning of the constraints alone. It agrees on II, length and number of roles, and that nothing smaller is
// possible.
#include <doctest/doctest.h>

#if TJ_HAS_Z3

#include <algorithm>
#include <cstdint>
#include <vector>

#include "oracle_graphs.hpp"
#include "oracle_joint_formula.hpp"
#include "sched/joint/joint.hpp"
#include "support/full.hpp"

namespace {

using namespace tj;

const std::uint64_t kGraphs = tj::testing::full_run() ? 520 : 180;
const std::uint64_t kCopies = kGraphs / 5;  // graphs of them once more, with copies that are apart
constexpr int kMaxRoles = 3;
constexpr int kBeyondBound = 5;  ///< IIs above the bound that are searched at all

class Comparison {
 public:
  explicit Comparison(bool copies_apart) : copies_apart_(copies_apart) {}
  void compare(const graph::Graph& graph) {
    const int bound = test::oracle_bound(graph);
    sched::JointOptions options;
    options.max_roles = kMaxRoles;
    options.copies_apart = copies_apart_;
    options.max_ii = bound + kBeyondBound;
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      options.slots.push_back(1 + static_cast<int>((v + graph.edges.size()) % 3));
    slots_ = options.slots;
    const sched::JointResult found = sched::joint_schedule(graph, options);
    CAPTURE(found.certificate);
    CHECK(found.proven_ii);
    const int end = found.found ? found.ii : bound + kBeyondBound + 1;
    CHECK(end >= bound);
    for (int ii = bound; ii < end; ++ii) {
      const int stages = least_stages(graph, ii);
      CAPTURE(ii);
      CAPTURE(stages);
      if (stages > 0)
        CHECK(test::JointFormula(context_, graph, slots_, ii, stages * ii, kMaxRoles, copies_apart_).check() ==
              z3::unsat);
    }
    without += found.found ? 0 : 1;
    if (found.found) compare_found(graph, found);
  }

  int without = 0, longer = 0, slower = 0, many_roles = 0;

 private:
  /// Edges, units, and the limits that no choice of roles avoids. These are spills between nodes that can never share a
  /// role (`apart`: copies are), and the warps of nodes that must share a role. They give the number of stages.
  struct Question : test::Formula {
    Question(z3::context& context, const graph::Graph& graph, int ii, int length, bool apart)
        : Formula(context, graph, ii, length) {
      const std::vector<int> tied = test::tied_nodes(graph);
      dependences(
          [&](const graph::Edge& edge) { return test::never_together(graph, tied, edge.src, edge.dst, apart); });
      units();
      warps([&](int i, int j) { return context.bool_val(tied[test::oracle_index(i)] == tied[test::oracle_index(j)]); });
    }
  };

  /// The graph with the slots of values between nodes that can never share a role.
  graph::Graph with_certain_refills(graph::Graph graph) const {
    const std::vector<int> tied = test::tied_nodes(graph);
    for (const graph::Edge& refill : test::refill_edges(graph, slots_))
      if (test::never_together(graph, tied, refill.src, refill.dst, copies_apart_)) graph.edges.push_back(refill);
    return graph;
  }

  /// The least stages of a schedule without roles; 0 when there is none.
  int least_stages(const graph::Graph& asked, int ii) {
    const graph::Graph graph = with_certain_refills(asked);
    const int most = (test::oracle_horizon(graph, ii) + ii - 1) / ii;
    for (int last = std::min(3, most), stages = 1;;
         last = most) {  // seldom more than three: a small formula, and then a large one
      Question question(context_, graph, ii, last * ii, copies_apart_);
      for (; stages <= last; ++stages) {
        const z3::check_result result = question.check(stages * ii);
        CHECK(result != z3::unknown);
        if (result == z3::sat) return stages;
      }
      if (last == most) return 0;
    }
  }

  void compare_found(const graph::Graph& graph, const sched::JointResult& found) {
    const int stages = (found.length + found.ii - 1) / found.ii;
    CHECK(found.proven_length);
    CHECK(found.proven_roles);
    CHECK(Question(context_, with_certain_refills(graph), found.ii, std::max(1, stages - 1) * found.ii, copies_apart_)
              .check() == (stages > 1 ? z3::unsat : z3::sat));
    test::JointFormula question(context_, graph, slots_, found.ii, found.length, kMaxRoles, copies_apart_);
    CHECK(question.check(found.length, question.parted_as(found.role)) == z3::sat);
    CHECK(question.check(found.length - 1) == z3::unsat);
    CHECK(question.check(found.length, question.at_most_roles(found.roles - 1)) == z3::unsat);
    longer += found.ii == found.modulo_ii && found.length > found.modulo_length ? 1 : 0;
    slower += found.ii > found.modulo_ii ? 1 : 0;
    many_roles += found.roles == kMaxRoles ? 1 : 0;
  }

  bool copies_apart_;
  z3::context context_;
  std::vector<int> slots_;  ///< of the graph at hand, per value
};

TEST_CASE("Z3 finds II, length and number of roles of the joint search, and nothing smaller") {
  Comparison comparison(false);
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const graph::Graph graph = test::oracle_joint_graph(seed);
    CAPTURE(seed);
    CAPTURE(graph::to_text(graph));
    comparison.compare(graph);
  }
  MESSAGE(kGraphs << " graphs: " << comparison.slower << " with a larger II than the modulo schedule, "
                  << comparison.longer << " only longer, " << comparison.many_roles << " with all roles, "
                  << comparison.without << " without a schedule");
  CHECK(comparison.slower * 10 >= static_cast<int>(kGraphs));
  CHECK(comparison.longer * 50 >= static_cast<int>(kGraphs));
  CHECK(comparison.without * 3 <= static_cast<int>(kGraphs));
}

TEST_CASE("the same where copies are apart") {
  Comparison comparison(true);
  for (std::uint64_t seed = 0; seed < kCopies; ++seed) {
    graph::Graph graph = test::oracle_joint_graph(seed);
    test::Random random(30'000 + seed);
    for (graph::Node& node : graph.nodes) node.copy = random.between(0, 1);
    CAPTURE(seed);
    CAPTURE(graph::to_text(graph));
    comparison.compare(graph);
  }
  MESSAGE(kCopies << " graphs: " << comparison.slower << " with a larger II than the modulo schedule, "
                  << comparison.many_roles << " with all roles, " << comparison.without << " without a schedule");
  CHECK(comparison.many_roles * 5 >= static_cast<int>(kCopies));
  CHECK(comparison.without * 3 <= static_cast<int>(kCopies) * 2);
}

}  // namespace

#else

#include <cstdio>
#include <cstdlib>

TEST_CASE("Z3 finds II, length and number of roles of the joint search, and nothing smaller") {
  std::puts("skipped: built without z3++.h and libz3 (Debian: libz3-dev)");
  std::exit(77);
}

#endif
