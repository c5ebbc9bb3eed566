// Protects which products share their tiles between blocks, or have blocks draw them.
#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/rates.hpp"

using namespace tj;

namespace {

const arch::Arch& hopper() { return *arch::find("sm_90a"); }

}  // namespace

TEST_CASE("blocks share tiles where the last wave would leave many idle, and the product lasts long enough") {
  const auto walk_for = [](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t max_sms = 0) {
    ops::GemmSizes sizes{m, n, k, 1};
    sizes.max_sms = max_sms;
    return ops::choose_gemm(sizes, {}, hopper()).walk;
  };
  CHECK(walk_for(1696, 5120, 27648) == ops::WalkChoice::usual);       // two tiles of 136 x 256 an SM come out even
  CHECK(walk_for(1990, 5120, 17912) == ops::WalkChoice::split);       // takes 582 us, whole tiles 622 and more (H100)
  CHECK(walk_for(4605, 5120, 32768) == ops::WalkChoice::usual);       // takes 2128 us, shared tiles 2381
  CHECK(walk_for(567, 5120, 14336) == ops::WalkChoice::usual);        // would take 7% more
  CHECK(walk_for(128, 128, 16384) == ops::WalkChoice::usual);         // parts of K
  CHECK(walk_for(1990, 5120, 17912, 100) != ops::WalkChoice::split);  // a limit has a walk of its own
  // It is what tuning times first.
  CHECK(ops::rank_gemm({1990, 5120, 17912, 1}, {}, hopper()).front().choice.walk == ops::WalkChoice::split);
}

TEST_CASE("a block that finishes a tile of many pieces adds them one after the other, and its call takes counters") {
  arch::Arch free = hopper();
  free.facts.at("more_piece_sum_cycles").value = 0;
  const auto more = [&](const ops::GemmSizes& sizes) {
    const int tile = ops::place_of({192, 128, 64, 1, 2});
    return ops::gemm_split_cycles(sizes, {}, tile, hopper()) - ops::gemm_split_cycles(sizes, {}, tile, free);
  };
  // 10 clusters of tiles at 66 places: seven pieces are left to be added, and one of them always was.
  CHECK(more({141, 2560, 8136, 1}) == doctest::Approx(6 * more({384, 5120, 8192, 1})));  // 40 clusters: two pieces
  CHECK(more({384, 5120, 8192, 1}) > 0);
  CHECK(more({1920, 5120, 8192, 1}) == 0);  // more tiles than places: none has more than two pieces
  // 33.3 us on an H200, 2026-11-30, where 21.4 were predicted.
  const double us = ops::gemm_split_cycles({141, 2560, 8136, 1}, {}, ops::place_of({192, 128, 64, 1, 2}), hopper()) /
                    hopper().clock_ghz / 1000;
  CHECK(us > 26);
  CHECK(us < 40);
  // Tuning names the number that the choice compares.
  const ops::RankedGemm taken = ops::rank_gemm({1990, 5120, 17912, 1}, {}, hopper()).front();
  CHECK(taken.choice.walk == ops::WalkChoice::split);
  CHECK(taken.cycles == ops::gemm_split_cycles({1990, 5120, 17912, 1}, {}, taken.choice.tile, hopper()));
}

TEST_CASE("blocks draw their tiles where each has many of long K: else they drift apart, and L2 serves them less") {
  const auto walk_for = [](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t max_sms = 0) {
    ops::GemmSizes sizes{m, n, k, 1};
    sizes.max_sms = max_sms;
    CHECK(ops::rank_gemm(sizes, {}, hopper()).front().choice == ops::choose_gemm(sizes, {}, hopper()));
    return ops::choose_gemm(sizes, {}, hopper()).walk;
  };
  CHECK(walk_for(6314, 64128, 8184) == ops::WalkChoice::dynamic);
  CHECK(walk_for(16384, 16384, 16384) == ops::WalkChoice::dynamic);
  CHECK(walk_for(4096, 4096, 4096) == ops::WalkChoice::usual);        // five tiles a block
  CHECK(walk_for(16384, 16384, 1024) == ops::WalkChoice::usual);      // the counter costs as much as it saves
  CHECK(walk_for(6314, 64128, 8184, 100) == ops::WalkChoice::usual);  // a limit has a walk of its own
}
