// Protects the model's copy engine: where each element of a box lands, what lies outside, when bytes count.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "model/copy.hpp"
#include "model/model_unit.hpp"

namespace {

using namespace tj::model;
using tj::testing::contains;
using tj::testing::outcome_of;

constexpr std::size_t kSmemBytes = 65536;
constexpr std::uint32_t kBarrier = SharedMemory::kBase + 60000 / 8 * 8;

/// Units of a block without its threads: nothing here waits.
struct Bench {
  StackPool stacks;
  SharedMemory shared;
  Scheduler scheduler{stacks, 32};
  Order order{32};
  Notes notes;
  Monitor monitor{order, notes, 32, 32};
  Mbarriers barriers{scheduler, shared, monitor};
  CopyEngine copies{shared, monitor};
  Bench() {
    shared.reset(kSmemBytes);
    monitor.reset(kSmemBytes, 0);
    barriers.init(thread(), kBarrier, 1);
    barriers.init_done(thread());
  }
  Thread& thread() { return scheduler.thread(0); }
};

/// [D3][D2][D1][D0] of 16-bit counters with gaps between rows.
struct Source {
  std::array<std::uint64_t, 4> dims;
  std::array<std::uint64_t, 4> strides;  ///< elements
  std::vector<std::uint16_t> data;
  alignas(64) std::byte map[tj::support::kTensorMapBytes];

  Source(std::array<std::uint64_t, 4> sizes, std::array<std::uint32_t, 4> box, int swizzle) : dims(sizes) {
    strides = {1, (sizes[0] + 15) / 8 * 8, 0, 0};
    strides[2] = strides[1] * (sizes[1] + 1);
    strides[3] = strides[2] * sizes[2];
    data.resize(strides[3] * sizes[3]);
    std::iota(data.begin(), data.end(), std::uint16_t{1});
    tj::support::TensorMapDesc desc;
    desc.base = data.data();
    desc.rank = 4;
    desc.swizzle_bytes = swizzle;
    for (std::size_t d = 0; d < 4; ++d) {
      desc.dims[d] = sizes[d];
      desc.stride_bytes[d] = strides[d] * 2;
      desc.box[d] = box[d];
    }
    encode(desc, map);
  }
  std::uint16_t at(std::array<int, 4> i) const {
    std::uint64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d) {
      if (i[d] < 0 || static_cast<std::uint64_t>(i[d]) >= dims[d]) return 0;
      offset += static_cast<std::uint64_t>(i[d]) * strides[d];
    }
    return data[offset];
  }
};

/// The place of an element of a box as the manual draws it. The 16-byte chunk c of row r of a pattern goes to chunk c ^
/// r.
std::uint32_t place(std::uint32_t destination, std::uint32_t offset, std::uint32_t swizzle) {
  const std::uint32_t address = destination + offset;
  if (swizzle == 0) return address;
  const std::uint32_t chunks = swizzle / 16, line = address / 128, chunk = address / 16;
  return (chunk / chunks * chunks + (chunk % chunks ^ line % chunks)) * 16 + address % 16;
}

void check_box(int swizzle, std::array<std::uint64_t, 4> dims, std::array<std::uint32_t, 4> box,
               std::array<int, 4> origin, std::uint32_t destination) {
  Bench bench;
  Source source(dims, box, swizzle);
  bench.copies.issue(bench.thread(), destination, source.map, kBarrier, origin.data(), 4, bench.barriers);
  const std::uint32_t bytes = 2 * box[0] * box[1] * box[2] * box[3];
  const auto* before = bench.shared.at(destination, bytes, "test");
  for (std::uint32_t i = 0; i < bytes; ++i) REQUIRE(before[i] == std::byte{0xff});  // nothing before completion
  bench.barriers.expect(bench.thread(), kBarrier, bytes);
  CHECK(bench.barriers.find(kBarrier)->phase == 0);
  REQUIRE(bench.copies.ready() == 1);
  bench.copies.complete(0);
  CHECK(bench.barriers.find(kBarrier)->phase == 1);
  int wrong = 0;
  std::uint32_t offset = 0;
  for (int i3 = 0; i3 < static_cast<int>(box[3]); ++i3)
    for (int i2 = 0; i2 < static_cast<int>(box[2]); ++i2)
      for (int i1 = 0; i1 < static_cast<int>(box[1]); ++i1)
        for (int i0 = 0; i0 < static_cast<int>(box[0]); ++i0, offset += 2) {
          std::uint16_t found;
          std::memcpy(&found,
                      bench.shared.at(place(destination, offset, static_cast<std::uint32_t>(swizzle)), 2, "test"), 2);
          wrong += found != source.at({origin[0] + i0, origin[1] + i1, origin[2] + i2, origin[3] + i3});
        }
  CHECK(wrong == 0);
  CHECK(*bench.shared.at(destination + bytes, 1, "test") == std::byte{0xff});  // nothing behind it
}

TEST_CASE("boxes land where the swizzle says, zeros outside the tensor on every side") {
  const std::uint32_t base = SharedMemory::kBase;
  for (std::uint32_t to : {base, base + 1024, base + 128 * 5}) {
    CAPTURE(to);
    check_box(128, {128, 100, 3, 2}, {64, 40, 1, 1}, {64, 7, 2, 1}, to);
    check_box(128, {72, 20, 1, 1}, {64, 32, 1, 1}, {64, 5, 0, 0}, to);  // right and lower edge
    check_box(128, {72, 20, 2, 1}, {64, 8, 1, 1}, {-8, -5, 1, 0}, to);  // left and upper edge
    check_box(128, {64, 20, 2, 1}, {64, 8, 2, 1}, {0, 4, 1, 0}, to);    // a whole head outside
    check_box(128, {64, 20, 2, 1}, {64, 8, 1, 1}, {0, 0, -1, 0}, to);
    check_box(128, {64, 20, 2, 1}, {64, 8, 1, 1}, {1000000, 0, 0, 5}, to);
    check_box(64, {128, 30, 2, 2}, {32, 10, 2, 2}, {16, 2, 0, 0}, to);
    check_box(32, {128, 30, 2, 2}, {16, 10, 2, 2}, {24, 2, 0, 0}, to);
    check_box(0, {128, 30, 2, 2}, {24, 10, 2, 2}, {120, 25, 1, 1}, to);
  }
}

TEST_CASE("a phase waits for its bytes, before or after their announcement") {
  Bench bench;
  Source source({64, 64, 1, 1}, {64, 8, 1, 1}, 128);
  const int origin[4] = {0, 0, 0, 0};
  for (std::uint32_t i = 0; i < 3; ++i)
    bench.copies.issue(bench.thread(), SharedMemory::kBase + i * 1024, source.map, kBarrier, origin, 4, bench.barriers);
  bench.copies.complete(2);  // ahead of the announcement
  CHECK(bench.barriers.find(kBarrier)->bytes == -1024);
  CHECK(bench.barriers.find(kBarrier)->phase == 0);
  bench.barriers.expect(bench.thread(), kBarrier, 3 * 1024);
  bench.copies.complete(0);
  CHECK(bench.barriers.find(kBarrier)->phase == 0);
  CHECK(bench.barriers.find(kBarrier)->bytes == 1024);
  bench.copies.complete(0);
  CHECK(bench.barriers.find(kBarrier)->phase == 1);
  CHECK(bench.copies.ready() == 0);
}

TEST_CASE("a block that ends has waited for its copies: that they are done by then is chance") {
  Bench bench;
  Source source({64, 64, 1, 1}, {64, 8, 1, 1}, 128);
  const int origin[4] = {0, 0, 0, 0};
  for (int phase = 0; phase < 2; ++phase) {
    bench.copies.issue(bench.thread(), SharedMemory::kBase, source.map, kBarrier, origin, 4, bench.barriers);
    bench.barriers.expect(bench.thread(), kBarrier, 1024);
    bench.copies.complete(0);
    CHECK(contains(outcome_of([&] { bench.barriers.check_left(); }).message,
                   tj::support::cat("nobody has waited for phase ", phase, " of the mbarrier at ")));
    bench.barriers.wait(bench.thread(), 0, kBarrier, static_cast<std::uint32_t>(phase), true);
    CHECK(outcome_of([&] { bench.barriers.check_left(); }).message == "nothing was thrown");
  }
  bench.barriers.arrive(bench.thread(), kBarrier);  // of threads alone: there is nothing to be done
  CHECK(outcome_of([&] { bench.barriers.check_left(); }).message == "nothing was thrown");
}

TEST_CASE("bad copies are faults with names") {
  Bench bench;
  Source source({64, 64, 1, 1}, {64, 8, 1, 1}, 128);
  const int origin[4] = {0, 0, 0, 0};
  const auto message = [&](std::uint32_t to, const void* map, std::uint32_t barrier, int rank) {
    const tj::Error e =
        outcome_of([&] { bench.copies.issue(bench.thread(), to, map, barrier, origin, rank, bench.barriers); });
    CHECK(e.code == tj::Code::model_fault);
    return e.message;
  };
  alignas(64) const std::byte empty[tj::support::kTensorMapBytes] = {};
  CHECK(contains(message(SharedMemory::kBase + 64, source.map, kBarrier, 4), "multiple of 128"));
  CHECK(contains(message(SharedMemory::kBase + kSmemBytes - 512, source.map, kBarrier, 4), "out of bounds"));
  CHECK(contains(message(0, source.map, kBarrier, 4), "out of bounds"));
  CHECK(contains(message(SharedMemory::kBase, source.map, kBarrier + 8, 4), "no mbarrier was initialised"));
  CHECK(contains(message(SharedMemory::kBase, empty, kBarrier, 4), "was not encoded"));
  const int between[4] = {4, 0, 0, 0};
  CHECK(contains(outcome_of([&] {
                   bench.copies.issue(bench.thread(), SharedMemory::kBase, source.map, kBarrier, between, 4,
                                      bench.barriers);
                 }).message,
                 "first coordinate is 4, 8 bytes"));
  CHECK(contains(message(SharedMemory::kBase, source.map, kBarrier, 3), "rank 4, the instruction 3"));
}

TEST_CASE("a map that is moved is the one that its new address would give") {
  const auto driver = tj::model::open_model();
  alignas(64) std::byte moved[tj::support::kTensorMapBytes], wanted[tj::support::kTensorMapBytes];
  alignas(64) std::uint16_t here[64 * 8], there[64 * 8];
  tj::support::TensorMapDesc desc;
  desc.base = here;
  desc.rank = 2;
  desc.dims = {64, 8};
  desc.stride_bytes = {2, 128};
  desc.box = {64, 8};
  driver->encode_tensor_map(0, desc, moved);
  desc.base = there;
  driver->encode_tensor_map(0, desc, wanted);
  CHECK(std::memcmp(moved, wanted, sizeof(moved)) != 0);
  const tj::launch::MovedTensorMap map{moved, there};
  driver->move_tensor_maps(0, {&map, 1});
  CHECK(std::memcmp(moved, wanted, sizeof(moved)) == 0);
}

TEST_CASE("the driver refuses maps that the hardware would refuse") {
  const auto driver = tj::model::open_model();
  alignas(64) std::byte out[tj::support::kTensorMapBytes];
  alignas(64) std::uint16_t data[64 * 8];
  tj::support::TensorMapDesc desc;
  desc.base = data;
  desc.rank = 2;
  desc.dims = {64, 8};
  desc.stride_bytes = {2, 128};
  desc.box = {64, 8};
  driver->encode_tensor_map(0, desc, out);
  desc.box[0] = 128;  // 256 bytes a row in a pattern of 128
  CHECK(outcome_of([&] { driver->encode_tensor_map(0, desc, out); }).code == tj::Code::invalid_argument);
  desc.box[0] = 64;
  desc.stride_bytes[1] = 130;
  CHECK(outcome_of([&] { driver->encode_tensor_map(0, desc, out); }).code == tj::Code::invalid_argument);
}

}  // namespace
