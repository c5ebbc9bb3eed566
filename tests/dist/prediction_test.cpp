// Protects when a rank begins with its own rows: where keys travel long beside what they cost to merge.
#include "dist/prediction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "arch/fact_file.hpp"

using namespace tj::dist;

namespace {

const Rates kRates = rates_of(*tj::arch::find("sm_90a"));

/// One of four ranks with zigzag, causal rows of D 128: its pieces are those of number rank and 7 - rank.
Load load_of(double rows, double heads, double kv_heads, double rank = 3) {
  constexpr double kRanks = 4, kWidth = 128;
  const double own = rows / kRanks, piece = own / 2, of_pair = 4 * kWidth * heads,
               piece_bytes = piece * kv_heads * 2 * kWidth * 2, second = 2 * kRanks - 1 - rank,
               come = rank * piece_bytes, all = (second - 1) * piece_bytes, pairs = piece * piece * of_pair;
  Load load;
  load.whole = {{(rank + .5) * pairs, come}, {(second + .5) * pairs, all}};
  load.own_first = {{own * own / 2 * of_pair, 0}, {rank * pairs, come}, {(second - 1) * pairs, all}};
  load.tile_flops = std::min(own, 128.) * own * of_pair / heads;
  load.own_bytes = 2 * piece_bytes;
  load.output_values = own * heads * kWidth;
  return load;
}
double flops_of(const std::vector<Step>& steps) {
  double flops = 0;
  for (const Step& step : steps) flops += step.flops;
  return flops;
}
/// Per cent of the products' time.
struct Exposed {
  double whole = 0, own_first = 0;
};
bool own_first(const Load& load) {
  const Predicted predicted = predict(kRates, load);
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

TEST_CASE("an arch without facts of links has a tenth of its memory's rate, and 10 us") {
  for (const char* name : {"sm_80", "sm_89", "sm_100"}) {
    const tj::arch::Arch& arch = *tj::arch::find(name);
    CAPTURE(arch.name);
    REQUIRE(!arch.has_fact("link_bytes_per_cycle"));
    const Rates rates = rates_of(arch);
    CHECK(rates.link_bytes_per_s == doctest::Approx(0.1 * rates.memory_bytes_per_s));
    CHECK(rates.link_s == doctest::Approx(10e-6));
  }
  CHECK(kRates.link_bytes_per_s == doctest::Approx(392e9).epsilon(.01));
}

TEST_CASE("a file of facts changes the choice: own rows come first where links are slow") {
  const tj::arch::Arch& shipped = *tj::arch::find("sm_90a");
  const tj::arch::FactFile& file = tj::arch::read_facts(
      R"({"tilejit_facts": 1, "arch": "sm_90a", "facts": {"link_bytes_per_cycle": 7, "link_latency_cycles": 17550}})",
      "/slow.json", "TJ_FACTS");
  const Rates slow = rates_of(tj::arch::with_facts(shipped, &file));
  CHECK(slow.memory_bytes_per_s == kRates.memory_bytes_per_s);
  const Load few = load_of(131072, 32, 1);
  const Predicted by_file = predict(slow, few);
  CHECK(!own_first(few));
  CHECK(by_file.own_first_s < by_file.whole_s);
}

TEST_CASE("shares of a rank's products that its bytes and merging add, as README.md has them") {
  const auto exposed = [](const Load& load) {
    const double products_s = flops_of(load.whole) / 600e12;
    const Predicted predicted = predict(kRates, load);
    const Exposed found{100 * (predicted.whole_s / products_s - 1), 100 * (predicted.own_first_s / products_s - 1)};
    MESSAGE("gathered ", found.whole, "%, own rows first ", found.own_first, "%");
    return found;
  };
  const Exposed few = exposed(load_of(32768, 32, 8)), first = exposed(load_of(32768, 32, 32, 0)),
                last = exposed(load_of(32768, 32, 32));
  CHECK(few.whole == doctest::Approx(3.8).epsilon(.02));
  CHECK(exposed(load_of(131072, 32, 8)).whole == doctest::Approx(0.9).epsilon(.06));
  CHECK(first.whole == doctest::Approx(22).epsilon(.02));
  CHECK(first.own_first == doctest::Approx(7).epsilon(.02));
  CHECK(last.whole == doctest::Approx(14.3).epsilon(.02));
  CHECK(last.own_first == doctest::Approx(5.3).epsilon(.02));
}

TEST_CASE("bytes that come while something else is done cost nothing; later ones do") {
  Load load;
  load.whole = {{6e12, 0}, {6e12, 39.2e8}};  // 10 ms each; bytes of 10 ms
  CHECK(predict(kRates, load).whole_s < 20.1e-3);
  load.whole[0].bytes_before = 39.2e8;
  CHECK(predict(kRates, load).whole_s > 29.9e-3);
  CHECK(predict(kRates, load).whole_s < 30.1e-3);
  load.own_first = load.whole;
  load.own_first[0].bytes_before = 0;
  CHECK(predict(kRates, load).own_first_s < 20.1e-3);
  load.output_values = 4.2e9;  // 16 bytes each: 16 ms
  CHECK(predict(kRates, load).own_first_s > 35.9e-3);
}

TEST_CASE("pieces of sums travel beside products; launches are as few as that allows") {
  constexpr double kFlops = 2. * 4096 * 8192 * 4096, kBytes = 4. * 4096 * 8192, kPlain = 2 * kFlops / 710e12;
  const Shards two{1, 4, kFlops, kBytes};
  const ScatterLaunches chosen = scatter_launches(kRates, two);
  MESSAGE("8192^3 on two: ", chosen.sent, " and ", chosen.own, " launches, ", 1e3 * scatter_s(kRates, two, chosen),
          " ms, plain ", 1e3 * kPlain);
  CHECK(chosen.sent > 1);
  CHECK(chosen.own > 1);
  const Shards rounded{1, 4, kFlops, kBytes, 1.5 * kBytes};  // to f16, by a pass
  MESSAGE("to f16 ", 1e3 * scatter_s(kRates, rounded, scatter_launches(kRates, rounded)), " ms");
  CHECK(scatter_s(kRates, rounded, chosen) > scatter_s(kRates, two, chosen) + 40e-6);
  CHECK(scatter_s(kRates, two, chosen) < 1.05 * kPlain);
  CHECK(scatter_s(kRates, two, {1, 1}) > 1.4 * kPlain);
  CHECK(scatter_launches(kRates, {1, 1, kFlops, kBytes}).sent == 1);
  const ScatterLaunches four = scatter_launches(kRates, {3, 4, kFlops / 4, kBytes / 2});
  CHECK(four.own == 1);  // sums of more than two ranks are added behind all products
}

TEST_CASE("gathered rows that have come before they are needed are one launch; later ones are more") {
  constexpr double kFlops = 2. * 4096 * 4096 * 8192, kBytes = 2. * 4096 * 8192;
  const Shards rows{1, 4, kFlops, kBytes};
  CHECK(gather_launches(kRates, rows, kFlops) == 1);
  CHECK(gather_s(kRates, rows, kFlops, 1) < 1.01 * 2 * kFlops / 710e12);
  CHECK(gather_launches(kRates, rows, kFlops / 8) > 1);
}
