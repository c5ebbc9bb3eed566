// Protects attention's ranges of iterations: two loops and one guarded loop give the same bits, right against f64, for
// every number of masked blocks of keys and of others; also where general steps come back behind the range.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "compile/compiler.hpp"
#include "model/model.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/fmha/sm90.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

constexpr ops::FmhaGroupTile kTile{2, 128, true};

/// An end of the range, which shipped kernels do not have: 0 to 3 iterations behind its begin, by the tile.
constexpr const char* kEnd = R"(#pragma once
namespace tj::ops::fmha {
template <class C>
TJ_DEVICE int some_end(const Consumer<C>& consumer, const Tile& tile) {
  return fast_begin(consumer, tile) + tile.index % 4;
}
}  // namespace tj::ops::fmha
)";

class Unit {
 public:
  Unit(graph::Graph graph, const sched::Schedule& schedule, graph::Ranges ranges, bool ends) {
    graph.ranges = ranges;
    if (ends) graph.includes.emplace_back("some_end.cuh");
    for (graph::Node& node : graph.nodes)
      if (ends && node.range) node.range.end = "some_end";
    unit_ = codegen::emit(graph, schedule, "sm90");
    kernel_ =
        test::load_unit(*driver_, unit_, "sm_90a",
                        ends ? std::vector<compile::Header>{{"some_end.cuh", kEnd}} : std::vector<compile::Header>{});
  }
  const std::string& text() const { return unit_.text; }

  /// The output's bits.
  std::vector<std::uint16_t> run(const test::FmhaShape& shape, std::uint64_t seed) {
    model::ModelOptions options;
    options.seed = seed;
    driver_->set_options(options);
    test::FmhaProblem problem(shape, 40);
    ops::LaunchPlan plan;
    ops::fmha_plan(problem.args, {64 * kTile.consumers, kTile.block_n, true, true, 64}, plan);
    for (std::size_t m = 0; m < plan.map_count; ++m)
      driver_->encode_tensor_map(0, plan.maps[m].desc, plan.params.data() + plan.maps[m].offset);
    driver_->launch(0, *kernel_, {{plan.blocks, 1, 1}, unit_.shape}, plan.params.data(), plan.params_bytes, {});
    CHECK(problem.problem() == "");
    std::vector<std::uint16_t> bits;
    const Tensor& o = problem.args.o;
    const auto* const data = static_cast<const std::uint16_t*>(o.data);
    for (std::int64_t h = 0; h < o.shape[1]; ++h)
      for (std::int64_t row = 0; row < o.shape[2]; ++row)
        for (std::int64_t column = 0; column < o.shape[3]; ++column)
          bits.push_back(data[h * o.strides[1] + row * o.strides[2] + column * o.strides[3]]);
    return bits;
  }

 private:
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  codegen::Unit unit_;
  std::shared_ptr<launch::Kernel> kernel_;
};

graph::Graph attention() {
  graph::Graph graph = ops::fmha_group_graph(FmhaConfig{DType::f16, 64, true, false}, kTile, *arch::find("sm_90a"));
  graph.walk = graph::Walk::persistent;
  return graph;
}

void check_shapes(Unit& loops, Unit& loop) {
  // Queries and keys: tiles of one to six iterations, of which one or two mask; tiles whose first rows see no key, and
  // tiles without iterations; many keys that nobody masks.
  for (auto [queries, keys] : {std::pair{570, 640}, {600, 600}, {420, 130}, {100, 640}, {40, 30}})
    for (std::uint64_t seed = 1; seed <= testing::share(2u); ++seed) {
      if (queries != 570 && testing::left_out()) continue;
      test::FmhaShape shape{1, 1, 1, queries, keys, 64};
      shape.causal = true;
      CAPTURE(shape.text());
      CHECK(loops.run(shape, seed) == loop.run(shape, seed));
    }
}

}  // namespace

TEST_CASE("one guarded loop of attention gives the bits of two loops, from the same schedule and in less text") {
  const graph::Graph graph = attention();
  for (const int max_stages : {0, 1}) {
    CAPTURE(max_stages);
    sched::Options options;
    options.max_stages = max_stages;
    const sched::Schedule schedule = sched::schedule(graph, options);
    Unit loops(graph, schedule, graph::Ranges::peeled, false), loop(graph, schedule, graph::Ranges::guarded, false);
    CHECK(testing::has(loops.text(), "steady, fast variants"));
    CHECK_FALSE(testing::has(loops.text(), "in_range"));
    CHECK_FALSE(testing::has(loop.text(), "steady, fast variants"));
    CHECK(testing::has(loop.text(), "if (in_range) {"));
    CHECK(testing::has(loop.text(), "fast_from") == (max_stages == 0));  // the first step is one of the loop's
    CHECK(loop.text().size() < loops.text().size());
    check_shapes(loops, loop);
  }
}

TEST_CASE("general steps come back behind the range in the loop of those before it") {
  const graph::Graph graph = attention();
  const sched::Schedule schedule = sched::schedule(graph);
  Unit loops(graph, schedule, graph::Ranges::peeled, true), loop(graph, schedule, graph::Ranges::guarded, true);
  const Unit without(graph, schedule, graph::Ranges::peeled, false);
  CHECK(loops.text().size() < 2 * without.text().size());
  CHECK(testing::has(loops.text(), "for (int to = "));
  CHECK(testing::has(loop.text(), " && s < behind_fast;"));
  check_shapes(loops, loop);
}
