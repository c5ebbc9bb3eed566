// Expectations of bulk copies and stores, on whatever runs the primitives. They say where each element of a box lands
// and what lies outside, what boxes the blocks of a cluster bring to each other, and what reaches a tensor. Shared by
// the tests of the model and of a device.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

// One box into shared memory full of a pattern; then all of that, as it lies.
constexpr const char* kCopy = R"(
struct alignas(64) Params { tj::TensorMap map; int destination, bytes, at[4]; u32* out; };
constexpr u32 kBarrier = 61440, kSpace = 16384;
TJ_KERNEL(kernel, 128, Params, p) {
  const u32 base = shared_base();
  for (u32 at = 4 * thread_index(); at < kSpace; at += 512) store_shared(base + at, 0xa5a5a5a5u);
  proxy_fence<1>();
  if (thread_index() == 0) {
    prefetch_map(&p.map);
    mbarrier_init(base + kBarrier, 1);
    mbarrier_init_done();
  }
  block_sync();
  if (thread_index() == 0) {
    mbarrier_expect<2>(base + kBarrier, static_cast<u32>(p.bytes));
    copy_box_4d(base + p.destination, &p.map, base + kBarrier, p.at[0], p.at[1], p.at[2], p.at[3]);
  }
  mbarrier_wait<3>(base + kBarrier, 0);
  for (u32 at = 4 * thread_index(); at < kSpace; at += 512) p.out[at / 4] = load_shared<u32>(base + at);
}
)";

// A box of 8 rows, and of the 8 behind them only their bytes: the wait ends, and the rows that came are right.
constexpr const char* kLeftOut = R"(
struct alignas(64) Params { tj::TensorMap map; int announced, left; u32* out; };
constexpr u32 kBarrier = 61440;
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base();
  if (thread_index() == 0) {
    mbarrier_init(base + kBarrier, 1);
    mbarrier_init_done();
  }
  block_sync();
  if (thread_index() == 0) {
    mbarrier_expect<1>(base + kBarrier, static_cast<u32>(p.announced));
    copy_box_4d(base, &p.map, base + kBarrier, 0, 0, 0, 0);
    copy_nothing(base + 1024, static_cast<u32>(p.left), base + kBarrier);
  }
  mbarrier_wait<2>(base + kBarrier, 0);
  for (u32 at = 4 * thread_index(); at < 1024; at += 128) p.out[at / 4] = load_shared<u32>(base + at);
}
)";

struct alignas(64) LeftOutParams {
  alignas(64) std::byte map[launch::kTensorMapBytes];
  int announced, left;
  std::uint32_t* out;
};

struct alignas(64) CopyParams {
  alignas(64) std::byte map[launch::kTensorMapBytes];
  int destination, bytes, at[4];
  std::uint32_t* out;
};

struct Box {
  DType dtype;
  int swizzle;
  std::array<std::uint64_t, 4> dims;
  std::array<std::uint32_t, 4> box;
  std::array<int, 4> origin;
};

std::uint32_t element_bytes(DType dtype) { return static_cast<std::uint32_t>(size_of(dtype)); }

/// [D3][D2][D1][D0] of bytes that differ, with gaps between rows.
struct Source {
  std::array<std::uint64_t, 4> strides;  ///< bytes
  std::vector<unsigned char> bytes;
  explicit Source(const Box& box) {
    const std::uint64_t size = element_bytes(box.dtype);
    strides = {size, (box.dims[0] * size / 16 + 2) * 16, 0, 0};
    strides[2] = strides[1] * (box.dims[1] + 1);
    strides[3] = strides[2] * (box.dims[2] + 1);
    bytes.resize(strides[3] * box.dims[3]);
    std::uint32_t state = 12345;
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);
  }
  /// The byte of an element of the box; zero outside.
  unsigned char at(const Box& box, std::array<std::uint32_t, 4> i, std::uint32_t byte) const {
    std::uint64_t offset = byte;
    for (std::size_t d = 0; d < 4; ++d) {
      const std::int64_t place = std::int64_t{box.origin[d]} + i[d];
      if (place < 0 || static_cast<std::uint64_t>(place) >= box.dims[d]) return 0;
      offset += static_cast<std::uint64_t>(place) * strides[d];
    }
    return bytes[offset];
  }
};

launch::TensorMapDesc describe(const Box& box, void* base, const std::array<std::uint64_t, 4>& strides) {
  launch::TensorMapDesc desc;
  desc.base = base;
  desc.dtype = box.dtype;
  desc.rank = 4;
  desc.swizzle_bytes = box.swizzle;
  for (std::size_t d = 0; d < 4; ++d) {
    desc.dims[d] = box.dims[d];
    desc.stride_bytes[d] = strides[d];
    desc.box[d] = box.box[d];
  }
  return desc;
}

/// 16-byte piece c of line r of 128 bytes goes to piece c ^ r of its pattern.
std::uint32_t swizzled_place(std::uint32_t place, int swizzle) {
  if (swizzle == 0) return place;
  const std::uint32_t pieces = static_cast<std::uint32_t>(swizzle) / 16, line = place / 128, piece = place / 16;
  return (piece / pieces * pieces + (piece % pieces ^ line % pieces)) * 16 + place % 16;
}

std::vector<unsigned char> expected(const Box& box, const Source& source, std::uint32_t destination,
                                    std::size_t space) {
  std::vector<unsigned char> all(space, 0xa5);
  std::uint32_t place = destination;
  const std::uint32_t row = static_cast<std::uint32_t>(element_bytes(box.dtype)) * box.box[0],
                      pattern = static_cast<std::uint32_t>(box.swizzle);
  const std::uint32_t gap = row < pattern ? pattern - row : 0;  // rows shorter than the pattern lie one apart
  std::array<std::uint32_t, 4> i{};
  for (i[3] = 0; i[3] < box.box[3]; ++i[3])
    for (i[2] = 0; i[2] < box.box[2]; ++i[2])
      for (i[1] = 0; i[1] < box.box[1]; ++i[1], place += gap)
        for (i[0] = 0; i[0] < box.box[0]; ++i[0])
          for (std::uint32_t byte = 0; byte < element_bytes(box.dtype); ++byte, ++place)
            all[swizzled_place(place, box.swizzle)] = source.at(box, i, byte);
  return all;
}

int wrong_bytes(PrimitiveUnit& unit, const Box& box, std::uint32_t destination) {
  constexpr std::size_t kSpace = 16384;
  unit.forget();
  const Source source(box);
  CopyParams params{};
  params.destination = static_cast<int>(destination);
  params.bytes = static_cast<int>(element_bytes(box.dtype) * box.box[0] * box.box[1] * box.box[2] * box.box[3]);
  for (std::size_t d = 0; d < 4; ++d) params.at[d] = box.origin[d];
  params.out = unit.upload(std::vector<std::uint32_t>(kSpace / 4));
  unit.driver().encode_tensor_map(0, describe(box, unit.upload(source.bytes), source.strides), params.map);
  unit.run(params, 128);
  const std::vector<unsigned char> wanted = expected(box, source, destination, kSpace);
  const std::vector<std::uint32_t> out = unit.download(params.out, kSpace / 4);
  std::vector<unsigned char> found(kSpace);
  std::memcpy(found.data(), out.data(), kSpace);
  int wrong = 0;
  for (std::size_t i = 0; i < kSpace; ++i) wrong += found[i] != wanted[i];
  return wrong;
}

void check_boxes_of(const MakeUnit& make, const std::vector<Box>& boxes) {
  PrimitiveUnit unit = make(kCopy);
  for (const Box& box : boxes)
    for (const std::uint32_t destination : {0u, 1024u, 640u}) {
      CAPTURE(box.swizzle);
      CAPTURE(box.box[0]);
      CAPTURE(box.origin[0]);
      CAPTURE(box.origin[1]);
      CAPTURE(box.origin[2]);
      CAPTURE(destination);
      CHECK(wrong_bytes(unit, box, destination) == 0);
    }
}

// A ring that two blocks fill together: each brings its half of every slot to both, and reads the whole.
constexpr const char* kShared = R"(
struct alignas(64) Params { tj::TensorMap map; int count; u32* out; };
struct Ring {
  static constexpr int kSlots = 2, kSlotBytes = 4096, kCopiedBytes = 4096, kData = 1024, kFull = 0, kEmpty = 64, kFullArrivals = 1, kEmptyArrivals = 4, kSharers = 2, kSharerStride = 1;
};
TJ_KERNEL(kernel, 96, Params, p) {
  const u32 base = shared_base(), count = static_cast<u32>(p.count);
  if (thread_index() == 0) {
    ring_init<Ring>(base);
    mbarrier_init_done();
  }
  cluster_sync<1>();
  if (warp_index() == 2) {
    if (elect_one()) {
      const Share<2> mine = share<Ring>();
      for (u32 i = 0; i < count; ++i) {
        wait_empty<2, Ring>(base, i);
        expect_full<3, Ring>(base, i);
        copy_box_4d_multicast(slot_address<Ring>(base, i) + mine.part * 2048, &p.map, full_barrier<Ring>(base, i), mine.mask, 0, static_cast<int>(32 * i + 16 * mine.part), 0, 0);
      }
      wait_drained<4, Ring>(base, count);
    }
    return;
  }
  u32* out = p.out + block_index() * count * 1024;
  for (u32 i = 0; i < count; ++i) {
    wait_full<5, Ring>(base, i);
    for (u32 at = 4 * thread_index(); at < 4096; at += 256) out[i * 1024 + at / 4] = load_shared<u32>(slot_address<Ring>(base, i) + at);
    reads_arrived<6>();
    warp_sync();
    release<7, Ring>(base, i);
  }
}
// Both blocks are brought what one of them asks for, and then what each asks for the other alone.
TJ_KERNEL(one_for_all, 32, Params, p) {
  const u32 base = shared_base(), slot = base + 1024, rank = cluster_rank();
  if (thread_index() == 0) {
    mbarrier_init(base, 1);
    mbarrier_init_done();
  }
  cluster_sync<1>();
  if (elect_one()) {
    mbarrier_expect<2>(base, 4096);
    if (rank == 1) copy_box_4d_multicast(slot, &p.map, base, 3, 0, 32, 0, 0);
    copy_box_4d_multicast(slot + 2048, &p.map, base, 2u >> rank, 0, static_cast<int>(64 + 32 * rank), 0, 0);
  }
  reconverge();
  mbarrier_wait<3>(base, 0);
  for (u32 at = 4 * thread_index(); at < 4096; at += 128) p.out[block_index() * 1024 + at / 4] = load_shared<u32>(slot + at);
  cluster_sync<4>();
}
)";

struct alignas(64) SharedParams {
  alignas(64) std::byte map[launch::kTensorMapBytes];
  int count;
  std::uint32_t* out;
};

constexpr const char* kFilledBox = R"(
static void fill_box(u32 base, bool whole) {
  const u32 lane = lane_index();
  const u32 sevens[4] = {0x70007u, 0x70007u, 0x70007u, 0x70007u};
  if (whole)
    for (u32 at = lane * 16; at < 2048; at += 512) store_shared(base + at, sevens);
  warp_sync();
  u32 words[4];
  for (u32 m = 0; m < 4; ++m) {
    const u32 row = m % 2 * 8 + lane / 4, column = m / 2 * 8 + lane % 4 * 2;
    words[m] = (row * 100 + column) | (row * 100 + column + 1) << 16;
  }
  store_matrices(piece_address(base, lane % 16, lane / 16), words);
}
)";

// One lane stores the box; then its place is filled again.
constexpr const char* kStore = R"(
struct alignas(64) Params { tj::TensorMap map; int column, row; };
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base();
  fill_box(base, true);
  proxy_fence<1>();
  warp_sync();
  if (elect_one()) {
    store_box_4d(&p.map, base, p.column, p.row, 0, 0);
    store_commit<2>();
    store_wait<3, 0>();
  }
  warp_sync();
  const u32 none[4] = {};
  for (u32 at = lane_index() * 16; at < 2048; at += 512) store_shared(base + at, none);
}
)";
std::string_view store_text() {
  static const std::string text = std::string(kFilledBox) + kStore;
  return text;
}

struct alignas(64) StoreParams {
  alignas(64) std::byte map[launch::kTensorMapBytes];
  int column, row;
};

int wrong_stores(PrimitiveUnit& unit, int column, int row) {
  constexpr int kColumns = 21, kRows = 12, kPitch = 32, kAbove = 8;
  unit.forget();
  std::uint16_t* memory = unit.upload(std::vector<std::uint16_t>(kPitch * 40, 7));
  StoreParams params{};
  const Box box{DType::f16, 128, {kColumns, kRows, 1, 1}, {64, 16, 1, 1}, {}};
  unit.driver().encode_tensor_map(
      0, describe(box, memory + kAbove * kPitch, {2, kPitch * 2, kPitch * 2 * kRows, kPitch * 2 * kRows}), params.map);
  params.column = column;
  params.row = row;
  unit.run(params, 32);
  const std::vector<std::uint16_t> data = unit.download(memory, kPitch * 40);
  int wrong = 0;
  for (int r = -kAbove; r < 40 - kAbove; ++r)
    for (int c = 0; c < kPitch; ++c) {
      const bool inside = r >= 0 && r < kRows && c < (kColumns + 7) / 8 * 8;  // whole 16 bytes
      const int box_row = r - row, box_column = c - column;
      const bool stored = inside && box_row >= 0 && box_row < 16 && box_column >= 0 && box_column < 16;
      wrong += data[static_cast<std::size_t>((r + kAbove) * kPitch + c)] != (stored ? box_row * 100 + box_column : 7);
    }
  return wrong;
}

}  // namespace

std::vector<std::string_view> bulk_copies_texts() { return {kCopy, kShared, kLeftOut, store_text()}; }
std::string_view filled_box_text() { return kFilledBox; }

void check_boxes(const MakeUnit& make) {
  const DType half = DType::f16;
  check_boxes_of(make, {{half, 128, {128, 100, 3, 2}, {64, 40, 1, 1}, {64, 7, 2, 1}},
                        {half, 128, {72, 20, 1, 1}, {64, 32, 1, 1}, {64, 5, 0, 0}},  // right and lower edge
                        {half, 128, {72, 20, 2, 1}, {64, 8, 1, 1}, {-8, -5, 1, 0}},  // left and upper edge
                        {half, 128, {70, 20, 2, 1}, {64, 8, 1, 1}, {8, 2, 1, 0}},    // an edge inside 16 bytes
                        {half, 128, {64, 20, 2, 1}, {64, 8, 2, 1}, {0, 4, 1, 0}},    // a whole head outside
                        {half, 128, {64, 20, 2, 1}, {64, 8, 1, 1}, {0, 0, -1, 0}},
                        {half, 128, {64, 20, 2, 1}, {64, 8, 1, 1}, {1000000, 0, 0, 5}},
                        {half, 64, {128, 30, 2, 2}, {32, 10, 2, 2}, {16, 2, 0, 0}},
                        {half, 32, {128, 30, 2, 2}, {16, 10, 2, 2}, {24, 2, 0, 0}},
                        {half, 0, {128, 30, 2, 2}, {24, 10, 2, 2}, {120, 25, 1, 1}},
                        {half, 0, {512, 30, 1, 1}, {256, 8, 1, 1}, {-16, 25, 0, 0}},
                        {DType::e4m3, 128, {300, 30, 1, 2}, {128, 20, 1, 2}, {256, 15, 0, 0}},
                        {DType::e4m3, 64, {300, 30, 1, 2}, {64, 20, 1, 2}, {-16, -3, 0, 0}},
                        {DType::f32, 128, {100, 30, 1, 2}, {32, 20, 1, 2}, {80, 15, 0, 0}}});
}

void check_narrow_boxes(const MakeUnit& make) {
  const DType half = DType::f16;
  check_boxes_of(make, {{half, 128, {128, 30, 2, 1}, {32, 24, 1, 1}, {16, 2, 0, 0}},
                        {half, 128, {128, 30, 2, 1}, {8, 24, 2, 1}, {120, 2, 0, 0}},
                        {half, 64, {128, 30, 2, 1}, {16, 24, 1, 1}, {0, -2, 0, 0}}});
}

void check_left_out(const MakeUnit& make, int announced) {
  PrimitiveUnit unit = make(kLeftOut);
  std::vector<std::uint32_t> rows(8 * 32);
  std::iota(rows.begin(), rows.end(), 1000u);
  LeftOutParams params{};
  const Box box{DType::f16, 0, {64, 8, 1, 1}, {64, 8, 1, 1}, {}};
  unit.driver().encode_tensor_map(0, describe(box, unit.upload(rows), {2, 128, 1024, 1024}), params.map);
  params.announced = announced;
  params.left = 1024;
  params.out = unit.upload(std::vector<std::uint32_t>(rows.size()));
  unit.run(params, 32, {"kernel", 65536, 1, 1, false});
  CHECK(unit.download(params.out, rows.size()) == rows);
}

void check_shared_boxes(const MakeUnit& make, unsigned blocks) {
  PrimitiveUnit unit = make(kShared);
  constexpr int kCount = 9;
  std::vector<std::uint32_t> rows(kCount * 1024);
  std::iota(rows.begin(), rows.end(), 1000u);
  const auto encode = [&](SharedParams& params, std::uint32_t box_rows) {
    const Box box{DType::f16, 0, {64, kCount * 32, 1, 1}, {64, box_rows, 1, 1}, {}};
    unit.driver().encode_tensor_map(0, describe(box, unit.upload(rows), {2, 128, 128 * kCount * 32, 128 * kCount * 32}),
                                    params.map);
  };
  SharedParams params{};
  encode(params, 16);
  params.count = kCount;
  params.out = unit.upload(std::vector<std::uint32_t>(blocks * rows.size()));
  unit.run(params, 96, {"kernel", 65536, blocks, 2, false});
  std::vector<std::uint32_t> out = unit.download(params.out, blocks * rows.size());
  int wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) wrong += out[i] != rows[i % rows.size()];
  CHECK(wrong == 0);
  params.out = unit.upload(std::vector<std::uint32_t>(blocks * 1024));
  unit.run(params, 32, {"one_for_all", 65536, blocks, 2, false});
  out = unit.download(params.out, blocks * 1024);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t rank = i / 1024 % 2, word = i % 1024;  // of the second half, what the other block has asked for
    wrong += out[i] != rows[word < 512 ? 32 * 32 + word : (64 + 32 * (1 - rank)) * 32 + word - 512];
  }
  CHECK(wrong == 0);
}

void check_stores(const MakeUnit& make) {
  PrimitiveUnit unit = make(store_text());
  for (const auto& [column, row] : {std::pair{0, 0}, {8, 3}, {16, 11}, {24, 0}, {0, 12}, {64, 0}}) {
    const int c = column, r = row;
    CAPTURE(c);
    CAPTURE(r);
    CHECK(wrong_stores(unit, c, r) == 0);
  }
}

}  // namespace tj::testing
