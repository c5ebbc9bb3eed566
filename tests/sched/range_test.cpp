// Protects the questions that ask several initiation intervals at once: what they exclude has no schedule, and the
// answer with its reason is the one of a search that asks each II alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "random_graphs.hpp"
#include "sched/modulo/at_interval.hpp"
#include "sched/modulo/mii.hpp"
#include "sched/modulo/modulo.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/modulo/range.hpp"
#include "sched/schedule.hpp"
#include "support/full.hpp"

namespace {

using namespace tj;

constexpr std::uint64_t kMuch = 1'000'000;

/// Recurrences through busy units: the least II is far above what units and recurrences ask for by themselves.
sched::Problem problem_of(std::uint64_t seed) {
  test::RandomShape shape;
  shape.nodes = 10;
  shape.units = 3;
  shape.max_cycles = 90;
  shape.max_delay = 60;
  shape.max_capacity = seed % 3 == 0 ? 2 : 1;
  shape.extra_reservations = 30;
  shape.recurrences = 4;
  const graph::Graph graph = test::random_graph(shape, seed);
  return sched::make_problem(graph, std::vector<int>(graph.nodes.size(), 0), sched::SlotCaps(graph.values.size(), 0),
                             false, {});
}

int least_ii(const sched::Problem& problem) {
  return std::max(sched::resource_bound(problem).ii, sched::recurrence_bound(problem).ii);
}

bool has_none(const sched::Problem& problem, int ii) {
  const std::vector<std::pair<int, int>> ordered;
  std::uint64_t budget = kMuch;
  sched::AtInterval alone(problem, ii, ordered, true, budget);
  return !alone.prepare() || alone.probe_interval(kMuch) == sched::Verdict::infeasible;
}

}  // namespace

TEST_CASE("IIs that are excluded together have no schedule") {
  int ranges = 0, widest = 0;
  for (std::uint64_t seed = 1; seed <= testing::share(120u); ++seed) {
    CAPTURE(seed);
    const sched::Problem problem = problem_of(seed);
    if (sched::recurrence_bound(problem).impossible) continue;
    std::uint64_t budget = kMuch;
    sched::RangeRefuter refuter(problem, budget);
    refuter.excluded_before();
    const int first = least_ii(problem), last = first + 150;
    for (int ii = first; ii <= last;) {
      const int count = refuter.excluded(ii, last);
      REQUIRE(ii + count - 1 <= last);
      for (int each = ii; each < ii + count; ++each) {
        CAPTURE(each);
        REQUIRE(has_none(problem, each));
      }
      if (count > 1) ++ranges;
      widest = std::max(widest, count);
      ii += std::max(1, count);
    }
  }
  CHECK(ranges > testing::share(20));
  CHECK(widest >= 16);
}

TEST_CASE("a search that excludes ranges answers as one that asks each II alone") {
  int far = 0, begun = 0;
  for (std::uint64_t seed = 1; seed <= testing::share(300u); ++seed) {
    CAPTURE(seed);
    const sched::Problem problem = problem_of(seed);
    const sched::ModuloResult alone = sched::modulo_schedule(problem, kMuch, 1);
    if (!alone.found || alone.ii < least_ii(problem) + 24) continue;  // fewer are asked one by one
    ++far;
    REQUIRE(alone.proven_ii);
    const sched::ModuloResult ranged = sched::modulo_schedule(problem, kMuch, 1, alone.ii + 100);
    CHECK(ranged.proven_ii);
    CHECK(ranged.cycle == alone.cycle);
    CHECK(ranged.certificate == alone.certificate);
    CHECK_FALSE(sched::modulo_schedule(problem, kMuch, 1, alone.ii - 1).found);
    const sched::ModuloResult few = sched::modulo_schedule(problem, 100, 1);
    if (few.open_ii == 0) continue;
    ++begun;
    REQUIRE(few.open_ii <= alone.ii);
    const sched::ModuloResult more = sched::modulo_schedule(problem, kMuch, 1, 0, few.open_ii);
    CHECK(more.proven_ii);
    CHECK(more.cycle == alone.cycle);
    if (few.open_ii < alone.ii) CHECK(more.certificate == alone.certificate);
  }
  CHECK(far >= testing::share(5));
  CHECK(begun >= 2);
}
