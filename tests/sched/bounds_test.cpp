// Protects bounds of schedules. A bound changes no schedule within it, and ends the search beyond. No schedule is
// shorter than the length that is known before.
#include "sched/bounds.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/examples.hpp"
#include "sched/attention_graph.hpp"
#include "sched/oracle_graphs.hpp"
#include "sched/random_graphs.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj;
using testing::has;

std::vector<graph::Graph> graphs() {
  std::vector<graph::Graph> list = {test::attention_graph()};
  for (const std::string& name : graph::example_names()) list.push_back(graph::example(name));
  test::RandomShape shape;
  shape.nodes = 12;
  shape.units = 3;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) list.push_back(test::random_graph(shape, seed));
  for (std::uint64_t seed = 0; seed < 16; ++seed) list.push_back(test::oracle_joint_graph(seed));
  return list;
}

std::string form_of(const graph::Graph& graph, sched::Schedule schedule) {
  schedule.solve_ms = 0;
  return sched::to_json(graph, schedule);
}

std::string refusal(const graph::Graph& graph, const sched::Options& options, int most_ii) {
  try {
    static_cast<void>(sched::schedule_within(graph, options, most_ii));
  } catch (const Error& error) {
    CHECK(error.stage == Stage::schedule);
    return error.message;
  }
  return {};
}

}  // namespace

TEST_CASE("a schedule within a bound is the one without it, and there is none below its interval") {
  sched::Options split;
  split.joint = false;
  for (const graph::Graph& graph : graphs())
    for (const sched::Options& options : {sched::Options(), split}) {
      if (!refusal(graph, options, 0).empty()) continue;
      INFO(graph.name);
      const sched::Schedule whole = sched::schedule(graph, options);
      for (const int more : {0, 1, 100})
        CHECK(form_of(graph, sched::schedule_within(graph, options, whole.ii + more)) == form_of(graph, whole));
      if (whole.proven_ii && whole.ii > 1) CHECK(!refusal(graph, options, whole.ii - 1).empty());
      CHECK(sched::least_length(graph, options) <= whole.length);
      const bool at_first = whole.ii == whole.res_mii || whole.ii == whole.rec_mii;
      const std::string first = refusal(graph, options, sched::kFirstIi);
      if (first.empty())
        CHECK(form_of(graph, sched::schedule_within(graph, options, sched::kFirstIi)) == form_of(graph, whole));
      else
        CHECK_MESSAGE(!at_first, first);
    }
}

TEST_CASE("at the first interval, a joint search that gives up has no simpler answer") {
  int gave_up = 0;
  for (const graph::Graph& graph : graphs())
    for (const std::uint64_t budget : {0, 1, 4, 16, 64, 256}) {
      INFO(graph.name << ", budget " << budget);
      sched::Options few;
      few.node_budget = budget;
      const std::string first = refusal(graph, few, sched::kFirstIi);
      gave_up += has(first, "the joint search gave up at the first II");
      if (first.empty()) CHECK(sched::schedule_within(graph, few, sched::kFirstIi).joint);
    }
  CHECK(gave_up > 0);
}

TEST_CASE("the length that edges ask for is that of the longest chain") {
  CHECK(sched::least_length(graph::example("fa_hopper"), {}) == 7);  // without units: the schedule has 9
  const std::string refused = refusal(graph::example("fa_hopper"), {}, -2);
  CHECK(has(refused, "most_ii is -2; it must be 0 (no limit) or more, or -1 (the first II that bounds allow)"));
}
