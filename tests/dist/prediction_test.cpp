// Protects when a rank begins with its own rows: where keys travel long beside what they cost to merge.
#include "dist/prediction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace tj::dist;

namespace {

/// The last of four ranks with zigzag, causal rows of D 128.
Load load_of(double rows, double heads, double kv_heads) {
  constexpr double kRanks = 4, kWidth = 128, kRank = 3;
  const double own = rows / kRanks, piece = own / 2, of_pair = 4 * kWidth * heads,
               row_bytes = kv_heads * 2 * kWidth * 2, come = kRank * piece * row_bytes;
  Load load;
  load.whole = {{(kRank + .5) * piece * piece * of_pair, come}, {(kRank + 1.5) * piece * piece * of_pair, come}};
  load.own_first = {
      {own * own / 2 * of_pair, 0}, {kRank * piece * piece * of_pair, come}, {kRank * piece * piece * of_pair, come}};
  load.tile_flops = std::min(own, 128.) * own * of_pair / heads;
  load.own_bytes = own * row_bytes;
  load.output_values = own * heads * kWidth;
  return load;
}
double flops_of(const std::vector<Step>& steps) {
  double flops = 0;
  for (const Step& step : steps) flops += step.flops;
  return flops;
}
bool own_first(const Load& load) {
  const Predicted predicted = predict(load);
  return predicted.own_first_s < predicted.whole_s;
}

}  // namespace

TEST_CASE("own rows come first where many heads of keys travel, not where few do or the products are short") {
  const Load many = load_of(131072, 32, 32);
  CHECK(flops_of(many.whole) == flops_of(many.own_first));
  CHECK(own_first(many));
  CHECK(!own_first(load_of(131072, 32, 1)));
  CHECK(!own_first(load_of(1024, 32, 8)));
}

TEST_CASE("bytes that come while something else is done cost nothing; later ones do") {
  Load load;
  load.whole = {{6e12, 0}, {6e12, 40e8}};  // 10 ms each; bytes of 10 ms
  CHECK(predict(load).whole_s < 20.1e-3);
  load.whole[0].bytes_before = 40e8;
  CHECK(predict(load).whole_s > 29.9e-3);
  CHECK(predict(load).whole_s < 30.1e-3);
  load.own_first = load.whole;
  load.own_first[0].bytes_before = 0;
  CHECK(predict(load).own_first_s < 20.1e-3);
  load.output_values = 4.2e9;  // 16 bytes each: 16 ms
  CHECK(predict(load).own_first_s > 35.9e-3);
}
