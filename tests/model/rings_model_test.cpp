// Protects the model's rule for rings that a unit's notes name, in shared and in tensor memory. A thread that fills a
// slot again or reads it has waited for the slot's own barrier. Another wait that happens to tell as much does not
// count.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "model/model_unit.hpp"

namespace {

using tj::Code;
using tj::testing::contains;
using tj::testing::outcome_of;

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

// One lane of warp 4 has products put into the columns of x, then into the columns of y. Warps 0 to 3 take both, x with
// a store in its place if they are told to, and hand each back. y's barriers tell of x too.
constexpr const char* kTensorUnit = R"unit(
struct Params { int rounds; int* out; int stores; };
struct RingX { static constexpr u32 kSlots = 1, kFull = 0, kEmpty = 8, kColumn = 0, kSharers = 1, kFullArrivals = 1, kEmptyArrivals = 4; };
struct RingY { static constexpr u32 kSlots = 1, kFull = 16, kEmpty = 24, kColumn = 32, kSharers = 1, kFullArrivals = 1, kEmptyArrivals = 4; };
constexpr u32 kPlace = 32, kOperand = 1024, kOperandBytes = 16384, kColumns = 64;

static void fill(const Params& p, u32 shared, u32 tensor) {
  const u64 ones = matrix_operand(shared + kOperand, 16, 1024);
  const auto product = [&](u32 column) { matrix_multiply(tensor + column, ones, ones, matrix_instruction<128, 32, 0>(F16{}), false); };
  for (u32 i = 0; i < static_cast<u32>(p.rounds); ++i) {
    wait_empty<1, RingX>(shared, i);
    wait_empty<2, RingY>(shared, i);
    tensor_after_sync<3>();
    at_node<1>(static_cast<int>(i));
    product(RingX::kColumn);
    matrix_commit<4>(full_barrier<RingX>(shared, i));
    at_node<2>(static_cast<int>(i));
    product(RingY::kColumn);
    matrix_commit<5>(full_barrier<RingY>(shared, i));
  }
}
static void use(const Params& p, u32 shared, u32 tensor) {
  float x[32], y[32];
  for (u32 i = 0; i < static_cast<u32>(p.rounds); ++i) {
    wait_full<6, RingX>(shared, i);
    tensor_after_sync<7>();
    at_node<3>(static_cast<int>(i));
    tensor_load(tensor_lanes(tensor) + RingX::kColumn, x);
    tensor_load_wait<8>();
    if (p.stores != 0) tensor_store(tensor_lanes(tensor) + RingX::kColumn, x);
    tensor_store_wait<9>();
    tensor_before_sync<10>();
    warp_sync<11>();
    release<12, RingX>(shared, i);
    wait_full<13, RingY>(shared, i);
    tensor_after_sync<14>();
    at_node<4>(static_cast<int>(i));
    tensor_load(tensor_lanes(tensor) + RingY::kColumn, y);
    tensor_load_wait<15>();
    tensor_before_sync<16>();
    warp_sync<17>();
    release<18, RingY>(shared, i);
    p.out[thread_index()] = static_cast<int>(x[31] + y[0]);
  }
}

TJ_KERNEL(kernel, 160, Params, p) {
  const u32 shared = shared_base();
  if (warp_index() == 0) tensor_allocate(shared + kPlace, kColumns);
  if (thread_index() == 0) {
    ring_init<RingX>(shared);
    ring_init<RingY>(shared);
    mbarrier_init_done();
  }
  for (u32 i = thread_index(); i < kOperandBytes / 4; i += 160) store_shared(shared + kOperand + 4 * i, 0x3c003c00u);
  proxy_fence<19>();
  block_sync();
  const u32 tensor = load_shared<u32>(shared + kPlace);
  if (warp_index() < 4) use(p, shared, tensor);
  else if (elect_one()) fill(p, shared, tensor);
  block_sync();
  if (warp_index() == 0) tensor_free(tensor, kColumns);
}

TJ_NOTES(kernel, R"({"name": "toy", "sites": [], "waits": [],
  "roles": [{"name": "use", "first_warp": 0, "warps": 4}, {"name": "mma", "first_warp": 4, "warps": 1}],
  "rings": [{"value": "x", "slots": 1, "full": 0, "empty": 8, "column": 0, "slot_columns": 32, "producers": ["mma"], "consumers": ["use"]},
            {"value": "y", "slots": 1, "full": 16, "empty": 24, "column": 32, "slot_columns": 32, "producers": ["mma"], "consumers": ["use"]}],
  "calls": [{"id": 1, "nodes": ["fill_x"], "role": [1], "reads": [], "writes": [0]}, {"id": 2, "nodes": ["fill_y"], "role": [1], "reads": [], "writes": [1]},
            {"id": 3, "nodes": ["take_x"], "role": [0], "reads": [0], "writes": []}, {"id": 4, "nodes": ["take_y"], "role": [0], "reads": [1], "writes": []}]})")
)unit";

/// A report without its lanes: a seed draws the lane that a warp elects.
std::string without_lanes(const std::string& report) {
  static const std::regex kLane(R"(, lane \d+)");
  return std::regex_replace(report, kLane, "");
}

/// The model's report about the launch when a site does nothing, whatever the order of events; 0: none.
template <class Launch>
std::string said_of(tj::testing::ModelUnit& unit, int site, Launch&& launch) {
  std::string said;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    unit.options({seed, site == 0 ? std::vector<int>{} : std::vector<int>{site}, 1, {}});
    const tj::Error e = outcome_of(launch);
    if (e.code != Code::model_fault && e.code != Code::deadlock) return "";
    if (said.empty()) said = e.message;
    CHECK(without_lanes(e.message) == without_lanes(said));
  }
  return said;
}

std::string says(int site, int rounds = 3) {
  static tj::testing::ModelUnit unit(kUnit);
  return said_of(unit, site, [&] {
    std::vector<int> out(32, -1);
    unit.run("kernel", Params{rounds, out.data()}, 64);
    CHECK(out[5] == 1010 * (rounds - 1) + 5);
  });
}

struct TensorParams {
  int rounds;
  int* out;
  int stores;
};
std::string says_of_tensor(int site, bool stores, int rounds = 3) {
  static tj::testing::ModelUnit unit(kTensorUnit, "sm_100a");
  return said_of(unit, site, [&] {
    std::vector<int> out(128, -1);
    unit.run("kernel", TensorParams{rounds, out.data(), stores ? 1 : 0}, 160, 1024 + 16384 + 1024);
    CHECK(std::count(out.begin(), out.end(), 2 * 16) == 128);  // each sum is of 16 of K
  });
}

TEST_CASE("who waits for each slot's own barriers is right") { CHECK(says(0) == ""); }

TEST_CASE("who reads a slot has waited for its full barrier, though another tells as much") {
  const std::string said = says(5);
  CHECK_MESSAGE(contains(said,
                         "kernel toy, block 0: role use (warp 1, lane 0), node add, iteration 0 reads ring x, slot 0 "
                         "of 1 and has not waited for its full barrier 0x600, which is in phase 1"),
                said);
}

TEST_CASE("who fills a slot again has waited for its empty barrier, though another tells as much") {
  const std::string said = says(1);
  CHECK_MESSAGE(contains(said,
                         "role fill (warp 0, lane 0), node fill_x, iteration 1 fills ring x, slot 0 of 1 for the 2. "
                         "time and has not waited for its empty barrier 0x608, which is in phase 1"),
                said);
  CHECK(says(1, 1) == "");  // the first time nothing is there
}

TEST_CASE("what a slot's own barrier tells is all that was done to the slot, though another's tells as much") {
  const std::string announced = says(9), handed_back = says(11);
  CHECK_MESSAGE(contains(announced, "node fill_x, iteration 0 fills ring x, slot 0 of 1 for the 2. time"), announced);
  CHECK_MESSAGE(contains(announced,
                         "for the 2. time: either the filling before was published while it went on (fewer bytes "
                         "announced than copied), or this thread has not waited for its empty barrier"),
                announced);
  CHECK_MESSAGE(contains(handed_back,
                         "the empty barrier 0x608 of ring x, slot 0 let this thread pass, but the reader arrived there "
                         "before it was done"),
                handed_back);
  CHECK(says(12) == "");  // a second one, of which y's barrier has no need
}

/// The log of the deadlock when nobody hands back slots of x, at the first order of events that has these words in it.
std::string deadlock_of(const std::string& text, unsigned blocks, const std::string& words) {
  tj::testing::ModelUnit unit(text);
  std::string log;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    unit.options({seed, {7}, 1, {}});
    std::vector<int> out(32, -1);
    const tj::Error e = outcome_of([&] { unit.run("kernel", Params{3, out.data()}, 64, 65536, blocks, blocks); });
    if (e.code == Code::deadlock && contains(e.log, words)) return e.log;
    log = e.message;  // of a pair, one block may be reported for something else first
  }
  return log;
}

TEST_CASE("a deadlock says who waits for whom, and the way round") {
  const std::string log = deadlock_of(kUnit, 1, "cycle");
  CHECK_MESSAGE(contains(log, "role fill waits for role use: empty barrier 0x608 of ring x, slot 0"), log);
  CHECK_MESSAGE(contains(log, "role use waits for role fill: full barrier 0x600 of ring x, slot 0"), log);
  CHECK_MESSAGE(contains(log, "  cycle: fill -> use -> fill\n"), log);
}

TEST_CASE("in a pair of blocks it says of which block, and whose arrivals the barriers of both count") {
  // A pair whose first block's thread asks the matrix units of both: it alone hands back, and both fill.
  std::string text = kUnit;
  const std::string ring = R"({"value": "x", )", site = R"("sites": [])";
  text.replace(text.find(ring), ring.size(), R"({"value": "x", "of_pair": "full", )");
  text.replace(
      text.find(site), site.size(),
      R"("sites": [{"id": 7, "kind": "arrive", "text": "role use: release ring x", "role": [1], "ring": 0}, {"id": 3, "kind": "arrive", "text": "role fill: publish ring x", "role": [0], "ring": 0}])");
  const std::string log = deadlock_of(text, 2, "role fill waits for role use of block 0");
  const std::size_t second = log.find("who waits for whom in block 1");
  REQUIRE_MESSAGE(second != std::string::npos, log);
  const std::string of_first = log.substr(0, second), of_second = log.substr(second);
  CHECK_MESSAGE(contains(of_first, "role fill waits for role use: empty barrier 0x608"), log);
  CHECK_MESSAGE(contains(of_second, "role fill waits for role use of block 0: empty barrier 0x608"), log);
  for (const std::string& each : {of_first, of_second}) {
    CHECK_MESSAGE(contains(each, "role use waits for role fill of both blocks of the pair: full barrier 0x600"), log);
    CHECK_MESSAGE(contains(each, "arrives by site 7: role use: release ring x, switched off"), log);
    CHECK_MESSAGE(contains(each, "arrives by site 3: role fill: publish ring x, executed 1 times by all threads"), log);
    CHECK_MESSAGE(!contains(each, "cycle: "), log);
  }
}

TEST_CASE("in tensor memory who waits for each slot's own barriers is right") {
  for (const bool stores : {false, true}) CHECK(says_of_tensor(0, stores) == "");
}

TEST_CASE("in tensor memory too the own barrier is the one to wait for, though another tells as much") {
  const std::string said = says_of_tensor(1, false);  // no report is made while another one is logged
  CHECK_MESSAGE(contains(said,
                         "node fill_x, iteration 1 fills ring x, slot 0 of 1 in tensor memory, and has not waited for "
                         "its empty barrier 0x408"),
                said);
  CHECK(says_of_tensor(1, false, 1) == "");
}

TEST_CASE("a slot's own barrier tells of all loads and stores of its columns, though another's tells as much") {
  for (const bool stores : {false, true}) {
    CAPTURE(stores);
    const std::string untold = says_of_tensor(10, stores);
    CHECK_MESSAGE(contains(untold, "node fill_x, iteration 1 issues a product whose sums are lanes 0-127, columns "),
                  untold);
    CHECK_MESSAGE(contains(untold, stores ? "node take_x, iteration 0 has stored lanes "
                                          : "node take_x, iteration 0 has loaded lanes "),
                  untold);
    CHECK_MESSAGE(contains(untold, stores ? "a tensor_before_sync is missing after the tensor_store_wait there"
                                          : "a tensor_before_sync is missing after the tensor_load_wait there"),
                  untold);
    CHECK(says_of_tensor(10, stores, 1) == "");  // nobody fills it again
  }
  const std::string second = says_of_tensor(16, false);
  CHECK_MESSAGE(contains(second, "node fill_y, iteration 1 issues a product whose sums are"), second);
}

}  // namespace
