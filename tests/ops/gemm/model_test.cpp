// Protects matrix products' results: chosen odd shapes and random ones on the CPU model, against f64, with inputs
// between NaNs and poisoned outputs inside guard bands; every tile, order, type and epilogue; blocks that walk several
// tiles.
#include <doctest/doctest.h>

#include <optional>

#include "ops/gemm/checks.hpp"
#include "ops/gemm/lists.hpp"
#include "support/full.hpp"

using namespace tj;
using test::GemmShape;

TEST_CASE("every tile, in every order of the operands, with each type and epilogue; one block for many tiles") {
  const auto shape_of = [](int served, int t, const ops::GemmTile& tile) -> std::optional<GemmShape> {
    if (testing::sampled_out(served)) return std::nullopt;  // its neighbours in the list differ from it by one size
    GemmShape shape = test::gemm_shape_of_kind(t, tile);
    shape.a_transposed = t % 4 >= 2 && tile.block_m % 64 == 0 && !tile.reads;
    shape.b_transposed = t % 2 == 1 && tile.block_n % 64 == 0 && !tile.reads;
    return shape;
  };
  // Whole tiles; ragged ones; fewer iterations than slots and more; 1 and 2 blocks, each with several tiles. 8-bit
  // elements: gemm_e4m3_model_test.cpp.
  CHECK(test::check_gemm_tiles("sm_90a", {{2, 2, 2, 1}, {3, 2, 1, 2, 37}, {3, 1, 13, 1, 37}}, shape_of) >= 7);
}

TEST_CASE("shapes at the edges of tiles and of K") { test::check_gemm_sizes("sm_90a"); }

TEST_CASE("operands that begin anywhere, in every order: their rows are copied first") {
  test::check_gemm_places("sm_90a");
}

TEST_CASE("batches: strided, with one b for all, in place") { test::check_gemm_strides("sm_90a"); }

TEST_CASE("alpha 0 reads neither a nor b, beta 0 not c") { test::check_gemm_unread("sm_90a"); }

TEST_CASE("a NaN in a row of a makes that row NaN and no other") { test::check_gemm_nan("sm_90a"); }

TEST_CASE("random shapes, strides and scalars") { test::check_random_gemm("sm_90a"); }

TEST_CASE("clusters of two blocks: odd numbers of tiles, batches, no iteration") {
  test::check_gemm_clusters("sm_90a");
}
