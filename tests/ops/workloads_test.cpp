// Protects the problems that ops are timed by: work that is asked for, tensors as calls have them, tiles that add up to
// the problem, and that a tile which does not serve the sizes is refused. And what is predicted of them from a
// schedule.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <tilejit/ops.hpp>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/common/workloads.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj::ops;
using tj::testing::error_of;
using tj::testing::has;

const tj::arch::Arch& hopper() { return *tj::arch::find("sm_90a"); }
constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

/// args over made-up places.
void with_args(const Trial& trial, const std::function<void(const void*)>& use) {
  std::vector<void*> places;
  for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 40));
  trial.with_args(kGpu, places, use);
}

std::vector<TileCount> tiles_of_workload(const Op& op, const Trial& trial, const Geometry& geometry, unsigned blocks) {
  std::vector<TileCount> tiles;
  with_args(trial, [&](const void* args) { tiles = tiles_of(op, args, geometry, blocks); });
  return tiles;
}

TEST_CASE("attention is timed as most calls have it: no lse, the usual scale, as many heads and keys as queries have") {
  const auto list = workloads(
      fmha_op(), {{"heads", {"8"}}, {"seq-q", {"300"}}, {"head-dim", {"128"}}, {"causal", {"false"}}}, hopper());
  REQUIRE(list.size() == 1);
  CHECK(list[0].flops == 4.0 * 4 * 8 * 128 * 300 * 300);
  CHECK(list[0].trial.tensors.size() == 4);
  with_args(list[0].trial, [](const void* args) {
    const auto& of = *static_cast<const tj::FmhaArgs*>(args);
    CHECK_FALSE(of.lse.has_value());
    CHECK_FALSE(of.scale.has_value());
    CHECK(of.k.shape[1] == 8);
    CHECK(of.k.shape[2] == 300);
    fmha_op().validate(args, false);
  });
  // Trials keep theirs: they look at lse, and at maxima that move.
  const auto trials = fmha_op().trials({{"seq-q", {"300"}}}, hopper());
  with_args(trials.front(), [](const void* args) {
    CHECK(static_cast<const tj::FmhaArgs*>(args)->lse.has_value());
    CHECK(static_cast<const tj::FmhaArgs*>(args)->scale == 1.0f);
  });
}

TEST_CASE("causal attention counts the keys that each query sees, aligned at the last") {
  for (const auto& lengths : {std::pair<int, int>{5, 5}, {5, 9}, {9, 5}, {1, 7}, {300, 1}}) {
    const int queries = lengths.first, keys = lengths.second;
    CAPTURE(queries);
    CAPTURE(keys);
    double seen = 0;
    for (int row = 0; row < queries; ++row)
      for (int key = 0; key < keys; ++key) seen += key <= row + keys - queries ? 1 : 0;
    const auto list = workloads(fmha_op(),
                                {{"batch", {"2"}},
                                 {"heads", {"3"}},
                                 {"seq-q", {std::to_string(queries)}},
                                 {"seq-k", {std::to_string(keys)}},
                                 {"head-dim", {"64"}},
                                 {"causal", {"true"}}},
                                hopper());
    CHECK(list.front().flops == 4 * 2 * 3 * 64 * seen);
  }
}

TEST_CASE("tiles of attention cover its queries, each with the blocks of keys that its rows see") {
  const Geometry geometry = Geometry::of(FmhaLaunch{.rows_per_block = 128, .block_n = 80});
  const auto tiles = [&](const char* causal) {
    const auto list = workloads(fmha_op(),
                                {{"batch", {"2"}},
                                 {"heads", {"3"}},
                                 {"seq-q", {"300"}},
                                 {"seq-k", {"200"}},
                                 {"head-dim", {"64"}},
                                 {"causal", {causal}}},
                                hopper());
    return tiles_of_workload(fmha_op(), list.front().trial, geometry, 132);
  };
  const auto full = tiles("false"), causal = tiles("true");
  REQUIRE(full.size() == 3);
  REQUIRE(causal.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(full[i].tiles == 6);
    CHECK(full[i].iterations == 3);
    CHECK(causal[i].tiles == 6);
  }
  CHECK(causal[0].iterations == 1);  // row 127 sees 28 keys
  CHECK(causal[1].iterations == 2);  // row 255 sees 156
  CHECK(causal[2].iterations == 3);
}

TEST_CASE("products are timed by the library's choice unless a tile is named, which has to serve the sizes") {
  const auto free = workloads(
      gemm_op(), {{"m", {"512"}}, {"n", {"256"}}, {"k", {"128"}}, {"batch", {"3"}}, {"dtype", {"bf16"}}}, hopper());
  REQUIRE(free.size() == 1);
  CHECK_FALSE(free[0].trial.choice);
  CHECK(free[0].flops == 2.0 * 512 * 256 * 128 * 3);
  const auto named = workloads(
      gemm_op(), {{"m", {"512"}}, {"n", {"256"}}, {"k", {"128"}}, {"dtype", {"bf16"}}, {"tile", {"64x128x64"}}},
      hopper());
  REQUIRE(named.size() == 1);
  CHECK(choice_text(gemm_op(), named[0].trial.choice.value()) == "64x128x64");
  const tj::Error refused = error_of([] {
    workloads(gemm_op(), {{"m", {"17"}}, {"n", {"64"}}, {"k", {"64"}}, {"tile", {"16x32x128"}}, {"dtype", {"f16"}}},
              hopper());
  });
  CHECK(refused.code == tj::Code::invalid_argument);
  CHECK_MESSAGE(has(refused.message, "--tile is '16x32x128', which does not serve 17x64x64 on sm_90a; allowed there: "),
                refused.message);
  CHECK_MESSAGE(has(error_of([] { workloads(gemm_op(), {{"m", {"0"}}}, hopper()); }).message, "--m is '0'"),
                "names the size");
}

TEST_CASE("a product's prediction is that of its choice, the least of all for what a call takes") {
  const auto list = workloads(gemm_op(), {{"dtype", {"f16"}}}, hopper());
  with_args(list.front().trial, [](const void* args) {
    const int taken = resolve(gemm_op(), args, {}, hopper()).choice;
    const double cycles = predicted_cycles(gemm_op(), args, taken, hopper());
    CHECK(cycles > 0);
    const RankedGemm first =
        rank_gemm({4096, 4096, 4096, 1}, gemm_kind(*static_cast<const tj::GemmArgs*>(args)), hopper()).front();
    CHECK(first.choice.number() == taken);
    CHECK(first.cycles == cycles);
  });
}

TEST_CASE("items of chunk output are shared by the blocks of the grid") {
  const Op& op = *find("chunk_o");
  const auto list = workloads(op, {{"heads", {"4"}}, {"lengths", {"640", "64"}}, {"head-ratio", {"2"}}}, hopper());
  REQUIRE(list.size() == 1);
  // 11 chunks of 4 items, each of two value heads.
  const Geometry geometry = Geometry::of(ChunkOLaunch{2});
  const auto tiles = tiles_of_workload(op, list[0].trial, geometry, 10);
  REQUIRE(tiles.size() == 1);
  CHECK(tiles[0].tiles == 10);
  CHECK(tiles[0].iterations == 5);
  CHECK(tiles_of_workload(op, list[0].trial, geometry, 132).front().tiles == 44);
  CHECK(tiles_of_workload(op, list[0].trial, geometry, 11).front().iterations == 4);  // all of them whole
}

TEST_CASE("an op that says nothing of its own is timed by its trials, and predicted by nobody") {
  const Op& op = *find("copy_rows");
  const auto list = workloads(op, {{"rows", {"9"}}, {"columns", {"70"}}}, hopper());
  REQUIRE(list.size() == 1);
  CHECK(list[0].flops == 0);
  CHECK(list[0].trial.flags == "--batch 1 --rows 9 --columns 70");
  CHECK(tiles_of_workload(op, list[0].trial, Geometry::of(WalkLaunch{true}), 132).empty());
}

}  // namespace
