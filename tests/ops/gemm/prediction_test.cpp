// Protects what predictions of products on warpgroups know of copies under way and of stores: each limit was the reason
// for a wrong choice that was timed.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "ops/gemm/rates.hpp"
#include "pipeline.hpp"

using namespace tj;

namespace {

const arch::Arch& hopper() { return *arch::find("sm_90a"); }

/// The predicted cycles of whole tiles, with a fact changed.
double cycles(const ops::GemmSizes& sizes, const ops::GemmKernel& kernel, const std::string& tile,
              const std::string& fact = "", double value = 0) {
  arch::Arch arch = hopper();
  if (!fact.empty()) arch.facts.at(fact).value = value;
  return ops::GemmPrediction(sizes, kernel, test::gemm_tile_named(tile), ops::gemm_rates_of(arch)).cycles(1);
}

}  // namespace

TEST_CASE("predictions count the slots that schedules give to rings") {
  const ops::GemmRates rates = ops::gemm_rates_of(hopper());
  for (const auto& each : {std::pair{"96x64x128s", 5}, std::pair{"112x64x128s", 4}, std::pair{"64x80x64", 8},
                           std::pair{"208x128x64s", 4}, std::pair{"128x168x64", 6}}) {
    const char* name = each.first;
    const int slots = each.second;
    CAPTURE(name);
    ops::GemmKernel kernel;
    kernel.tile = test::gemm_tile_named(name);
    const bool staged = ops::gemm_store(kernel) != ops::gemm::kDirect;
    CHECK(rates.slots[static_cast<std::size_t>(kernel.tile)][staged ? 1 : 0] == slots);
    CHECK(choose(ops::gemm_op(), ops::gemm_request(kernel), hopper()).schedule.rings[0].slots == slots);
  }
}

TEST_CASE("operands from memory take longer in rings with fewer slots; those in L2 do not") {
  // 53.9, 62.7 and 70.0 us (H200, 2026-11-30).
  const ops::GemmSizes from_memory{96, 5120, 17920, 1}, cached{96, 512, 8192, 1};
  const double best = cycles(from_memory, {}, "96x64x128s");
  CHECK(cycles(from_memory, {}, "112x64x128s") > 1.03 * best);
  CHECK(cycles(from_memory, {}, "64x80x64") > 1.03 * best);
  const auto more = [](const ops::GemmSizes& sizes, const std::string& tile) {
    return cycles(sizes, {}, tile) - cycles(sizes, {}, tile, "memory_slot_cycles", 0);
  };
  CHECK(more(from_memory, "112x64x128s") > more(from_memory, "96x64x128s"));
  CHECK(more(cached, "112x64x128s") == 0);
}

TEST_CASE("stores of 32 bits take longer from swapped tiles, parts of K as well") {
  ops::GemmKernel kernel;
  kernel.out = DType::f32;
  const ops::GemmSizes sizes{64, 1280, 5120, 1};
  CHECK(cycles(sizes, kernel, "64x64x128", "wide_store_cycles", 60) - cycles(sizes, kernel, "64x64x128") > 0);
  CHECK(cycles(sizes, kernel, "56x64x128s", "wide_store_cycles", 60) == cycles(sizes, kernel, "56x64x128s"));
  CHECK(cycles(sizes, kernel, "56x64x128s", "swapped_wide_store_cycles", 120) > cycles(sizes, kernel, "56x64x128s"));
}

TEST_CASE("one warp brings rows of d to odd places, under the next tile's loop where that is long enough") {
  ops::GemmKernel kernel;
  kernel.d_aligned = false;
  const auto of_rows = [&](const ops::GemmSizes& sizes) {
    return cycles(sizes, kernel, "144x192x64s") - cycles(sizes, kernel, "144x192x64s", "row_store_cycles", 0);
  };
  const double tile = 144 * hopper().fact("row_store_cycles");
  // 18.4 us were measured where 6.6 were predicted (H200, 2026-11-30): 132 tiles on as many multiprocessors.
  CHECK(of_rows({1625, 2042, 384, 1}) == doctest::Approx(tile * hopper().clock_ghz / hopper().fact("busy_clock_ghz")));
  CHECK(of_rows({2 * 1625, 2042, 384, 1}) > 1.5 * tile);
  CHECK(of_rows({2 * 1625, 2042, 8192, 1}) < 1.1 * tile);
}

TEST_CASE("a multiprocessor copies rows off lines more slowly") {
  ops::GemmKernel narrow;
  narrow.dtype = DType::e4m3;
  narrow.out = DType::bf16;
  // 19.8 us (H200, 2026-11-30): 14.4 were predicted, as all of them together would have had time for more.
  const auto more = [&](std::int64_t k, const std::string& tile) {
    const ops::GemmSizes sizes{148, 2544, k, 1};
    return cycles(sizes, narrow, tile) / cycles(sizes, narrow, tile, "unaligned_copy_factor", 1);
  };
  CHECK(more(8144, "56x128x256s") > 1.25);
  CHECK(more(8192, "56x128x256s") == 1);
}

TEST_CASE("few tiles of 8-bit elements: rows off lines have more blocks, few rows of long K have slices") {
  ops::GemmKernel narrow;
  narrow.dtype = DType::e4m3;
  narrow.out = DType::bf16;
  const auto tiles = [&](const ops::GemmSizes& sizes) {
    const ops::GemmChoice choice = ops::choose_gemm(sizes, narrow, hopper());
    return ops::clusters_of(sizes, ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)]) * choice.parts;
  };
  CHECK(tiles({248, 1520, 4080, 1}) > 80);  // 12.0 us in 48 tiles; cuBLAS 8.1 (H200, 2026-11-30)
  CHECK(tiles({148, 2544, 8144, 1}) > 60);  // 19.8 in 60; cuBLAS 13.7
  CHECK(ops::gemm_choice_name(ops::choose_gemm({1, 2048, 8192, 1}, narrow, hopper())) == "16x64x256c1x1x2s");
}

TEST_CASE("copies bring 64 rows of an a whose M is contiguous, however low the tile is") {
  ops::GemmKernel turned;
  turned.left_mn = turned.right_mn = true;
  const ops::GemmSizes sizes{904, 576, 896, 1};  // 40x128x64s takes 6.1 us, cuBLAS 4.6 (H200, 2026-11-30)
  CHECK(cycles(sizes, turned, "40x128x64s") > 1.05 * cycles(sizes, {}, "40x128x64s"));
}

TEST_CASE("sizes whose choice was slow have the tile that was fastest, or one that took at most 3% more") {
  const auto chosen = [](const ops::GemmSizes& sizes, DType out = DType::f16) {
    ops::GemmKernel kernel;
    kernel.out = out;
    return ops::gemm_choice_name(ops::choose_gemm(sizes, kernel, hopper()));
  };
  CHECK(chosen({96, 5120, 17920, 1}) == "96x64x128s");  // 53.9 us; 64x80x64 70.0
  CHECK(chosen({323, 896, 5120, 1}) == "48x64x128s");   // 9.4; 40x64x128s 12.7
  CHECK(chosen({325, 2560, 8192, 1}) == "56x128x64s");  // 27.4; 112x64x128s 30.0
  CHECK(chosen({66, 1232, 8192, 1}) == "128x64x64k6");  // 9.2; 72x128x64sk10 11.5, the fastest 9.0
}
