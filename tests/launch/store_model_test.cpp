// Protects the model's bulk stores: that a wait or a fence forgotten shows. What reaches a tensor: launch.bulk_copies_model.
#include <doctest/doctest.h>

#include <vector>

#include "launch/model_copy.hpp"
#include "launch/model_unit.hpp"

namespace {

using tj::testing::contains;
using tj::testing::error_of;

constexpr const char* kUnit = R"(
struct alignas(64) Params { tj::TensorMap map; int which; int column, row; };
// A warp fills 16 rows of 16 columns with row * 100 + column, by matrices as a product leaves them, the rest of its box with 7, and one
// lane stores it.
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base(), lane = lane_index();
  const u32 sevens[4] = {0x70007u, 0x70007u, 0x70007u, 0x70007u};
  if (p.which != 3)
    for (u32 at = lane * 16; at < 2048; at += 512) store_shared(base + at, sevens);
  warp_sync();
  u32 words[4];
  for (u32 m = 0; m < 4; ++m) {
    const u32 row = m % 2 * 8 + lane / 4, column = m / 2 * 8 + lane % 4 * 2;
    words[m] = (row * 100 + column) | (row * 100 + column + 1) << 16;
  }
  const u32 row = lane % 16, chunk = lane / 16;
  store_matrices(base + row * 128 + (chunk ^ row % 8) * 16, words);
  proxy_fence<1>();
  warp_sync();
  if (elect_one()) {
    store_box_4d(&p.map, base, p.column, p.row, 0, 0);
    store_commit<2>();
    if (p.which != 1) store_wait<3, 0>();
  }
  warp_sync();
  if (p.which == 2) return;
  const u32 none[4] = {};
  store_shared(base + lane * 64, none);  // the slot is filled again
}
)";

struct alignas(64) Params {
  alignas(64) std::byte map[tj::support::kTensorMapBytes];
  int which, column, row;
};

struct Target {
  static constexpr std::uint64_t kColumns = 21, kRows = 12, kPitch = 32;
  std::vector<std::uint16_t> data = std::vector<std::uint16_t>(kPitch * 40, 7);
  Params params{};
  explicit Target(int which, int column, int row) {
    tj::support::TensorMapDesc desc;
    desc.base = data.data() + 8 * kPitch;
    desc.rank = 4;
    desc.dims = {kColumns, kRows, 1, 1, 0};
    desc.stride_bytes = {2, kPitch * 2, 16, 16, 0};
    desc.box = {64, 16, 1, 1, 0};
    tj::launch::model::encode(desc, params.map);
    params.which = which;
    params.column = column;
    params.row = row;
  }
  int wrong() const {
    int count = 0;
    for (int r = -8; r < 32; ++r)
      for (int c = 0; c < static_cast<int>(kPitch); ++c) {
        const bool inside = r >= 0 && r < static_cast<int>(kRows) && c < (static_cast<int>(kColumns) + 7) / 8 * 8;  // whole 16 bytes
        const int row = r - params.row, column = c - params.column;
        const bool stored = inside && row >= 0 && row < 16 && column >= 0 && column < 16;
        count += data[static_cast<std::size_t>((r + 8) * static_cast<int>(kPitch) + c)] != (stored ? row * 100 + column : 7);
      }
    return count;
  }
};

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit);
  return made;
}

TEST_CASE("a slot that is filled again without a wait is reported, whatever the order of events") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Target careful(0, 0, 0), careless(1, 0, 0);
    unit().options({seed, {}, 1, {}});
    unit().run("kernel", careful.params, 32, 4096);
    CHECK(careful.wrong() == 0);
    const std::string message = error_of([&] { unit().run("kernel", careless.params, 32, 4096); }).message;
    CHECK_MESSAGE(contains(message, "which warp 0, lane 0 had read by a bulk store; nothing orders the two"), message);
  }
  unit().options({});
}

TEST_CASE("what ordinary stores wrote is stored after a proxy fence only, and only what was written") {
  Target target(0, 0, 0), parts(3, 0, 0);
  unit().options({1, {1}, 1, {}});
  const std::string message = error_of([&] { unit().run("kernel", target.params, 32, 4096); }).message;
  CHECK_MESSAGE(contains(message, "a proxy_fence is missing"), message);
  unit().options({});
  const std::string unwritten = error_of([&] { unit().run("kernel", parts.params, 32, 4096); }).message;
  CHECK_MESSAGE(contains(unwritten, "has read by a bulk store 96 bytes at shared address 0x420, which nobody has written"), unwritten);
}

TEST_CASE("a store to a place below 0 is refused, as by an H200") {
  unit().options({});
  for (const auto& [column, row] : {std::pair{-8, 0}, {0, -2}, {-64, 0}}) {
    Target target(0, column, row);
    const std::string message = error_of([&] { unit().run("kernel", target.params, 32, 4096); }).message;
    CHECK_MESSAGE(contains(message, "stores take none below 0"), message);
  }
}

TEST_CASE("stores under way at the end of a block are a fault") {
  int faults = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Target target(2, 0, 0);
    unit().options({seed, {3}, 1, {}});
    faults += contains(error_of([&] { unit().run("kernel", target.params, 32, 4096); }).message, "groups of its bulk stores may have still to read the block's shared memory");
  }
  unit().options({});
  CHECK(faults == 20);
}

}  // namespace
