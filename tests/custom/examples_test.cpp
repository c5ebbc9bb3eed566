// Protects tj::example_graph: known intervals, parameters, sub-tiles with their roles and turns, refusals by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/graph_examples.hpp>

#include "support/expect.hpp"

namespace {

using tj::GraphExample;
using tj::testing::error_of;
using tj::testing::has;

void refuses(const std::string& name, const GraphExample& parameters, const std::string& part) {
  const tj::Error error = error_of([&] { tj::example_graph(name, parameters); });
  CHECK(error.stage == tj::Stage::graph);
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, part), error.message);
}

GraphExample sub_tiles(int count, int gemm, int exp) { return {{}, {{"gemm", gemm}, {"exp", exp}}, count}; }

}  // namespace

TEST_CASE("examples have their known intervals and take costs and a machine") {
  struct Known {
    const char* name;
    int ii, length;
  };
  const std::vector<Known> all = {
      {"simplified_fa", 2, 4}, {"fa_hopper", 4, 9}, {"fa_blackwell", 2, 7}, {"simple_gemm", 2, 4}};
  REQUIRE(tj::example_graph_names().size() == all.size());
  for (const Known& known : all) {
    CAPTURE(std::string(known.name));
    const tj::Schedule schedule = tj::schedule(tj::example_graph(known.name));
    CHECK(schedule.ii() == known.ii);
    CHECK(schedule.length() == known.length);
    CHECK(schedule.proven_ii());
    CHECK(schedule.proven_length());
  }
  CHECK(tj::schedule(tj::example_graph("simplified_fa", {{}, {{"gemm", 3}, {"exp", 7}}})).ii() == 7);
  CHECK(tj::schedule(tj::example_graph("fa_blackwell", {{}, {{"tmem", 4}}})).ii() == 8);
  CHECK(tj::example_graph("simple_gemm", {{.name = "blackwell"}}).machine.name == "blackwell");
  CHECK(tj::example_graph_costs("fa_hopper") == std::map<std::string, int>{{"tma", 1}, {"gemm", 2}, {"exp", 2}});
}

TEST_CASE(
    "two sub-tiles on Hopper: a role each, exponentials under the other's products, in turns where they are long") {
  struct Case {
    int gemm, exp;
    bool in_turns;
  };
  for (const Case& each : {Case{2, 2, false}, Case{1, 1, false}, Case{1, 2, true}, Case{2, 3, true}}) {
    const int gemm = each.gemm, exp = each.exp;
    const tj::Schedule schedule = tj::schedule(tj::example_graph("fa_hopper", sub_tiles(2, gemm, exp)));
    CHECK(schedule.ii() == std::max(4 * gemm, 2 * exp));
    CHECK(schedule.proven_ii());
    CHECK(schedule.proven_length());
    CHECK(schedule.verify().empty());
    REQUIRE(schedule.roles().size() == 3);
    for (const char* c : {"0", "1"})
      for (const char* name : {"S.", "P.", "O."})
        CHECK(schedule.roles()[static_cast<std::size_t>(schedule.node(std::string(name) + c).role)].name ==
              std::string("compute") + c);
    // Each exponential begins while the other sub-tile's product holds TC.
    const int begin = schedule.node("P.0").cycle % schedule.ii();
    bool under = false;
    for (const char* name : {"S.1", "O.1"})
      under = under || (begin - schedule.node(name).cycle % schedule.ii() + schedule.ii()) % schedule.ii() < gemm;
    CHECK(under);
    CHECK(schedule.turns().size() == (each.in_turns ? 1 : 0));
    if (each.in_turns) CHECK(schedule.turns()[0].unit == "TC");
  }
}

TEST_CASE("sub-tiles of every example have schedules that verify; one is the loop as it stands") {
  for (const std::string& name : tj::example_graph_names())
    for (const int count : {1, 2, 3}) {
      CAPTURE(name);
      CAPTURE(count);
      const tj::Graph graph = tj::example_graph(name, {{}, {}, count});
      CHECK((graph == tj::example_graph(name)) == (count == 1));
      const tj::Schedule schedule = tj::schedule(graph);
      CHECK(schedule.verify().empty());
      CHECK(schedule.ii() >= count * tj::schedule(tj::example_graph(name)).ii() - (name == "simple_gemm" ? 1 : 0));
    }
}

TEST_CASE("what is no example or no parameter of it is refused by name") {
  refuses("fa", {}, "example graph 'fa' is not known; use one of simplified_fa, fa_hopper, fa_blackwell, simple_gemm");
  refuses("fa_hopper", {{}, {{"tmem", 1}}},
          "cost 'tmem' means nothing to example graph 'fa_hopper'; allowed are tma, gemm, exp");
  refuses("fa_hopper", {{}, {{"gemm", -1}}},
          "cost 'gemm' of example graph 'fa_hopper' is -1; allowed are 0 to 65536 cycles");
  refuses("fa_hopper", {{}, {}, 0}, "sub_tiles of example graph 'fa_hopper' is 0; allowed are 1 to 3");
  refuses("fa_blackwell", {{.name = "hopper"}}, "machine 'hopper (normalised)' has no unit 'TMEM'");
  refuses("fa_hopper", {{.name = "ampere"}}, "machine is 'ampere'; allowed are hopper, blackwell, ");
  CHECK(GraphExample::parse("") == GraphExample());
  CHECK(GraphExample::parse(R"({"machine": "blackwell", "costs": {"gemm": 2}, "sub_tiles": 2})") ==
        GraphExample{{.name = "blackwell"}, {{"gemm", 2}}, 2});
  CHECK(has(error_of([] { GraphExample::parse("{"); }).message, "parameters: not JSON"));
}

TEST_CASE("over tensor memory a sub-tile's weights are handed over in tensor memory, by a ring to the product's role") {
  for (const int count : {1, 2, 3}) {
    const tj::Schedule schedule = tj::schedule(tj::example_graph("fa_blackwell", {{}, {}, count}));
    int rings = 0;
    for (const auto& ring : schedule.rings()) rings += ring.value.rfind("P.", 0) == 0;
    CHECK(rings == (count == 1 ? 0 : count));
  }
}
