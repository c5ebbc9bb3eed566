// Protects attention over tensor memory: chosen odd shapes and random ones on the CPU model, against f64; scales of
// every kind; NaN and infinity; exponentials by arithmetic and by special functions alone (sm_103a).
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

#include "ops/fmha/checks.hpp"

using namespace tj;

namespace {
constexpr const char* kTarget = "model:sm_100a";
constexpr DType f16 = DType::f16, bf16 = DType::bf16;
}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys, grouped heads") {
  test::check_fmha_edges(kTarget, {{1, 1, 1, 257, 256, 64, f16, true, false, true},
                                   {1, 1, 1, 300, 700, 128, f16, true, false, true},
                                   {1, 2, 1, 255, 257, 128, bf16, true, true, true},
                                   {1, 1, 1, 20, 1000, 64, f16, false, false, true}});
}

TEST_CASE("special functions alone, where they are fast enough") {
  std::uint64_t seed = 7501;
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true}) {
      CAPTURE(head_dim);
      CAPTURE(causal);
      CHECK(test::run_fmha("model:sm_103a", {1, 2, 1, 140, 400, head_dim, f16, causal, false, true}, seed++) == "");
    }
}

TEST_CASE("any finite scale: negative, zero, tiny, large") {
  test::check_fmha_scales(kTarget, {1.0f, -0.125f, 0.0f, 1e-20f, 4.0f, -3.0f});
}

TEST_CASE("a NaN or an infinity in a query makes its row NaN, output and lse, and no other") {
  for (const std::optional<float> scale : {std::optional<float>{}, std::optional<float>{-1.5f}}) {
    test::check_fmha_rows_without_number(kTarget, 64, true, scale);
    test::check_fmha_rows_without_number(kTarget, 128, false, scale);
  }
}

TEST_CASE("huge scales pick the largest score and stay finite") { test::check_fmha_huge_scales(kTarget); }

TEST_CASE("windows, places of queries, softcap, ALiBi and sinks, at edges of blocks and without keys") {
  test::check_fmha_masks(kTarget, {0, 2});  // the launch's side of them is Hopper's, whose model runs all
  test::check_fmha_scores(kTarget, {0, 2});
}

TEST_CASE("random shapes with random windows, softcap, ALiBi and sinks") {
  test::check_random_fmha({kTarget}, 6, {2, 300, 600, true});
}

TEST_CASE("head dims of queries and of values, multiples of 8") {
  test::check_fmha_head_dims(kTarget, 128);
  test::check_random_fmha({kTarget}, 4, {2, 300, 300, true, 128});
}

TEST_CASE("random shapes: both types, head dims, masks and layouts") {
  test::check_random_fmha({kTarget}, 12, {2, 300, 600});
}
