// Protects attention on matrix instructions of a warp: chosen odd shapes and random ones on the CPU model, against f64,
// with copies by threads (sm_80) and by the copy engine (sm_120a).
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/fmha/checks.hpp"

using namespace tj;

namespace {
const std::vector<const char*> kTargets = {"model:sm_80", "model:sm_120a"};
// Masks, scores and widths are the same code for all: each entry of those lists runs on one of them.
const int kTurns = static_cast<int>(kTargets.size());
constexpr DType f16 = DType::f16, bf16 = DType::bf16;
}  // namespace

TEST_CASE(
    "shapes at the edges of tiles, rows without keys, single rows and keys, grouped heads, both kinds of copies") {
  for (const char* target : kTargets) {
    test::check_fmha_edges(target, {{1, 1, 1, 257, 256, 64, f16, true, false, true}});
    test::check_fmha_scales(target, {1.0f, -0.125f, 0.0f, 4.0f});
  }
}

TEST_CASE("blocks of 256 rows, where an SM has room for one block") {
  std::uint64_t seed = 7301;
  for (const test::FmhaShape& shape : {test::FmhaShape{1, 2, 1, 257, 333, 128, f16, true, false, true},
                                       test::FmhaShape{1, 1, 1, 300, 100, 128, bf16, false, true, true}}) {
    CAPTURE(shape.text());
    CHECK(test::run_fmha("model:sm_90+smem-sm=100K", shape, seed++) == "");
  }
}

TEST_CASE("windows, places of queries, softcap, ALiBi and sinks, at edges of blocks and without keys") {
  for (int place = 0; place < kTurns; ++place) {
    test::check_fmha_masks(kTargets[static_cast<std::size_t>(place)], {place, kTurns});
    test::check_fmha_scores(kTargets[static_cast<std::size_t>(place)], {place, kTurns});
  }
}

TEST_CASE("random shapes with random windows, softcap, ALiBi and sinks") {
  test::check_random_fmha(kTargets, 9, {2, 200, 400, true});
}

TEST_CASE("head dims of queries and of values, multiples of 8") {
  for (int place = 0; place < kTurns; ++place)
    test::check_fmha_head_dims(kTargets[static_cast<std::size_t>(place)], 256, {place, kTurns});
  test::check_random_fmha(kTargets, 6, {2, 200, 300, true, 256});
}

TEST_CASE("random shapes: both types, head dims, masks and layouts") { test::check_random_fmha(kTargets, 16); }
