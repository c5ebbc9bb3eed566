// Protects the choice of attention's tile: that predictions rest on what the scheduler finds, that sizes choose among
// tiles that the arch has a schedule for, that prepare() makes what calls take, and that a tile can be named.
#include <doctest/doctest.h>

#include <string>

#include "arch/options.hpp"
#include "ops/fmha/family.hpp"
#include "ops/fmha/tiles.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::error_of;

namespace {

ops::FmhaKernel kernel_of(int head_dim, bool causal = false, DType dtype = DType::f16) {
  ops::FmhaKernel kernel;
  kernel.dtype = dtype;
  kernel.head_dim = head_dim;
  kernel.causal = causal;
  return kernel;
}

ops::FmhaTile tile_of(const ops::Candidate& candidate) {
  const auto launch = candidate.geometry.as<ops::FmhaLaunch>();
  return {launch.rows_per_block, launch.block_n};
}

/// The tile of a call with so many heads, queries and keys.
std::string taken(const ops::FmhaKernel& kernel, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                  const char* target = "sm_90a", std::int64_t max_sms = 0) {
  return ops::fmha_tile_words()[static_cast<std::size_t>(
      ops::choose_fmha_tile(kernel, {1, heads, heads, queries, keys}, max_sms, arch::parse_arch(target)))];
}

}  // namespace

TEST_CASE("every tile of every arch has a name, which says its sizes") {
  for (const arch::Arch* arch : arch::all())
    for (const int head_dim : {64, 128})
      for (const bool causal : {false, true})
        for (const bool general : {false, true}) {
          ops::FmhaKernel kernel = kernel_of(head_dim, causal);
          kernel.general_scale = general;
          for (const ops::Candidate& candidate : ops::fmha_candidates(kernel, *arch)) {
            const ops::FmhaTile tile = tile_of(candidate);
            const auto place = static_cast<std::size_t>(ops::place_of_fmha_tile(tile));
            CAPTURE(arch->name);
            REQUIRE(place < ops::fmha_tiles().size());
            CHECK(ops::fmha_tile_words()[place] == std::to_string(tile.rows) + "x" + std::to_string(tile.keys));
          }
        }
}

TEST_CASE("an iteration is predicted as it is scheduled, and the usual tile is the scheduler's") {
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const int head_dim : {64, 128})
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const ops::FmhaKernel kernel = kernel_of(head_dim, false, dtype);
      for (const ops::Candidate& candidate : ops::fmha_candidates(kernel, arch)) {
        ops::FmhaKernel own = kernel;
        own.tile = ops::place_of_fmha_tile(tile_of(candidate));
        const Choice made = choose(ops::fmha_op(), ops::fmha_request(own), arch);
        CAPTURE(made.candidate.graph.name);
        CHECK(tile_of(made.candidate) == tile_of(candidate));
        const double iteration = ops::find_fmha_family(arch)->iteration_cycles(kernel, tile_of(candidate), arch);
        CHECK(iteration == doctest::Approx(made.schedule.ii).epsilon(0.02));
        const double around = static_cast<double>(made.schedule.length - made.schedule.ii) / made.schedule.ii;
        CHECK(around == doctest::Approx(1.4).epsilon(0.1));
      }
      const ops::FmhaTile usual = tile_of(choose(ops::fmha_op(), ops::fmha_request(kernel), arch).candidate);
      CHECK(ops::fmha_tile_cycles(kernel, {4, 132, 132, 4096, 4096}, 0, ops::kUsualFmhaTile, arch) ==
            ops::fmha_tile_cycles(kernel, {4, 132, 132, 4096, 4096}, 0, ops::place_of_fmha_tile(usual), arch));
    }
}

TEST_CASE("calls whose keys fill another tile's blocks better take that tile") {
  const ops::FmhaKernel wide = kernel_of(128);
  CHECK(taken(wide, 32, 512, 512) == "128x128");  // 20% faster than blocks of 160 keys (H100, 2026-11-27)
  CHECK(taken(wide, 1, 1, 128) == "128x128");
  CHECK(taken(wide, 32, 640, 640) == "usual");
  CHECK(taken(wide, 32, 4096, 4096) == "usual");
  CHECK(taken(kernel_of(64), 32, 1024, 1024) == "128x128");  // 17% faster than 192 rows there
  CHECK(taken(kernel_of(64), 256, 200, 200) == "128x128");   // 21%
  CHECK(taken(kernel_of(64), 256, 384, 384) == "usual");     // 7% faster than 128 rows
  CHECK(taken(kernel_of(64), 136, 640, 640) == "usual");     // predicted to lose 9%, it loses 5%: too close
  CHECK(taken(kernel_of(64), 32, 4096, 4096) == "usual");
}

TEST_CASE("calls with a limit choose for the multiprocessors that they have") {
  // 66 heads of 384 rows are a wave of tiles of 192 rows, or one and a half of tiles of 128.
  CHECK(taken(kernel_of(64), 66, 384, 4096) == "usual");
  CHECK(taken(kernel_of(64), 44, 384, 4096) == "128x128");
  CHECK(taken(kernel_of(64), 44, 384, 4096, "sm_90a", 88) == "usual");
}

TEST_CASE("tiles that differ, rungs and other families keep the usual tile") {
  CHECK(taken(kernel_of(128, true), 32, 512, 512) == "usual");
  CHECK(taken(kernel_of(128), 32, 512, 512, "sm_90") == "usual");
  CHECK(taken(kernel_of(128), 32, 512, 512, "gfx942") == "usual");
  ops::FmhaKernel rung = kernel_of(128);
  rung.rung = 2;
  CHECK(taken(rung, 32, 512, 512) == "usual");
}

TEST_CASE("a target with less shared memory takes no tile that has no schedule there") {
  for (const char* target : {"sm_90a+smem=200K", "sm_90a+smem=180K", "sm_90a+smem=150K", "sm_90a+smem=120K"})
    for (const int head_dim : {64, 128}) {
      const arch::Arch& arch = arch::parse_arch(target);
      for (const int tile : ops::taken_fmha_tiles(kernel_of(head_dim), arch)) {
        ops::FmhaKernel kernel = kernel_of(head_dim);
        kernel.tile = tile;
        CAPTURE(target);
        CAPTURE(ops::fmha_tile_words()[static_cast<std::size_t>(tile)]);
        if (tile != ops::kUsualFmhaTile) CHECK_NOTHROW(choose(ops::fmha_op(), ops::fmha_request(kernel), arch));
      }
    }
}

TEST_CASE("prepare() makes every kernel that a call may take; the report is the usual one's") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const ops::ChooseKernel by_prediction{
      [&](const ops::ProblemKey& problem) { return ops::fmha_op().choose(problem, arch); },
      [&]() -> const arch::Arch& { return arch; }};
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true}) {
      FmhaConfig config;
      config.head_dim = head_dim;
      config.causal = causal;
      const auto needed = ops::fmha_op().needed_kernels(&config, by_prediction);
      CHECK(ops::fmha_op().request_of(needed.back().kernel).name ==
            ops::fmha_request(kernel_of(head_dim, causal)).name);
      for (const std::int64_t heads : {1, 66, 132, 2000})
        for (const std::int64_t length : {1, 64, 128, 160, 192, 500, 512, 1000, 1024, 4000, 16384}) {
          const ops::Kernel call = ops::fmha_op().choose(
              ops::fmha_problem_key(kernel_of(head_dim, causal), {1, heads, heads, length, length}), arch);
          CHECK(std::any_of(needed.begin(), needed.end(),
                            [&](const auto& each) { return each.kernel.small_key == call.small_key; }));
        }
    }
}

TEST_CASE("a model's engine needs at most eight kernels: keys in pages for all it does, or prefill beside pages") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const ops::ChooseKernel by_prediction{
      [&](const ops::ProblemKey& problem) { return ops::fmha_op().choose(problem, arch); },
      [&]() -> const arch::Arch& { return arch; }};
  for (const int head_dim : {64, 96, 128, 192, 256}) {
    CAPTURE(head_dim);
    std::vector<ops::Kernel> kernels;
    const auto add = [&](const FmhaConfig& config) {
      for (const ops::NeededKernel& needed : ops::fmha_op().needed_kernels(&config, by_prediction)) {
        const auto same = [&](const ops::Kernel& known) { return known.small_key == needed.kernel.small_key; };
        if (std::none_of(kernels.begin(), kernels.end(), same)) kernels.push_back(needed.kernel);
      }
    };
    FmhaConfig config;
    config.dtype = DType::bf16, config.head_dim = head_dim, config.causal = true, config.varlen = true;
    config.page_size = 16;
    add(config);
    CHECK(kernels.size() == 5);  // of few tiles and of many, keys of few queries in parts and whole, their merge
    config.packed = false, config.page_size = 0;
    kernels.clear();
    add(config);
    CHECK(kernels.size() == 5);
  }
}

TEST_CASE("a tile that the arch does not have is refused by its name and by those that it has") {
  ops::FmhaKernel kernel = kernel_of(128);
  kernel.tile = ops::place_of_fmha_tile({192, 128});
  const Error error = error_of([&] { ops::fmha_candidates(kernel, *arch::find("sm_90a")); });
  CHECK(error.code == Code::unsupported);
  CHECK(error.message == "fmha: tile is 192x128; allowed on sm_90a with head_dim 128: usual, 128x160, 128x128");
}
