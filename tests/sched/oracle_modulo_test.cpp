// Protects the exactness of the modulo search on graphs that enumeration cannot reach. Z3 is asked by the definition
// alone. It agrees that II and length are possible and that nothing smaller is.
#include <doctest/doctest.h>

#if TJ_HAS_Z3

#include <cstdint>
#include <optional>
#include <string>

#include "oracle_formula.hpp"
#include "oracle_graphs.hpp"
#include "sched/schedule.hpp"
#include "tilejit/error.hpp"

namespace {

using namespace tj;

#ifdef TJ_SANITIZED
constexpr std::uint64_t kGraphs = 100;  // the sanitizer looks at our code, which is the same in all of them
#else
constexpr std::uint64_t kGraphs = 520;
#endif

constexpr int kBeyondBound = 8;  ///< IIs that are asked where no schedule exists

bool no_spill(const graph::Edge&) { return false; }

class Comparison {
 public:
  /// With a limit on stages, or 0.
  void compare(const graph::Graph& graph, int stages) {
    sched::Options options;
    options.max_stages = stages;
    const int bound = test::oracle_bound(graph);
    std::optional<sched::Schedule> found;
    std::string reason;
    try {
      found = sched::schedule(graph, options);
    } catch (const Error& error) {
      reason = error.what();
    }
    CAPTURE(reason);
    const int end = found ? found->ii : bound + kBeyondBound;
    CHECK(end >= bound);
    for (int ii = bound; ii < end; ++ii) {
      CAPTURE(ii);
      Question question(context_, graph, ii, test::oracle_horizon(graph, ii));
      question.at_most_stages(stages);
      if (stages == 0) question.fix_rotation();
      CHECK(question.check() == z3::unsat);
    }
    above_bound += found && end > bound ? 1 : 0;
    impossible += found ? 0 : 1;
    if (found) compare_length(graph, stages, *found);
  }

  int above_bound = 0, above_path = 0, impossible = 0;

 private:
  struct Question : test::Formula {
    Question(z3::context& context, const graph::Graph& graph, int ii, int length)
        : Formula(context, graph, ii, length) {
      dependences(no_spill);
      units();
    }
    using Formula::check;
  };

  void compare_length(const graph::Graph& graph, int stages, const sched::Schedule& found) {
    CHECK(found.proven_ii);
    CHECK(found.proven_length);
    Question question(context_, graph, found.ii, found.length);
    question.at_most_stages(stages);
    CHECK(question.check(found.length) == z3::sat);
    CHECK(question.check(found.length - 1) == z3::unsat);
    test::Formula edges(context_, graph, found.ii, found.length);
    edges.dependences(no_spill);
    above_path += edges.check(found.length - 1) == z3::sat ? 1 : 0;
  }

  z3::context context_;
};

TEST_CASE("Z3 finds the II and the length of the modulo search, and nothing smaller") {
  Comparison comparison;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const graph::Graph graph = test::oracle_graph(seed);
    CAPTURE(seed);
    CAPTURE(graph::to_text(graph));
    const int stages = seed % 4 == 0 ? 1 + static_cast<int>(seed / 4 % 3) : 0;
    CAPTURE(stages);
    comparison.compare(graph, stages);
  }
  MESSAGE(kGraphs << " graphs: " << comparison.above_bound << " with an II above its bounds, " << comparison.above_path
                  << " longer than their edges ask for, " << comparison.impossible << " without a schedule");
  CHECK(comparison.above_bound * 20 >= static_cast<int>(kGraphs));
  CHECK(comparison.above_path * 10 >= static_cast<int>(kGraphs));
  CHECK(comparison.impossible * 10 <= static_cast<int>(kGraphs));
}

}  // namespace

#else

#include <cstdio>
#include <cstdlib>

TEST_CASE("Z3 finds the II and the length of the modulo search, and nothing smaller") {
  std::puts("skipped: built without z3++.h and libz3 (Debian: libz3-dev)");
  std::exit(77);
}

#endif
