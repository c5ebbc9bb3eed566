// Protects products of groups on the CPU model of every family but sm90, against f64: copies by threads (sm_80) and by
// the engine (sm_120a), tensor memory (sm_100a), waves of AMD; each way to tell groups, every tile, lists that hold
// anything, a limit on multiprocessors, and what such archs refuse.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <random>
#include <string>

#include <tilejit/tilejit.hpp>

#include "ops/gemm/gemm.hpp"
#include "ops/grouped_gemm/checks.hpp"
#include "ops/grouped_gemm/depths.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GroupedProblem;
using test::GroupedShape;
using test::kGroupings;

namespace {

constexpr std::array kArchs = {"sm_80", "sm_120a", "sm_100a", "gfx1100", "gfx1201", "gfx90a"};

Runtime& runtime_of(const std::string& arch) { return testing::model_runtime("model:" + arch); }

std::string run(const std::string& arch, const GroupedShape& shape, std::uint64_t seed, int max_sms = 0) {
  GroupedProblem problem(shape, seed);
  problem.args.max_sms = max_sms;
  problem.run(runtime_of(arch));
  return problem.problem();
}

}  // namespace

TEST_CASE("each way to tell groups, each type, ends, rows of d that are not aligned") {
  std::uint64_t seed = 1;
  for (std::size_t a = 0; a < kArchs.size(); ++a)
    for (std::size_t g = 0; g < 3; ++g)
      for (std::size_t t = 0; t < 2; ++t, ++seed) {
        if (testing::sampled_out(static_cast<int>(a + g + t))) continue;
        std::mt19937 random(static_cast<unsigned>(seed));  // the rest depends on no list
        GroupedShape shape;
        shape.counts = {70, 0, 3, 129, 1, 0};
        shape.grouping = kGroupings[g];
        shape.dtype = t == 0 ? DType::f16 : DType::bf16;
        shape.out = random() % 3 == 0 ? DType::f32 : shape.dtype;
        shape.n = random() % 4 == 0 ? 136 : 131;
        shape.k = 208;
        shape.spare = 3;
        shape.padding = random() % 5 == 0 ? 3 : 0;
        shape.bias = random() % 2 == 0;
        shape.beta = random() % 3 == 1 ? -0.5f : 0.0f;
        shape.in_place = random() % 2 == 1;
        const std::string arch = kArchs[a];
        CAPTURE(arch);
        CAPTURE(shape.text());
        CHECK(run(arch, shape, seed) == "");
      }
}

TEST_CASE("long lists: groups with rows at their ends, in a run, and far apart") {
  for (const std::string arch : kArchs)
    for (const int limit : {0, 2}) {
      GroupedShape shape;
      shape.counts.assign(300, 0);
      for (const std::size_t group : {2, 127, 128, 255, 256, 299}) shape.counts[group] = group % 2 == 0 ? 70 : 1;
      shape.grouping = kGroupings[limit == 0 ? 0 : 1];
      shape.n = 72;
      shape.k = 64;
      CAPTURE(arch);
      CAPTURE(shape.text());
      CHECK(run(arch, shape, 33, limit) == "");
    }
}

TEST_CASE("a limit on multiprocessors, whose blocks do tile after tile, or draw them") {
  std::uint64_t seed = 70;
  for (const std::string arch : kArchs) {
    GroupedShape shape;
    shape.counts = {70, 0, 300, 1, 0};
    shape.grouping = kGroupings[seed % 3];
    shape.n = 300;
    shape.spare = 2;
    CAPTURE(arch);
    CAPTURE(shape.text());
    CHECK(run(arch, shape, seed, 1) == "");
    test::DepthsProblem depths({{70, 0, 3, 129}, 131, 200}, static_cast<unsigned>(++seed));
    depths.args.max_sms = 1;
    CHECK(depths.run(runtime_of(arch)) == "");
  }
}

TEST_CASE("every tile that serves groups, with groups of one row, of none, of whole tiles and more; on few blocks") {
  for (std::size_t a = 0; a < kArchs.size(); ++a) {
    const std::string arch = kArchs[a];
    int served = 0;
    for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
      const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
      GroupedShape shape;
      shape.counts = {0, tile.block_m, 1, 0, 0, tile.block_m * tile.cluster_m + 5, 2 * tile.block_m - 3, 0};
      shape.grouping = kGroupings[static_cast<std::size_t>(served) % 3];
      shape.dtype = t % 2 == 0 ? DType::bf16 : DType::f16;
      shape.out = t % 5 == 0 ? DType::f32 : DType::bf16;
      shape.n = tile.block_n * tile.cluster_n + 16;
      shape.k = 5 * tile.block_k - 8;
      shape.spare = t % 4;
      shape.bias = t % 2 == 0;
      shape.padding = t % 3 == 0 ? 8 : 0;
      if (!test::serves_groups(arch, shape, t)) shape.grouping = Grouping::ends;
      if (!test::serves_groups(arch, shape, t) || testing::sampled_out(served++ + 3 * static_cast<int>(a), 4)) continue;
      CAPTURE(arch);
      CAPTURE(shape.text());
      CAPTURE(t);
      CHECK(test::run_grouped_tile(arch, shape, t, 100 + static_cast<std::uint64_t>(t), t % 2 == 0 ? 2 : 5) == "");
    }
    CHECK(served > 3);
  }
}

TEST_CASE("groups along K that begin and end anywhere, empty ones; in place, with a bias, each type") {
  unsigned seed = 1;
  for (const std::string arch : kArchs)
    for (const std::vector<int>& depths : {std::vector{70, 0, 3, 129, 1}, {0, 0}, {0, 5, 0, 300, 63, 65}}) {
      test::DepthsShape shape;
      shape.depths = depths;
      shape.m = seed % 2 == 0 ? 72 : 131;
      shape.n = seed % 3 == 0 ? 40 : 200;
      shape.dtype = seed % 2 == 0 ? DType::f16 : DType::bf16;
      shape.out = seed % 3 == 0 ? DType::bf16 : DType::f32;
      shape.spare = static_cast<int>(seed % 4);
      shape.bias = seed % 3 == 1;
      shape.beta = seed % 4 < 2 ? 1.0f : 0.0f;
      CAPTURE(arch);
      CAPTURE(seed);
      CHECK(test::DepthsProblem(shape, seed++).run(runtime_of(arch)) == "");
    }
}

TEST_CASE("every tile that has groups along K, on few blocks") {
  for (const std::string arch : kArchs) {
    CAPTURE(arch);
    CHECK(test::check_depths_tiles(arch) > 3);
  }
}

TEST_CASE("lists that hold anything: no fault, nothing beside d is written, and right lists are right afterwards") {
  std::mt19937 random(11);
  for (const std::string arch : kArchs)
    for (int round = 0; round < 4; ++round) {
      GroupedShape shape;
      shape.counts = {40, 7, 90};
      shape.grouping = kGroupings[static_cast<std::size_t>(round) % 3];
      shape.n = 72;
      GroupedProblem problem(shape, 20);
      test::DepthsShape along{{40, 7, 90}};
      test::DepthsProblem depths(along, 20);
      for (std::vector<std::int32_t>* list : {&problem.list, &depths.list})
        for (std::int32_t& each : *list)
          each = round == 0   ? std::numeric_limits<std::int32_t>::max()
                 : round == 1 ? std::numeric_limits<std::int32_t>::min()
                              : static_cast<std::int32_t>(random() % 400) - 100;
      CAPTURE(arch);
      problem.run(runtime_of(arch));
      CHECK(!problem.written_outside());
      CHECK(run(arch, shape, 20) == "");
      runtime_of(arch).run(depths.args);
      CHECK(test::DepthsProblem(along, 20).run(runtime_of(arch)) == "");
    }
}

TEST_CASE("no row, and more groups than tiles") {
  std::mt19937 random(7);
  for (const std::string arch : kArchs)
    for (const Grouping grouping : {Grouping::ends, Grouping::counts}) {
      GroupedShape shape;
      shape.counts = {0, 0, 0};
      shape.grouping = grouping;
      shape.spare = 4;
      shape.n = 40;
      CAPTURE(arch);
      CHECK(run(arch, shape, 4) == "");
      for (int group = 0; group < 33; ++group)
        shape.counts.push_back(random() % 3 == 0 ? static_cast<int>(random() % 9) : 0);
      CHECK(run(arch, shape, 3) == "");
    }
}

TEST_CASE("what these archs do not have is refused by name") {
  for (const std::string arch : kArchs) {
    const auto said = [&](const auto& change) {
      GroupedShape shape;
      shape.counts = {20, 30};
      GroupedProblem problem(shape, 1);
      change(problem.args);
      return testing::said_by([&] { runtime_of(arch).run(problem.args); });
    };
    const std::string allowed = "; allowed on " + arch + ": ";
    std::string text = said([](GroupedGemmArgs& args) {
      args.gate = Activation::silu;
      args.d.shape[1] /= 2;
    });
    CHECK_MESSAGE(testing::has(text, "grouped_gemm: gate is silu" + allowed + "none"), text);
    if (arch == "sm_120a" || arch == "gfx1201") continue;
    text = said([](GroupedGemmArgs& args) { args.a.dtype = args.b.dtype = DType::e4m3; });
    CHECK_MESSAGE(testing::has(text, "grouped_gemm: a.dtype is e4m3" + allowed + "f16, bf16"), text);
  }
}
