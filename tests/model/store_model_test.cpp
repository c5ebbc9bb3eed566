// Protects the model's bulk stores: that a wait or a fence forgotten shows. model.bulk_copies_model protects what
// reaches a tensor.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/copy.hpp"
#include "model/model_unit.hpp"
#include "model/primitive_texts.hpp"

namespace {

using tj::testing::contains;
using tj::testing::outcome_of;

constexpr const char* kUnit = R"(
struct alignas(64) Params { tj::TensorMap map; int which; int column, row; };
// One lane stores a box that the warp has filled.
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base(), lane = lane_index();
  fill_box(base, p.which != 3);
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
    tj::model::encode(desc, params.map);
    params.which = which;
    params.column = column;
    params.row = row;
  }
};

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(std::string(tj::testing::filled_box_text()) + kUnit);
  return made;
}

TEST_CASE("a slot that is filled again without a wait is reported, whatever the order of events") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Target careful(0, 0, 0), careless(1, 0, 0);
    unit().options({seed, {}, 1, {}});
    unit().run("kernel", careful.params, 32, 4096);
    const std::string message = outcome_of([&] { unit().run("kernel", careless.params, 32, 4096); }).message;
    CHECK_MESSAGE(contains(message, "which warp 0, lane "), message);  // the seed's own
    CHECK_MESSAGE(contains(message, " had read by a bulk store; nothing orders the two"), message);
  }
  unit().options({});
}

TEST_CASE("what ordinary stores wrote is stored after a proxy fence only, and only what was written") {
  Target target(0, 0, 0), parts(3, 0, 0);
  unit().options({1, {1}, 1, {}});
  const std::string message = outcome_of([&] { unit().run("kernel", target.params, 32, 4096); }).message;
  CHECK_MESSAGE(contains(message, "a proxy_fence is missing"), message);
  unit().options({});
  const std::string unwritten = outcome_of([&] { unit().run("kernel", parts.params, 32, 4096); }).message;
  CHECK_MESSAGE(
      contains(unwritten, "has read by a bulk store 96 bytes at shared address 0x420, which nobody has written"),
      unwritten);
}

TEST_CASE("a store to a place below 0 is refused, as by an H200") {
  unit().options({});
  for (const auto& [column, row] : {std::pair{-8, 0}, {0, -2}, {-64, 0}}) {
    Target target(0, column, row);
    const std::string message = outcome_of([&] { unit().run("kernel", target.params, 32, 4096); }).message;
    CHECK_MESSAGE(contains(message, "stores take none below 0"), message);
  }
}

TEST_CASE("stores under way at the end of a block are a fault") {
  int faults = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Target target(2, 0, 0);
    unit().options({seed, {3}, 1, {}});
    faults += contains(outcome_of([&] { unit().run("kernel", target.params, 32, 4096); }).message,
                       "groups of its bulk stores may have still to read the block's shared memory");
  }
  unit().options({});
  CHECK(faults == 20);
}

}  // namespace
