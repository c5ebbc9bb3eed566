// Protects the ladder of matrix products: every rung computes what the op computes, odd sizes and orders included; each
// leaves the scheduler what it says, and no more; sizes that a rung does not serve are refused by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/trial.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "ops/gemm/problem.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

std::string run(const GemmShape& shape, int rung, std::uint64_t seed) {
  GemmProblem problem(shape, seed);
  problem.rung = rung;
  try {
    problem.run(testing::model_runtime(), {DeviceKind::cpu, 0});
  } catch (const Error& e) {
    return e.message + e.log;
  }
  return problem.problem();
}

Choice choice_of(int rung) {
  const auto requests =
      ops::gemm_op().requests({{"rung", {ops::gemm_rungs()[static_cast<std::size_t>(rung)].name}}, {"dtype", {"f16"}}});
  REQUIRE(requests.size() == 1);
  return choose(ops::gemm_op(), requests.front(), *arch::find("sm_90a"));
}

int stages(const Choice& choice) {
  int most = 0;
  for (std::size_t i = 0; i < choice.schedule.cycle.size(); ++i)
    most = std::max(most, choice.schedule.stage(static_cast<int>(i)) + 1);
  return most;
}

}  // namespace

TEST_CASE("every rung is right: odd sizes, orders, a batch, what is added, no iteration") {
  test::check_gemm_rungs("sm_90a");
}

TEST_CASE("a rung constrains the schedule as it says, and each gives at least the freedom of the one before") {
  int before = 1 << 30;
  bool alone = true;  // the rung before served one tile, which is not that of the others
  std::vector<std::string> names;
  for (int rung = 1; rung <= 9; ++rung) {
    CAPTURE(rung);
    const ops::GemmRung& limits = ops::gemm_rungs()[static_cast<std::size_t>(rung)];
    const Choice choice = choice_of(rung);
    CHECK(sched::verify(choice.candidate.graph, choice.schedule).empty());
    CHECK((choice.schedule.roles.size() == 1) == limits.one_role);
    for (const sched::Ring& ring : choice.schedule.rings)
      if (choice.candidate.graph.values[static_cast<std::size_t>(ring.value)].scope == graph::Scope::iteration &&
          limits.max_slots > 0)
        CHECK(ring.slots == limits.max_slots);
    CHECK((limits.max_stages == 0 || stages(choice) <= limits.max_stages));
    const bool engine = std::any_of(choice.candidate.graph.nodes.begin(), choice.candidate.graph.nodes.end(),
                                    [](const graph::Node& n) { return n.async == graph::Async::copy; });
    CHECK(engine != limits.thread_copies);
    CHECK(choice.candidate.graph.cluster == limits.cluster);
    CHECK(choice.schedule.proven_ii);
    const double slower =
        limits.cluster > 1 ? arch::find("sm_90a")->fact("multicast_copy_factor") : 1;  // of what blocks share
    CHECK((choice.schedule.ii <= before * slower || alone != (limits.max_tiles == 1)));
    alone = limits.max_tiles == 1;
    const bool by_engine = std::any_of(choice.candidate.graph.nodes.begin(), choice.candidate.graph.nodes.end(),
                                       [](const graph::Node& n) { return n.async == graph::Async::store; });
    CHECK(by_engine != limits.thread_copies);
    before = choice.schedule.ii;
    CHECK(std::find(names.begin(), names.end(), choice.candidate.graph.name) == names.end());
    names.push_back(choice.candidate.graph.name);
  }
}

TEST_CASE("a tile of rungs that serve one is 128 x 128 x 64, on every arch with a ladder") {
  for (const char* arch : {"sm_90a", "sm_100a", "sm_103a"})
    for (const int rung : {1, 2}) {
      CAPTURE(arch);
      ops::GemmKernel kernel;
      ops::set_gemm_rung(kernel, rung, arch::find(arch));
      CHECK(ops::gemm_tile_name(ops::gemm_tiles()[static_cast<std::size_t>(kernel.tile)]) == "128x128x64");
      const Choice choice = choose(ops::gemm_op(), ops::gemm_request(kernel), *arch::find(arch));
      CHECK(choice.schedule.roles.size() == 1);  // two consumers of 64 rows on sm_90a
    }
}

TEST_CASE("the last rung has two consumers, whatever the sizes: at the sample's own, and at others") {
  for (const char* name : {"sm_90a", "sm_100a"})
    for (const auto& [m, n, k] : {std::array{4096, 4096, 4096}, {8192, 8192, 8192}, {192, 600, 200}, {1, 64, 8}}) {
      const arch::Arch& arch = *arch::find(name);
      GemmConfig config;
      config.m = m, config.n = n, config.k = k;
      const ops::ProblemKey problem = ops::gemm_problem_key(config);
      for (int call = 0; call < 2; ++call) {  // the second time it is remembered
        const ops::Request request = ops::gemm_op().request_of(ops::rung_kernel(ops::gemm_op(), problem, 10, arch));
        CAPTURE(request.name);
        const Choice choice = choose(ops::gemm_op(), request, arch);
        int stores = 0;
        for (const graph::Node& node : choice.candidate.graph.nodes)
          stores += node.scope == graph::Scope::tile_end && node.context == "Consumer";
        CHECK(stores >= 2);
      }
    }
}

TEST_CASE("on warpgroups the last rung has the fewest predicted cycles, also where d fills no tile's rows") {
  const arch::Arch& arch = *arch::find("sm_90a");
  int taller = 0;
  for (const int m : {65, 130, 150, 192, 200, 300})
    for (const auto& size : {std::array{4096, 4096}, {16384, 4096}, {600, 200}}) {
      GemmConfig config;
      config.m = m, config.n = size[0], config.k = size[1];
      CAPTURE(m);
      CAPTURE(config.n);
      const ops::ProblemKey problem = ops::gemm_problem_key(config);
      const ops::GemmChoice last = ops::gemm_last_rung(problem, arch);
      const auto ranking = ops::rank_gemm(ops::gemm_sizes(problem), ops::gemm_kernel(problem.kind), arch);
      const auto best = std::find_if(ranking.begin(), ranking.end(), [&](const ops::RankedGemm& ranked) {
        return ops::gemm_consumers(ranked.choice, arch) >= 2;
      });
      REQUIRE(best != ranking.end());
      CHECK(ops::gemm_choice_name(last) == ops::gemm_choice_name(best->choice));
      taller += ops::gemm_tiles()[static_cast<std::size_t>(last.tile)].block_m > m;
    }
  CHECK(taller > 0);
}

TEST_CASE(
    "the last rung is one kernel for calls and for tools; the op's own, also a measured one, where that is such a "
    "kernel") {
  for (const char* name : {"sm_90a", "sm_100a", "sm_103a"}) {
    CAPTURE(name);
    const arch::Arch& arch = *arch::find(name);
    GemmConfig config;
    const ops::ProblemKey problem = ops::gemm_problem_key(config);
    const ops::Kernel last = ops::rung_kernel(ops::gemm_op(), problem, 10, arch);
    const ops::Flags flags{{"rung", {"v10"}}, {"dtype", {"f16"}}};
    const auto requests = ops::gemm_op().requests_for(flags, arch);
    REQUIRE(requests.size() == 1);
    CHECK(requests.front().name == ops::gemm_op().request_of(last).name);
    for (const ops::Trial& trial : ops::gemm_op().trials(flags, arch))
      CHECK(ops::GemmChoice::of(trial.choice.value()) == ops::GemmChoice::of(last.choice));
    int several = 0, others = 0;
    for (const ops::RankedGemm& ranked :
         ops::rank_gemm(ops::gemm_sizes(config), ops::gemm_kernel(problem.kind), arch)) {
      const ops::Kernel own = ops::gemm_op().kernel_of(problem, ranked.choice.number());
      const ops::Kernel measured = ops::rung_kernel(ops::gemm_op(), problem, 10, arch, [&] { return own; });
      const bool is = ops::gemm_is_last_rung(ops::gemm_kernel(own.small_key), arch);
      ++(is ? several : others);
      CHECK(measured == (is ? own : last));
      CHECK(ops::gemm_consumers(ops::GemmChoice::of(measured.choice), arch) >= 2);
      CHECK(!(ops::rung_kernel(ops::gemm_op(), problem, 9, arch, [&] { return own; }) == own));
    }
    CHECK((several > 1 && others > 0));
    for (const std::int64_t m : {100, 300, 5000}) {  // with sizes, tools make what a call of them takes
      config.m = m;
      ops::Flags sized = flags;
      sized["m"] = {std::to_string(m)}, sized["n"] = {"4096"}, sized["k"] = {"4096"};
      const auto needed = ops::gemm_op().needed_kernels(
          sized, arch, {[&](const ops::ProblemKey& of) { return ops::gemm_op().choose(of, arch); }, {}});
      const ops::Kernel sized_last = ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(config), 10, arch);
      REQUIRE(!needed.empty());
      CHECK(std::count_if(needed.begin(), needed.end(), [&](const ops::NeededKernel& each) {
              return each.op == &ops::gemm_op() && each.kernel == sized_last;
            }) == 1);
    }
  }
}

TEST_CASE("e4m3 has the last rung alone, in calls and in tools") {
  const arch::Arch& arch = *arch::find("sm_90a");
  GemmConfig config;
  config.dtype = DType::e4m3;
  config.out = DType::bf16;
  const ops::Kernel last = ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(config), 10, arch);
  const ops::Flags flags{{"rung", {"v10"}}, {"dtype", {"e4m3"}}, {"out", {"bf16"}}};
  const auto requests = ops::gemm_op().requests_for(flags, arch);
  REQUIRE(requests.size() == 1);
  CHECK(requests.front().name == ops::gemm_op().request_of(last).name);
  CHECK(!ops::gemm_op().trials(flags, arch).empty());
  const std::string refused =
      testing::error_of([&] {
        ops::gemm_op().requests_for({{"rung", {"v8"}}, {"dtype", {"e4m3"}}, {"out", {"bf16"}}}, arch);
      }).message;
  CHECK_MESSAGE(refused.find("--rung is 'v8'; allowed with --dtype e4m3: v10") != std::string::npos, refused);
}

TEST_CASE("in tensor memory the last rung multiplies in pairs of blocks, each of two consumers, where d has the rows") {
  for (const char* name : {"sm_100a", "sm_103a"})
    for (const auto& [m, n, k] : {std::array{128, 128, 128},
                                  {512, 512, 512},
                                  {2048, 2048, 2048},
                                  {4096, 4096, 4096},
                                  {8192, 8192, 8192},
                                  {300, 64, 8}}) {
      GemmConfig config;
      config.m = m, config.n = n, config.k = k;
      const arch::Arch& arch = *arch::find(name);
      const ops::Kernel last = ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(config), 10, arch);
      const ops::Request request = ops::gemm_op().request_of(last);
      CAPTURE(request.name);
      const graph::Graph graph = choose(ops::gemm_op(), request, arch).candidate.graph;
      CHECK(ops::gemm_consumers(ops::GemmChoice::of(last.choice), arch) == 2);
      CHECK(graph.pairs == (m > 256));
      CHECK(graph.cluster == (m > 256 ? 2 : 1));
    }
}

TEST_CASE("an arch without the ladder refuses every rung by name, the last one too, in calls and in tools") {
  struct Row {
    const char *name, *next;
  };
  constexpr const char* kElsewhere = "; targets with all rungs, v1 to v10: sm_90a, sm_100a, sm_103a";
  for (const Row& row : {Row{"sm_100", "; TJ_TARGET=sm_100a has v1 to v10"},
                         {"sm_103", "; TJ_TARGET=sm_103a has v1 to v10"},
                         {"sm_120a", kElsewhere},
                         {"sm_80", kElsewhere},
                         {"gfx1100", kElsewhere},
                         {"gfx1201", kElsewhere}}) {
    const std::string name = row.name, next = row.next;
    const arch::Arch& arch = *arch::find(name);
    CAPTURE(name);
    const std::string wanted = "gemm: rung is v10; allowed on " + name + ": 0 (none)" + next;
    const ops::ProblemKey problem = ops::gemm_problem_key(GemmConfig{});
    CHECK(testing::error_of([&] { ops::rung_kernel(ops::gemm_op(), problem, 10, arch); }).message == wanted);
    const ops::Flags flags{{"rung", {"v10"}}, {"dtype", {"f16"}}};
    CHECK(testing::error_of([&] { ops::gemm_op().requests_for(flags, arch); }).message == wanted);
    CHECK(testing::error_of([&] { ops::gemm_op().trials(flags, arch); }).message == wanted);
    const ops::Kernel third = ops::rung_kernel(ops::gemm_op(), problem, 3, arch);
    const std::string refused =
        testing::error_of([&] { choose(ops::gemm_op(), ops::gemm_op().request_of(third), arch); }).message;
    CHECK(refused == "gemm: rung is v3; allowed on " + name + ": 0 (none)" + next);
  }
}

TEST_CASE("the last rung is the op's own kernel, of the same key") {
  const arch::Arch& arch = *arch::find("sm_90a");
  GemmConfig config;
  const ops::Request own = ops::gemm_request(ops::gemm_kernel(config, arch));
  const auto request_of = [&](int rung) {
    return ops::gemm_op().request_of(ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(config), rung, arch));
  };
  const ops::Request last = request_of(10);
  CHECK(own.name == last.name);
  CHECK(own.fields == last.fields);
  ops::Request any = ops::gemm_op().requests({{"rung", {"v10"}}, {"dtype", {"f16"}}}).front();
  for (std::size_t i = 0; i < any.fields.size(); ++i) {  // without an arch, a tile that every family has
    CAPTURE(any.fields[i].first);
    if (any.fields[i].first == "tile")
      CHECK(any.fields[i].second.find('s') == std::string::npos);
    else
      CHECK(any.fields[i] == own.fields[i]);
  }
  CHECK(request_of(0).fields == own.fields);
  const ops::Request fourth = request_of(4);
  CHECK(fourth.fields != own.fields);
  CHECK(ops::gemm_request(ops::gemm_kernel(fourth)).fields == fourth.fields);
  CHECK(ops::gemm_small_key(ops::gemm_kernel(fourth)) != ops::gemm_small_key(ops::gemm_kernel(own)));
}

TEST_CASE("what a rung does not serve is refused by name") {
  const auto refused = [](int rung, const GemmShape& shape, std::vector<const char*> parts) {
    const std::string message = run(shape, rung, 1);
    CAPTURE(message);
    for (const char* part : parts) CHECK(message.find(part) != std::string::npos);
  };
  refused(1, {129, 128, 64}, {"v1", "M is 129", "at most 128, as v1 does one tile of 128x128x64"});
  refused(1, {128, 129, 64}, {"v1", "N is 129", "at most 128"});
  refused(1, {128, 128, 65}, {"v1", "K is 65", "at most 64", "one iteration"});
  refused(2, {64, 300, 4096}, {"v2", "N is 300", "at most 128, as v2 does one tile of 128x128x64"});
  refused(2, {64, 20, 64, 2}, {"v2", "batch is 2", "at most 1"});
  refused(-1, {64, 20, 64}, {"rung is -1", "1 (v1) to 10 (v10)"});
  refused(11, {64, 20, 64}, {"rung is 11", "1 (v1) to 10 (v10)"});
  GemmConfig config;
  Ladder ladder(testing::model_runtime());
  CHECK_THROWS_AS(ladder.prepare(config, 1, {DeviceKind::cpu, 0}), Error);
  CHECK_NOTHROW(ladder.prepare(config, 3, {DeviceKind::cpu, 0}));
  const auto asked = [](const std::map<std::string, std::vector<std::string>>& flags) {
    try {
      ops::gemm_op().requests(flags);
    } catch (const Error& e) {
      return e.message;
    }
    return std::string("accepted");
  };
  CHECK(asked({{"rung", {"v11"}}}).find("allowed are none, v1, v2") != std::string::npos);
  CHECK(asked({{"rung", {"v3"}}, {"tile", {"128x256x64"}}}).find("--tile is given with --rung") != std::string::npos);
  CHECK(ops::gemm_op().requests({{"rung", {"v1", "v4"}}}).size() == 4);  // two types of elements each
}
