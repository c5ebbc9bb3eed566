// Protects the search for addresses in a launch's parameters: every difference between two plans of a launch that is no
// tensor's distance is an error, and none is taken for an address.
#include "relocation.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>

#include "support/expect.hpp"

using namespace tj;

namespace {

constexpr std::size_t kPointer = 8, kMap = 128, kTensors = 2;

void put(ops::LaunchPlan& plan, std::size_t offset, std::uint64_t word) {
  std::memcpy(plan.params.data() + offset, &word, sizeof word);
}

/// A launch with an address inside tensor 1 and a map of tensor 0.
ops::LaunchPlan planned(const Places& places) {
  ops::LaunchPlan plan;
  plan.params_bytes = 256;
  plan.blocks = 7;
  put(plan, 0, 42);
  put(plan, kPointer, places[1] + 48);
  plan.maps[0].offset = kMap;
  plan.maps[0].desc.base = reinterpret_cast<void*>(places[0]);
  plan.maps[0].desc.rank = 4;
  plan.map_count = 1;
  return plan;
}

Places some_places() {
  Places places{};
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = 0x10000000 * (i + 1);
  return places;
}

}  // namespace

TEST_CASE("an address is found with its tensor and its bytes from the tensor's first") {
  const Places places = some_places();
  const Relocations found = relocations("op", planned(places), planned(moved(places)), places, kTensors);
  REQUIRE(found.pointers.size() == 1);
  CHECK(found.pointers[0].offset == kPointer);
  CHECK(found.pointers[0].tensor == 1);
  CHECK(found.pointers[0].bytes == 48);
  REQUIRE(found.maps.size() == 1);
  CHECK(found.maps[0].offset == kMap);
  CHECK(found.maps[0].tensor == 0);
  CHECK(found.maps[0].bytes == 0);
}

TEST_CASE("launches that differ by more than addresses have no plan, whichever part of them differs") {
  const Places places = some_places();
  const ops::LaunchPlan first = planned(places);
  const std::function<void(ops::LaunchPlan&)> changes[] = {
      [](ops::LaunchPlan& plan) { plan.params_bytes += 8; },
      [](ops::LaunchPlan& plan) { plan.map_count = 0; },
      [](ops::LaunchPlan& plan) { ++plan.blocks; },
      [](ops::LaunchPlan& plan) { plan.maps[0].offset += 64; },
      [](ops::LaunchPlan& plan) { plan.maps[0].desc.rank = 3; },
      [](ops::LaunchPlan& plan) { put(plan, 0, 43); },
  };
  for (const auto& change : changes) {
    CAPTURE(&change - changes);
    ops::LaunchPlan second = planned(moved(places));
    change(second);
    const std::string text = testing::error_of([&] { relocations("op", first, second, places, kTensors); }).message;
    CHECK_MESSAGE(text.starts_with("a launch of op has no plan: byte "), text);
    ops::LaunchPlan near = first;
    change(near);
    CHECK_FALSE(same_but_for(1, 0, first, near, {}));
  }
}

TEST_CASE("a tensor may move by a few bytes where its address alone says so, and no map holds it") {
  const Places places = some_places();
  const ops::LaunchPlan first = planned(places);
  const Relocations known = relocations("op", first, planned(moved(places)), places, kTensors);
  Places near = places;
  near[1] += 2;
  CHECK(same_but_for(1, 2, first, planned(near), known));
  CHECK_FALSE(same_but_for(1, 4, first, planned(near), known));
  CHECK_FALSE(same_but_for(0, 0, first, first, known));
}
