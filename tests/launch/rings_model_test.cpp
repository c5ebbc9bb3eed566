// Protects what the model asks of rings that a unit's notes name: who fills a slot again and who reads one have waited for the slot's own
// barrier, also where another wait happens to tell as much.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "launch/model_unit.hpp"

namespace {

using tj::Code;
using tj::testing::contains;
using tj::testing::error_of;

struct Params {
  int rounds;
  int* out;
};

// Warp 0 fills x, then y; warp 1 waits for both, reads both and hands both back. y's barriers tell of x too.
constexpr const char* kUnit = R"unit(
struct Params { int rounds; int* out; };
struct RingX { static constexpr u32 kSlots = 1, kSlotBytes = 256, kData = 0, kFull = 512, kEmpty = 520, kSharers = 1, kFullArrivals = 1, kEmptyArrivals = 1; };
struct RingY { static constexpr u32 kSlots = 1, kSlotBytes = 256, kData = 256, kFull = 528, kEmpty = 536, kSharers = 1, kFullArrivals = 1, kEmptyArrivals = 1; };

static void fill(const Params& p, u32 shared) {
  for (u32 i = 0; i < static_cast<u32>(p.rounds); ++i) {
    wait_empty<1, RingX>(shared, i);
    wait_empty<2, RingY>(shared, i);
    at_node<1>(static_cast<int>(i));
    store_shared(slot_address<RingX>(shared, i) + 4 * lane_index(), 10 * i + lane_index());
    warp_sync<9>();
    publish<3, RingX>(shared, i);
    at_node<2>(static_cast<int>(i));
    store_shared(slot_address<RingY>(shared, i) + 4 * lane_index(), 1000u * i);
    warp_sync<10>();
    publish<4, RingY>(shared, i);
  }
}
static void use(const Params& p, u32 shared) {
  for (u32 i = 0; i < static_cast<u32>(p.rounds); ++i) {
    wait_full<5, RingX>(shared, i);
    wait_full<6, RingY>(shared, i);
    at_node<3>(static_cast<int>(i));
    const u32 x = load_shared<u32>(slot_address<RingX>(shared, i) + 4 * lane_index()), y = load_shared<u32>(slot_address<RingY>(shared, i) + 4 * lane_index());
    p.out[lane_index()] = static_cast<int>(x + y);
    warp_sync<11>();
    release<7, RingX>(shared, i);
    warp_sync<12>();
    release<8, RingY>(shared, i);
  }
}

TJ_KERNEL(kernel, 64, Params, p) {
  const u32 shared = shared_base();
  const u32 warp = warp_index();
  if (thread_index() == 0) {
    ring_init<RingX>(shared);
    ring_init<RingY>(shared);
  }
  block_sync();
  if (warp == 0) fill(p, shared);
  else use(p, shared);
}

TJ_NOTES(kernel, R"({"name": "toy", "sites": [], "waits": [],
  "roles": [{"name": "fill", "first_warp": 0, "warps": 1}, {"name": "use", "first_warp": 1, "warps": 1}],
  "rings": [{"value": "x", "slots": 1, "slot_bytes": 256, "data": 0, "full": 512, "empty": 520, "producers": ["fill"], "consumers": ["use"]},
            {"value": "y", "slots": 1, "slot_bytes": 256, "data": 256, "full": 528, "empty": 536, "producers": ["fill"], "consumers": ["use"]}],
  "calls": [{"id": 1, "nodes": ["fill_x"], "role": [0], "reads": [], "writes": [0]}, {"id": 2, "nodes": ["fill_y"], "role": [0], "reads": [], "writes": [1]},
            {"id": 3, "nodes": ["add"], "role": [1], "reads": [0, 1], "writes": []}]})")
)unit";

/// What the model says when a site does nothing; 0: none.
std::string says(int site, int rounds = 3) {
  static tj::testing::ModelUnit unit(kUnit);
  std::string said;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    unit.options({seed, site == 0 ? std::vector<int>{} : std::vector<int>{site}, 1, {}});
    std::vector<int> out(32, -1);
    const tj::Error e = error_of([&] { unit.run("kernel", Params{rounds, out.data()}, 64); });
    if (e.code != Code::model_fault && e.code != Code::deadlock) {
      CHECK(out[5] == 1010 * (rounds - 1) + 5);
      return "";
    }
    if (said.empty()) said = e.message;
    CHECK(e.message == said);  // whatever the order of events
  }
  return said;
}

TEST_CASE("who waits for each slot's own barriers is right") { CHECK(says(0) == ""); }

TEST_CASE("who reads a slot has waited for its full barrier, though another tells as much") {
  CHECK_MESSAGE(contains(says(5), "kernel toy, block 0: role use (warp 1, lane 0), node add, iteration 0 reads ring x, slot 0 of 1 and has not waited for its full barrier 0x600, which is in phase 1"), says(5));
}

TEST_CASE("who fills a slot again has waited for its empty barrier, though another tells as much") {
  CHECK_MESSAGE(contains(says(1), "role fill (warp 0, lane 0), node fill_x, iteration 1 fills ring x, slot 0 of 1 for the 2. time and has not waited for its empty barrier 0x608, which is in phase 1"), says(1));
  CHECK(says(1, 1) == "");  // the first time nothing is there
}

TEST_CASE("what a slot's own barrier tells is all that was done to the slot, though another's tells as much") {
  const std::string announced = says(9), handed_back = says(11);
  CHECK_MESSAGE(contains(announced, "node fill_x, iteration 0 fills ring x, slot 0 of 1 for the 2. time"), announced);
  CHECK_MESSAGE(contains(announced, "or the filling before was published while it went on"), announced);
  CHECK_MESSAGE(contains(handed_back, "the empty barrier 0x608 of ring x, slot 0 let this thread pass, but the reader arrived there before it was done"), handed_back);
  CHECK(says(12) == "");  // a second one, of which y's barrier has no need
}

}  // namespace
