// Protects the model's copies by threads: what they bring, what becomes zero, when they are done, and that a wait or an arrival which is
// missing shows.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "launch/model_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::error_of;

struct Params {
  int which, count;
  const void* in;
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
  sizes<4>(p, sizes<8>(p, sizes<16>(p, place)));
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
    warp_sync();
  }
  copy_async_wait<5, 0>();
}

// A ring between two warps: the producer's threads arrive by their copies, and never wait for them.
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
      release<9, Ring>(base, i);
    }
  }
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
  else misuse(p, base);
}
)";

struct Bench {
  explicit Bench(int count) : in(static_cast<std::size_t>(128 * count)), out(static_cast<std::size_t>(128 * 64 + 128 * count), 0xeeeeeeeeu) {
    std::iota(in.begin(), in.end(), 0x01000193u);
    params = {0, count, in.data(), out.data()};
  }
  void run(tj::testing::ModelUnit& unit, int which) {
    params.which = which;
    unit.run("kernel", params, 64);
  }
  /// Words of the tiles that a reader did not find as its neighbour's thread had copied them.
  int wrong() const {
    int count = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(params.count); ++i)
      for (std::size_t lane = 0; lane < 32; ++lane)
        for (std::size_t word = 0; word < 4; ++word) count += out[128 * i + 4 * lane + word] != in[128 * i + 4 * ((lane + 1) % 32) + word];
    return count;
  }
  std::vector<std::uint32_t> in;
  std::vector<std::uint32_t> out;
  Params params{};
};

TEST_CASE("every size brings what is present and zeros after it, and reads no more") {
  for (const char* arch : {"sm_80", "sm_120a"}) {
    CAPTURE(arch);
    tj::testing::ModelUnit unit(kUnit, arch);
    Bench bench(2);
    bench.run(unit, 0);
    int wrong = 0;
    for (std::size_t thread = 0; thread < 64; ++thread) {
      unsigned char expected[512];
      const auto* from = reinterpret_cast<const unsigned char*>(bench.in.data()) + 16 * thread;
      std::size_t at = 0;
      for (std::size_t bytes : {std::size_t{16}, std::size_t{8}, std::size_t{4}})
        for (std::size_t present = 0; present <= bytes + 1; ++present)
          for (std::size_t i = 0; i < bytes; ++i) expected[at++] = i < present ? from[i] : 0;
      wrong += std::memcmp(expected, bench.out.data() + 128 * thread, at) != 0;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("groups of a thread and rings between roles are right under every order of completions") {
  tj::testing::ModelUnit unit(kUnit, "sm_80");
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    unit.options({seed, {}, 1, {}});
    for (int which : {1, 2})
      for (int count : {1, 2, 17}) {
        CAPTURE(which);
        Bench bench(count);
        bench.run(unit, which);
        CHECK(bench.wrong() == 0);
      }
  }
}

TEST_CASE("a wait, commit or arrival that is missing shows") {
  tj::testing::ModelUnit unit(kUnit, "sm_80");
  const auto noticed = [&](int which, int site) {
    int seeds = 0;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      unit.options({seed, {site}, 1, {}});
      Bench bench(9);
      const Error error = error_of([&] { bench.run(unit, which); });
      seeds += error.code == Code::model_fault || error.code == Code::deadlock || bench.wrong() != 0;
    }
    return seeds;
  };
  for (int site : {3, 4}) {
    CAPTURE(site);
    CHECK(noticed(1, site) > 0);
  }
  for (int site : {6, 7, 8, 9}) {
    CAPTURE(site);
    CHECK(noticed(2, site) > 0);
  }
  unit.options({1, {4}, 1, {}});
  Bench bench(9);
  CHECK(contains(error_of([&] { bench.run(unit, 1); }).message, "to which a thread's copy is under way; wait for its group"));
}

TEST_CASE("misuse is reported with its thread") {
  tj::testing::ModelUnit unit(kUnit, "sm_80");
  Bench bench(1);
  const auto message = [&](int which) {
    const Error error = error_of([&] { bench.run(unit, which); });
    CHECK(error.code == Code::model_fault);
    return error.message;
  };
  CHECK(contains(message(10), "lane 3: copy_async of 16 bytes to shared address 0x808, which is no multiple of 16"));
  CHECK(contains(message(11), "out of bounds"));
  CHECK(contains(message(12), "of 8 bytes, of which 9 are said to be present"));
  CHECK(contains(message(13), "which is no multiple of 8"));
  CHECK(contains(message(14), "ends while copies of its threads"));
  CHECK(contains(message(15), "to which a thread's copy is under way"));
  CHECK(contains(message(16), "no mbarrier was initialised"));
}

}  // namespace
