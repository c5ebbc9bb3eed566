// Protects, on the CPU model, values that lie in one place of shared memory. Attention computes the same with its
// output in the place of its queries or values, and with keys and values in turns in one slot. A wait for the place
// that is switched off is reported.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "codegen/toy_kernel.hpp"
#include "model/model.hpp"
#include "ops/fmha/family.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/fmha/sm90.hpp"
#include "sched/schedule.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

constexpr FmhaConfig kConfig{DType::f16, 64, true, false};

int index_of(const graph::Graph& graph, const std::string& value) {
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].name == value) return static_cast<int>(v);
  return -1;
}

/// Attention, with values that lie in others' places, by name.
graph::Graph attention(const std::vector<std::pair<std::string, std::string>>& shared, graph::Walk walk) {
  constexpr ops::FmhaGroupTile kTile{2, 128, true, true};
  graph::Graph graph = ops::fmha_group_graph(kConfig, kTile, *arch::find("sm_90a"));
  graph.walk = walk;
  for (graph::Value& value : graph.values) value.min_slots = 1;
  for (const auto& [value, place] : shared)
    graph.values[static_cast<std::size_t>(index_of(graph, value))].lies_in = index_of(graph, place);
  return graph;
}

class Attention {
 public:
  explicit Attention(const graph::Graph& graph, const ops::FmhaLaunch& launch = {128, 128, true, true, 64},
                     int head_dim = 64, const char* target = "sm_90a")
      : schedule(sched::schedule(graph, options(target))), launch_(launch), head_dim_(head_dim) {
    for (const std::string& line : sched::verify(graph, schedule)) FAIL_CHECK(line);
    unit = codegen::emit(graph, schedule, arch::find(target)->primitives);
    kernel_ = test::load_unit(*driver_, unit, target);
  }
  /// "" when the results are right; else what the model reports, or what is wrong. one: a block does all tiles.
  std::string run(std::uint64_t seed, bool one, std::vector<int> disabled = {}) {
    model::ModelOptions options;
    options.seed = seed;
    options.disabled_sites = std::move(disabled);
    driver_->set_options(options);
    for (test::FmhaShape shape : {test::FmhaShape{1, 2, 1, 150, 100, 64}, test::FmhaShape{1, 4, 1, 300, 100, 64},
                                  test::FmhaShape{1, 1, 1, 300, 290, 64}, test::FmhaShape{1, 1, 1, 64, 700, 64}}) {
      shape.causal = true;
      shape.head_dim = head_dim_;
      test::FmhaProblem problem(shape, 40 + seed);
      ops::LaunchPlan plan;
      ops::fmha_plan(problem.args, launch_, plan);
      for (std::size_t m = 0; m < plan.map_count; ++m)
        driver_->encode_tensor_map(0, plan.maps[m].desc, plan.params.data() + plan.maps[m].offset);
      try {
        driver_->launch(0, *kernel_, {{one ? 1u : plan.blocks, 1, 1}, unit.shape}, plan.params.data(),
                        plan.params_bytes, {});
      } catch (const Error& e) {
        return e.message;
      }
      if (std::string wrong = problem.problem(); !wrong.empty()) return shape.text() + ": " + wrong;
    }
    return "";
  }
  sched::Schedule schedule;
  codegen::Unit unit;

 private:
  static sched::Options options(const std::string& target) {
    sched::Options options;
    if (arch::find(target)->family == "sm80") options.mixed_roles = true, options.max_roles = 1;
    return options;
  }
  const ops::FmhaLaunch launch_;
  const int head_dim_;
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  std::shared_ptr<launch::Kernel> kernel_;
};

struct Case {
  const char* name;
  std::vector<std::pair<std::string, std::string>> shared;
  int waits;  ///< sites that wait for a place, at least
};
const Case kCases[] = {{"output in the place of queries", {{"o0", "q"}, {"o1", "q"}}, 3},
                       {"output in the place of values", {{"o0", "v"}, {"o1", "v"}}, 5},
                       {"output in the place of keys", {{"o0", "k"}, {"o1", "k"}}, 5}};

}  // namespace

TEST_CASE("attention whose values lie in others' places, tile after tile and one tile a block") {
  int index = 0;
  for (const Case& each : kCases)
    for (const graph::Walk walk : {graph::Walk::persistent, graph::Walk::one_tile}) {
      if (testing::thinned_out(index++)) continue;
      CAPTURE(each.name);
      const graph::Graph graph = attention(each.shared, walk);
      Attention kernel(graph);
      INFO(kernel.unit.text);
      for (std::uint64_t seed = 1; seed <= testing::share(3u); ++seed)
        CHECK(kernel.run(seed, walk == graph::Walk::persistent) == "");
      const Attention apart(attention({}, walk));
      CHECK(kernel.unit.shape.smem_bytes <= apart.unit.shape.smem_bytes);
    }
}

TEST_CASE("each wait for a place is missed when it is switched off" * doctest::skip(testing::left_out())) {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    Attention kernel(attention(each.shared, graph::Walk::persistent));
    int waits = 0;
    for (const codegen::Site& site : kernel.unit.sites) {
      if (site.what.find("has left its place") == std::string::npos) continue;
      ++waits;
      // Attention's tiles without iterations come last, so that nothing comes behind their waits.
      if (site.what.find("tile without iterations") != std::string::npos) continue;
      CAPTURE(site.what);
      std::string found;
      for (std::uint64_t seed = 1; seed <= 40 && found.empty(); ++seed) found = kernel.run(seed, true, {site.id});
      CHECK(found != "");
    }
    CHECK(waits >= each.waits);
  }
}

TEST_CASE("a wide head's output in the place of values" * doctest::skip(testing::left_out())) {
  const FmhaConfig wide{DType::f16, 256, true, false};
  graph::Graph graph = ops::fmha_group_graph(wide, {2, 80, true, true, true}, *arch::find("sm_90a"));
  graph.walk = graph::Walk::persistent;
  Attention kernel(graph, {128, 80, true, true, 64}, 256);
  CHECK(kernel.unit.shape.smem_bytes <= 227 * 1024);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) CHECK(kernel.run(seed, true) == "");
}

TEST_CASE("attention of one role: values in the place of queries, which are in registers") {
  int index = 0;
  for (const char* target : {"sm_80", "sm_90"})  // copies by threads, and by the copy engine
    for (const graph::Walk walk : {graph::Walk::one_tile, graph::Walk::persistent}) {
      if (testing::thinned_out(index++)) continue;
      CAPTURE(target);
      const bool walks = walk == graph::Walk::persistent, engine = target == std::string("sm_90");
      const arch::Arch& arch = *arch::find(target);
      graph::Graph graph = ops::find_fmha_family(arch)->candidates(kConfig, arch).front().graph;
      graph.values[static_cast<std::size_t>(index_of(graph, "v"))].lies_in = index_of(graph, "q");
      graph.walk = walk;
      Attention kernel(graph, {128, 64, engine, walks}, 64, target);
      for (std::uint64_t seed = 1; seed <= 2; ++seed) CHECK(kernel.run(seed, walks) == "");
      int waits = 0;
      for (const codegen::Site& site : kernel.unit.sites) {
        if (site.what.find("has left its place") == std::string::npos) continue;
        CAPTURE(site.what);
        std::string found;
        for (std::uint64_t seed = 1; seed <= 10 && found.empty(); ++seed) found = kernel.run(seed, walks, {site.id});
        CHECK(found != "");
        ++waits;
      }
      CHECK(waits == (walks ? 2 : 1));
    }
}

// One role: t is filled at the tile's begin and read in the loop, a and w are the loop's, s is the tile's end.
TEST_CASE("one role, with and without barriers in shared memory") {
  const std::vector<std::vector<std::pair<std::string, std::string>>> cases = {
      {{"w", "a"}}, {{"a", "w"}}, {{"s", "a"}}, {{"s", "t"}}, {{"t", "s"}}, {{"w", "a"}, {"s", "t"}}};
  int index = 0;
  for (const auto& lies_in : cases)
    for (const bool shared_barriers : {false, true})
      for (const bool persistent : {false, true}) {
        if (testing::sampled_out(index++ / 2 + persistent)) continue;
        CAPTURE(lies_in[0].first);
        CAPTURE(lies_in[0].second);
        CAPTURE(shared_barriers);
        CAPTURE(persistent);
        test::ToyKernel kernel({.persistent = persistent, .shared_barriers = shared_barriers, .lies_in = lies_in});
        for (const std::string& line : sched::verify(kernel.graph, kernel.schedule)) FAIL_CHECK(line);
        INFO(kernel.unit.text);
        for (int n = 0; n <= 5; ++n)
          for (std::uint64_t seed = 1; seed <= 3; ++seed) CHECK(kernel.run(seed, {}, persistent ? 3 : 1, n) == "");
        int sites = 0;
        for (const codegen::Site& site : kernel.unit.sites) {
          if (shared_barriers && site.what.find("has left its place") == std::string::npos) continue;
          if (site.what.find("begin: block sync") == 0) continue;
          CAPTURE(site.what);
          bool missed = false;
          for (const int n : {5, 2, 1, 0})
            for (std::uint64_t seed = 1; seed <= 30 && !missed; ++seed)
              missed = kernel.run(seed, {site.id}, persistent ? 3 : 1, n) != "";
          CHECK(missed);
          ++sites;
        }
        CHECK(sites > 0);
      }
}
