// Protects when a rank begins with its own rows: where keys travel long beside what they cost to merge.
#include "dist/prediction.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tj::dist;

namespace {

/// The last of four ranks with zigzag, causal rows of D 128.
Load load_of(double rows, double heads, double kv_heads) {
  constexpr double kRanks = 4, kWidth = 128, kRank = 3;
  const double own = rows / kRanks, piece = own / 2, of_pair = 4 * kWidth, row_bytes = kv_heads * 2 * kWidth * 2;
  Load load;
  load.own_flops = own * own / 2 * heads * of_pair;
  load.flops = load.own_flops + piece * piece * (2 * kRanks - 2) * heads * of_pair;
  load.tile_flops = std::min(own, 128.) * own * of_pair;
  load.remote_bytes = (2 * kRanks - 2 - kRank) * piece * row_bytes;
  load.own_bytes = own * row_bytes;
  load.output_values = own * heads * kWidth;
  return load;
}
bool own_first(const Load& load) {
  const Predicted predicted = predict(load);
  return predicted.own_first_s < predicted.whole_s;
}

}  // namespace

TEST_CASE("own rows come first where heads of keys are many, and never where none comes from others") {
  CHECK(own_first(load_of(131072, 32, 32)));
  CHECK(!own_first(load_of(131072, 32, 1)));  // little travels
  CHECK(!own_first(load_of(1024, 32, 8)));    // launches take longer than bytes
  Load alone = load_of(131072, 32, 32);
  alone.remote_bytes = 0;
  alone.flops = alone.own_flops;
  CHECK(!own_first(alone));
}

TEST_CASE("times grow with bytes and products, and no order takes less than its products") {
  Load load = load_of(32768, 32, 8);
  const Predicted before = predict(load);
  CHECK(before.whole_s > load.flops / 700e12);
  CHECK(before.own_first_s > load.flops / 700e12);
  load.remote_bytes *= 8;
  CHECK(predict(load).whole_s > before.whole_s);
  CHECK(predict(load).own_first_s > before.own_first_s);
}
