// Expectations of copies by threads, on whatever runs the primitives. Shared by the tests of the model and of a device.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

struct Params {
  int which, count;
  const std::uint32_t* in;
  std::uint32_t* out;
};

constexpr const char* kUnit = R"(
struct Params { int which, count; const char* in; u32* out; };

struct Ring {
  static constexpr int kSlots = 3, kSlotBytes = 512, kCopiedBytes = 0, kData = 1024, kFull = 0, kEmpty = 64, kFullArrivals = 32, kEmptyArrivals = 1, kSharers = 1;
};

// Each size, with every number of bytes present; the place of each thread has 512 bytes.
template <int Bytes>
static u32 sizes(const Params& p, u32 to) {
  for (u32 present = 0; present <= Bytes; ++present) {
    copy_async<Bytes>(to, present == 0 ? nullptr : p.in + 16 * thread_index(), present);
    to += Bytes;
  }
  copy_async<Bytes>(to, p.in + 16 * thread_index());
  return to + Bytes;
}
static void all_sizes(const Params& p, u32 base) {
  const u32 place = base + 1024 + 512 * thread_index();
  u32 end = sizes<4>(p, sizes<8>(p, sizes<16>(p, place)));
  for (; end < place + 512; end += 4) store_shared(end, 0u);
  copy_async_commit<1>();
  copy_async_wait<2, 0>();
  for (u32 word = 0; word < 128; ++word) p.out[128 * thread_index() + word] = load_shared<u32>(place + 4 * word);
}

// A pipeline of groups in one warp: group i + 2 is under way while group i is read.
static void groups(const Params& p, u32 base) {
  const auto fetch = [&](int i) {
    if (i < p.count) copy_async<16>(base + (i % 3) * 512 + 16 * lane_index(), p.in + 512 * i + 16 * lane_index());
    copy_async_commit<3>();
  };
  fetch(0);
  fetch(1);
  for (int i = 0; i < p.count; ++i) {
    fetch(i + 2);
    copy_async_wait<4, 2>();
    warp_sync();
    const u32 neighbour = base + (i % 3) * 512 + 16 * ((lane_index() + 1) % 32);
    for (u32 word = 0; word < 4; ++word) p.out[128 * i + 4 * lane_index() + word] = load_shared<u32>(neighbour + 4 * word);
    reads_arrived<20>();
    warp_sync();
  }
  copy_async_wait<5, 0>();
}

// A ring between two warps: the producer's threads arrive by their copies, and wait for them at the end only.
static void ring(const Params& p, u32 base) {
  for (int i = 0; i < p.count; ++i) {
    if (warp_index() == 0) {
      wait_empty<6, Ring>(base, i);
      copy_async<16>(slot_address<Ring>(base, i) + 16 * lane_index(), p.in + 512 * i + 16 * lane_index());
      copy_async_arrive<7>(full_barrier<Ring>(base, i));
    } else {
      wait_full<8, Ring>(base, i);
      const u32 neighbour = slot_address<Ring>(base, i) + 16 * ((lane_index() + 1) % 32);
      for (u32 word = 0; word < 4; ++word) p.out[128 * i + 4 * lane_index() + word] = load_shared<u32>(neighbour + 4 * word);
      reads_arrived<21>();
      warp_sync();
      release<9, Ring>(base, i);
    }
  }
  if (warp_index() == 0) copy_async_drain<22>();
}

// A copy after an arrival is not announced by it.
static void beyond(const Params& p, u32 base) {
  if (thread_index() >= 32) return;
  const u32 place = slot_address<Ring>(base, 0) + 16 * lane_index();
  copy_async<16>(place, p.in + 16 * lane_index());
  copy_async_arrive<11>(full_barrier<Ring>(base, 0));
  copy_async<16>(place + 512, p.in + 16 * lane_index());
  wait_full<12, Ring>(base, 0);
  load_shared<u32>(place);
  if (p.count == 2) load_shared<u32>(place + 512);
  copy_async_commit<13>();
  copy_async_wait<14, 0>();
}

static void misuse(const Params& p, u32 base) {
  if (thread_index() != 3) return;
  switch (p.which) {
    case 10: copy_async<16>(base + 1032, p.in); break;
    case 11: copy_async<16>(base + 65536, p.in); break;
    case 12: copy_async<8>(base + 1024, p.in, 9); break;
    case 13: copy_async<8>(base + 1024, p.in + 4); break;
    case 14: copy_async<4>(base + 1024, p.in); break;  // nobody waits
    case 15: copy_async<4>(base + 1024, p.in); load_shared<u32>(base + 1024); break;
    case 16: copy_async_arrive<10>(base + 512); break;
  }
}

TJ_KERNEL(kernel, 64, Params, p) {
  const u32 base = shared_base();
  if (thread_index() == 0) ring_init<Ring>(base);
  block_sync();
  if (p.which == 0) all_sizes(p, base);
  else if (p.which == 1) { if (warp_index() == 0) groups(p, base + 1024); }
  else if (p.which == 2) ring(p, base);
  else if (p.which == 3) beyond(p, base);
  else misuse(p, base);
}
)";

std::vector<std::uint32_t> counted(int count) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(128 * count));
  std::iota(words.begin(), words.end(), 0x01000193u);
  return words;
}

}  // namespace

std::string_view thread_copies_text() { return kUnit; }

void check_copy_sizes(const MakeUnit& make) {
  PrimitiveUnit unit = make(kUnit);
  const std::vector<std::uint32_t> in = counted(2);
  const Params params{0, 2, unit.upload(in), unit.upload(std::vector<std::uint32_t>(128 * 64))};
  unit.run(params, 64);
  const std::vector<std::uint32_t> out = unit.download(params.out, 128 * 64);
  int wrong = 0;
  for (std::size_t thread = 0; thread < 64; ++thread) {
    unsigned char expected[512];
    const auto* from = reinterpret_cast<const unsigned char*>(in.data()) + 16 * thread;
    std::size_t at = 0;
    for (std::size_t bytes : {std::size_t{16}, std::size_t{8}, std::size_t{4}})
      for (std::size_t present = 0; present <= bytes + 1; ++present)
        for (std::size_t i = 0; i < bytes; ++i) expected[at++] = i < present ? from[i] : 0;
    wrong += std::memcmp(expected, out.data() + 128 * thread, at) != 0;
  }
  CHECK(wrong == 0);
}

int wrong_copied_words(PrimitiveUnit& unit, int which, int count) {
  const std::vector<std::uint32_t> in = counted(count);
  const Params params{which, count, unit.upload(in), unit.upload(std::vector<std::uint32_t>(in.size(), 0xeeeeeeeeu))};
  unit.run(params, 64);
  const std::vector<std::uint32_t> out = unit.download(params.out, in.size());
  int wrong = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    for (std::size_t lane = 0; lane < 32; ++lane)
      for (std::size_t word = 0; word < 4; ++word)
        wrong += out[128 * i + 4 * lane + word] != in[128 * i + 4 * ((lane + 1) % 32) + word];
  return wrong;
}

void check_copied_tiles(PrimitiveUnit& unit, int which, int count) {
  CAPTURE(which);
  CAPTURE(count);
  CHECK(wrong_copied_words(unit, which, count) == 0);
}

}  // namespace tj::testing
