// Protects the order that the model's scheduler draws from a seed: a unit's works end in it, and the seed repeats it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/scheduler.hpp"

namespace {

namespace model = tj::model;

constexpr std::size_t kReady = 4;

/// Always has work, and notes which of it ends.
struct Busy : model::AsyncUnit {
  std::vector<std::size_t> ended;
  std::size_t ready() const override { return kReady; }
  void complete(std::size_t which) override { ended.push_back(which); }
};

model::Scheduler* running = nullptr;
void ends_at_once(void* thread) { running->end(*static_cast<model::Thread*>(thread)); }

std::vector<std::size_t> order_of(std::uint64_t seed) {
  model::StackPool pool;
  model::Scheduler scheduler(pool, 1);
  running = &scheduler;
  scheduler.start(seed, &ends_at_once);
  Busy unit;
  for (int i = 0; i < 2000 && unit.ended.size() < 12; ++i) scheduler.step({&unit}, [](model::Thread&) {});
  REQUIRE(unit.ended.size() == 12);
  return unit.ended;
}

}  // namespace

TEST_CASE("a unit's works end oldest first, newest first or in any order, a seed like another") {
  constexpr int kSeeds = 90;
  int oldest = 0, newest = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<std::size_t> order = order_of(seed);
    CHECK(order == order_of(seed));
    oldest += std::count(order.begin(), order.end(), 0) == 12;
    newest += std::count(order.begin(), order.end(), kReady - 1) == 12;
  }
  // Each has a third of them: fewer than fifteen is not chance.
  CHECK(oldest >= kSeeds / 6);
  CHECK(newest >= kSeeds / 6);
  CHECK(kSeeds - oldest - newest >= kSeeds / 6);
}
