// Protects attention on the matrix instructions of AMD's waves: chosen odd shapes and random ones on the CPU model,
// against f64, with operands held twice (gfx1100) and once (gfx1201), and with waves of 64 lanes (gfx90a).
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ops/fmha/checks.hpp"

using namespace tj;

namespace {
const std::vector<const char*> kTargets = {"model:gfx1100", "model:gfx1201", "model:gfx90a"};
// Masks, scores and widths are the same code for all: each entry of those lists runs on one of them.
const int kTurns = static_cast<int>(kTargets.size());
}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys, grouped heads, every kind of wave") {
  for (const char* target : kTargets) {
    test::check_fmha_edges(target, {{1, 1, 1, 257, 256, 64, DType::f16, true, false, true}});
    test::check_fmha_scales(target, {1.0f, -0.125f, 0.0f, 4.0f});
  }
}

TEST_CASE(
    "a NaN or an infinity in a query makes its row NaN and no other, also where weights are rounded without a look at "
    "NaN") {
  for (const char* target : kTargets) {
    test::check_fmha_rows_without_number(target, 64, true, {}, DType::bf16);
    test::check_fmha_rows_without_number(target, 128, false, -0.125f, DType::bf16);
    test::check_fmha_rows_without_number(target, 64, true);
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
  for (int place = 0; place < kTurns; ++place) {
    const std::string target = kTargets[static_cast<std::size_t>(place)];
    const int widest = target == "model:gfx90a" ? 256 : 128;  // which has twice the registers
    test::check_fmha_head_dims(target, widest, {place, kTurns});
    if (widest == 256) test::check_fmha_head_dims(target, widest, {0, kTurns});
  }
  test::check_random_fmha(kTargets, 6, {2, 200, 300, true, 128});
}

TEST_CASE("random shapes: both types, head dims, masks and layouts") { test::check_random_fmha(kTargets, 18); }
