// Protects products whose tiles the blocks of a cluster do together, each a slice of K, on the CPU model against f64.
// There are two and four slices, fewer iterations than slices, none at all. d leaves in every way, with addends and in
// batches. Equal launches give equal bits in any order of events. Calls with a limit, parts of K and other walks have
// no such tiles.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "codegen/emit.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/rates.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;
using test::GemmShape;
using testing::error_of;
using testing::has;

namespace {

constexpr unsigned kUnused = 4;  // a block has one tile, whatever the device has room for

ops::GemmChoice sliced(const char* tile) { return {.tile = gemm_tile_named(tile)}; }
const arch::Arch& sliced_arch() { return *arch::find("sm_90a"); }

}  // namespace

TEST_CASE("any number of iterations, of tiles and of slices") {
  test::StepKernels kernels;
  std::uint64_t seed = 1;
  int index = 0;
  for (const char* tile : {"16x64x128c1x1x2s", "48x64x128c1x1x2s", "64x64x128c1x1x4", "32x64x128c1x1x4s"})
    // One iteration, two, three, as many as slices, more than slots; one tile, several rows and columns of them.
    for (const int k : {40, 256, 300, 512, 2050}) {
      if (testing::thinned_out(index++)) continue;
      GemmShape shape = gemm_shape(index % 2 == 0 ? 13 : 70, index % 3 == 0 ? 64 : 200, k);
      shape.bias = index % 2 == 0;
      CAPTURE(std::string(tile));
      CAPTURE(shape.text());
      GemmProblem problem(shape, seed);
      CHECK(kernels.run(problem, sliced(tile), seed++, kUnused) == "");
    }
}

TEST_CASE("slices of 8-bit elements, whose partial sums are promoted before blocks exchange them") {
  test::StepKernels kernels;
  std::uint64_t seed = 40;
  int index = 0;
  for (const char* tile : {"16x64x256c1x1x2s", "32x64x256c1x1x2s", "56x64x256c1x1x2s", "16x64x256c1x1x4s"})
    for (const int k : {48, 512, 528, 1024, 4096}) {
      if (testing::thinned_out(index++)) continue;
      GemmShape shape = gemm_shape(index % 2 == 0 ? 13 : 70, index % 3 == 0 ? 64 : 208, k, DType::e4m3,
                                   index % 2 == 0 ? DType::bf16 : DType::f32);
      shape.bias = index % 2 == 0;
      CAPTURE(std::string(tile));
      CAPTURE(shape.text());
      GemmProblem problem(shape, seed);
      CHECK(kernels.run(problem, sliced(tile), seed++, kUnused) == "");
    }
}

TEST_CASE("tiles of a cluster share copies, each in slices; of the last cluster one may lie outside") {
  test::StepKernels kernels;
  std::uint64_t seed = 80;
  int index = 0;
  for (const char* tile : {"40x64x128c2x1x2s", "64x128x64c2x1x2s", "104x128x64c2x1x2s"}) {
    const ops::GemmTile& shape_of = ops::gemm_tiles()[static_cast<std::size_t>(gemm_tile_named(tile))];
    const int m = shape_of.block_m, n = shape_of.block_n;
    // Whole clusters and parts of them; no more iterations than slices, more than slots.
    for (const auto& [rows, columns, k] :
         {std::array{2 * m, 2 * n, 300}, std::array{m - 3, n - 8, 40}, std::array{2 * m + 5, 3 * n, 1200}}) {
      if (testing::thinned_out(index++)) continue;
      GemmShape shape = gemm_shape(rows, columns, k);
      shape.bias = index % 2 == 0;
      CAPTURE(std::string(tile));
      CAPTURE(shape.text());
      GemmProblem problem(shape, seed);
      CHECK(kernels.run(problem, sliced(tile), seed++, kUnused) == "");
    }
  }
}

TEST_CASE("the same with every order of a and b, wide results, addends and batches") {
  test::StepKernels kernels;
  std::uint64_t seed = 120;
  int index = 0;
  for (const char* tile : {"40x64x128c2x1x2s", "64x128x64c2x1x2s"})
    for (const DType out : {DType::bf16, DType::f32})
      for (const bool turned : {false, true}) {
        if (testing::thinned_out(index++)) continue;
        GemmShape shape = gemm_shape(131, 136, 700, DType::bf16, out);
        shape.batch = 2;
        shape.beta = 0.5f;
        shape.activation = Activation::silu;
        shape.a_transposed = shape.b_transposed = turned;
        CAPTURE(std::string(tile));
        CAPTURE(shape.text());
        GemmProblem problem(shape, seed);
        CHECK(kernels.run(problem, sliced(tile), seed++, kUnused) == "");
      }
}

TEST_CASE("every way by which d leaves, orders of a and b, batches, addends, nothing of a and b") {
  test::StepKernels kernels;
  std::uint64_t seed = 40;
  int index = 0;
  for (const char* tile : {"64x64x128c1x1x2", "24x64x128c1x1x2s"})
    for (const DType out : {DType::f16, DType::f32})
      for (const int columns : {136, 131}) {  // 131: rows of d are no whole 16 bytes
        if (testing::thinned_out(index++)) continue;
        const bool swapped = std::string(tile).back() == 's';
        GemmShape shape = gemm_shape(60, columns, 700, DType::f16, out);
        shape.batch = 2;
        shape.beta = 0.5f;
        shape.activation = Activation::silu;
        CAPTURE(std::string(tile));
        CAPTURE(shape.text());
        GemmProblem problem(shape, seed);
        CHECK(kernels.run(problem, sliced(tile), seed++, kUnused) == "");
        if (swapped) continue;
        shape.alpha = 0;  // no block has an iteration; sums of nothing are sent all the same
        GemmProblem nothing(shape, seed);
        CHECK(kernels.run(nothing, sliced(tile), seed++, kUnused) == "");
      }
}

TEST_CASE("equal launches give equal bits, whichever block comes first") {
  test::StepKernels kernels;
  const GemmShape shape = gemm_shape(30, 150, 3000);
  for (const char* tile : {"32x64x128c1x1x4s", "40x64x128c2x1x2s"}) {
    CAPTURE(std::string(tile));
    std::vector<unsigned char> bits;
    for (const std::uint64_t seed : {9, 7, 8, 12}) {
      if (!bits.empty() && testing::thinned_out(static_cast<int>(seed))) continue;
      GemmProblem problem(shape, 70);
      REQUIRE(kernels.run(problem, sliced(tile), seed, kUnused) == "");
      if (bits.empty()) bits = problem.result();
      CHECK(problem.result() == bits);
    }
  }
}

TEST_CASE("one wait is for all stores of a block's only tile, and one for all sums that come to a role") {
  const auto times = [](const char* tile, const std::string& part) {
    const Choice choice =
        choose(ops::gemm_op(), ops::gemm_op().requests({{"dtype", {"f16"}}, {"tile", {tile}}}).front(), sliced_arch());
    const std::string text = codegen::emit(choice.candidate.graph, choice.schedule, sliced_arch().primitives).text;
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  };
  CHECK(times("104x128x64c2x1x2s", " put_box(") == 2);
  CHECK(times("104x128x64c2x1x2s", "dev::store_commit<") == 1);
  CHECK(times("104x128x64c2x1x2s", "dev::store_wait<") == 1);
  // One role has both consumers here: it waits for all sums of other slices at once.
  CHECK(times("80x128x64c2x1x2s", " stage_rows(") == 2);
  CHECK(times("80x128x64c2x1x2s", "dev::wait_slices<") == 1);
  CHECK(times("104x128x64c2x1s", "dev::store_commit<") == 2);  // the next tile's rows wait for each
}

TEST_CASE("few tiles of long K are done together; calls with a limit and other walks are not") {
  const auto tile_of = [](const ops::GemmSizes& sizes) {
    return ops::gemm_tiles()[static_cast<std::size_t>(ops::choose_gemm(sizes, {}, sliced_arch()).tile)];
  };
  // 16x64x128c1x1x4s takes 3.5 us for 15 x 768 x 4096, the best of the others 4.9 (H100, 2026-11-27).
  ops::GemmSizes sizes{15, 768, 4096, 1};
  CHECK(tile_of(sizes).sliced());
  CHECK_FALSE(tile_of({4096, 4096, 4096, 1}).sliced());
  sizes.max_sms = 100;
  CHECK_FALSE(tile_of(sizes).sliced());
  for (const ops::RankedGemm& ranked : ops::rank_gemm(sizes, {}, sliced_arch()))
    CHECK_FALSE(ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].sliced());
  for (const ops::RankedGemm& ranked : ops::rank_gemm({15, 768, 4096, 1}, {}, sliced_arch()))
    if (ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].sliced()) {
      CHECK(ranked.choice.parts == 1);
      CHECK(ranked.choice.walk == ops::WalkChoice::usual);
    }
  // Two tiles of a cluster share copies. Predicted first by 5 to 7% they were the fastest once and lost six times
  // (H200, 2026-11-30), so that calls want 10%; tuning times them. More than one wave of them was timed nowhere.
  const std::vector<ops::RankedGemm> ranked_of_one_wave = ops::rank_gemm({199, 3456, 5120, 1}, {}, sliced_arch());
  CHECK(std::any_of(ranked_of_one_wave.begin(), ranked_of_one_wave.end(), [](const ops::RankedGemm& ranked) {
    return ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].shares_slices();
  }));
  CHECK_FALSE(tile_of({199, 3456, 5120, 1}).shares_slices());
  const ops::GemmTile pair = ops::gemm_tiles()[static_cast<std::size_t>(gemm_tile_named("104x128x64c2x1x2s"))];
  CHECK(ops::gemm_doubt(pair, {199, 3456, 5120, 1}, sliced_arch()) == 1.1);
  CHECK(std::isinf(ops::gemm_doubt(pair, {199, 8192, 5120, 1}, sliced_arch())));
  ops::GemmKernel kernel;
  kernel.tile = gemm_tile_named("16x64x128c1x1x2s");
  CHECK(ops::gemm_tile_fits(ops::gemm_tiles()[static_cast<std::size_t>(kernel.tile)], kernel));
  for (const ops::WalkChoice walk : {ops::WalkChoice::dynamic, ops::WalkChoice::split, ops::WalkChoice::persistent}) {
    ops::GemmKernel other = kernel;
    other.walk = walk;
    CHECK_FALSE(ops::gemm_tile_fits(ops::gemm_tiles()[static_cast<std::size_t>(kernel.tile)], other));
  }
  const auto refused = [](const std::map<std::string, std::vector<std::string>>& flags) {
    return error_of([&] { ops::gemm_op().requests(flags); }).message;
  };
  CHECK(has(refused({{"tile", {"16x64x128c1x1x2s"}}, {"walk", {"split"}}}), "--tile is '16x64x128c1x1x2s'; allowed"));
  CHECK(has(refused({{"tile", {"16x64x128c1x1x2s"}}, {"parts", {"true"}}}), "--tile is '16x64x128c1x1x2s'; allowed"));
}
