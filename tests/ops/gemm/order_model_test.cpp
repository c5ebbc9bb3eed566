// Protects the order of tiles: each cluster of a wave gets a place of that wave, no two the same, and those of one
// group of multiprocessors get neighbours.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/gemm/params.cuh"
#include "tests/model/primitive_unit.hpp"

using namespace tj;

namespace {

constexpr const char* kUnit = R"(
#include "ops/gemm/tile.cuh"
struct Params { tj::ops::gemm::Params of; int* places; int count; };
TJ_KERNEL(kernel, 128, Params, p) {
  for (int i = static_cast<int>(thread_index()); i < p.count; i += 128)
    p.places[i] = tj::ops::gemm::dealt_place(p.of, i);
}
)";
struct Params {
  ops::gemm::Params of;
  int* places;
  int count;
};

std::vector<int> places_of(testing::PrimitiveUnit& unit, int tiles, int wave, int groups) {
  Params params{};
  params.of.tiles = tiles;
  params.of.wave = wave;
  params.of.dealt_over = groups;
  params.of.by_wave = divisor_of(wave);
  params.of.by_dealt = divisor_of(groups);
  params.places = unit.upload(std::vector<int>(static_cast<std::size_t>(tiles)));
  params.count = tiles;
  unit.run(params, 128);
  return unit.download(params.places, static_cast<std::size_t>(tiles));
}

}  // namespace

TEST_CASE("each cluster has a place of its own in its wave, whole or not") {
  auto unit = testing::PrimitiveUnit::on_model(kUnit, "sm_90a");
  for (const int groups : {1, 7, 8})
    for (const int wave : {1, 8, 30, 33, 66})
      for (const int tiles : {1, 5, 30, 66, 67, 140, 200}) {
        CAPTURE(groups);
        CAPTURE(wave);
        CAPTURE(tiles);
        const std::vector<int> places = places_of(unit, tiles, wave, groups);
        for (int first = 0; first < tiles; first += wave) {
          std::vector<int> of_wave(places.begin() + first, places.begin() + std::min(tiles, first + wave));
          std::sort(of_wave.begin(), of_wave.end());
          for (std::size_t i = 0; i < of_wave.size(); ++i) CHECK(of_wave[i] == first + static_cast<int>(i));
        }
      }
}

TEST_CASE("clusters that go to one group have neighbouring places") {
  auto unit = testing::PrimitiveUnit::on_model(kUnit, "sm_90a");
  const std::vector<int> places = places_of(unit, 132, 66, 8);
  for (std::size_t i = 0; i + 8 < 66; ++i) CHECK(places[i + 8] == places[i] + 1);
  CHECK(places[0] == 0);
  CHECK(places[1] == 9);  // the first two of eight groups have nine of 66
  CHECK(places[2] == 18);
  CHECK(places[3] == 26);
  CHECK(places[66] == 66);
}
