// Expectations of a block's and a cluster's synchronisation, and of a warp's exchange between lanes, on whatever runs
// the primitives. Phases of mbarriers through rings of several rounds, turns by named barriers, arrivals in other
// blocks, grids one behind the other. Shared by the tests of the model and of a device. Does not show that less would
// not do: the model's own tests do.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

constexpr const char* kUnit = R"(
struct Params { int which, count; u32* out; };
struct Ring {
  static constexpr int kSlots = 3, kSlotBytes = 1024, kCopiedBytes = 0, kData = 1024, kFull = 0, kEmpty = 64, kFullArrivals = 2, kEmptyArrivals = 2, kSharers = 1;
};

// Warps 0 and 1 fill a ring by ordinary stores, warps 2 and 3 read all of it: each finds what both have written for its round, and no later one.
static void ring(const Params& p, u32 base) {
  const u32 warp = warp_index(), lane = lane_index();
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    const u32 slot = slot_address<Ring>(base, i);
    if (warp < 2) {
      wait_empty<1, Ring>(base, i);
      for (u32 at = 0; at < 4; ++at) store_shared(slot + 512 * warp + 4 * (32 * at + lane), 1000 * i + 128 * warp + 32 * at + lane);
      warp_sync<2>();
      publish<3, Ring>(base, i);
    } else {
      wait_full<4, Ring>(base, i);
      u32* out = p.out + (2 * i + warp - 2) * 256;
      for (u32 at = 0; at < 8; ++at) out[32 * at + lane] = load_shared<u32>(slot + 4 * (32 * at + lane));
      reads_arrived<5>();
      warp_sync<6>();
      release<7, Ring>(base, i);
    }
  }
}

// Warps append to a list in turns: a counter in shared memory that no two of them touch at once.
static void turns(const Params& p, u32 base) {
  const u32 warp = warp_index(), counter = base + 512;
  if (warp == 3) named_arrive<11>(1, 64);  // warp 0 begins
  for (int i = 0; i < p.count; ++i) {
    named_sync<12>(1 + warp, 64);
    const u32 place = load_shared<u32>(counter);
    warp_sync<13>();
    if (lane_index() == 0) {
      p.out[place] = warp;
      store_shared(counter, place + 1);
    }
    warp_sync<14>();
    named_arrive<15>(1 + (warp + 1) % 4, 64);
  }
  if (warp == 0) named_sync<16>(1, 64);
}

// All warps, and some of them, meet; what each wrote before is there after.
static void meetings(const Params& p, u32 base) {
  const u32 mine = base + 1024 + 4 * thread_index();
  int right = 1;
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    store_shared(mine, i + thread_index());
    if (i % 2 == 0) block_sync<21>();
    else named_sync<22>(5 + warp_index() / 2, 64);
    const u32 other = i % 2 == 0 ? 127 - thread_index() : thread_index() / 64 * 64 + 63 - thread_index() % 64;
    right &= load_shared<u32>(base + 1024 + 4 * other) == i + other;
    block_sync<23>();
  }
  p.out[thread_index()] = static_cast<u32>(right);
}

static void lanes(const Params& p) {
  const u32 t = thread_index(), lane = lane_index();
  int right = 1;
  for (int mask = 0; mask < 32; ++mask) {
    right &= shuffle_xor(t * 7u, mask) == (t ^ static_cast<u32>(mask)) * 7u;
    right &= shuffle_xor(static_cast<float>(t) + 0.5f, mask) == static_cast<float>(t ^ static_cast<u32>(mask)) + 0.5f;
    right &= shuffle_from(t * 3u, mask) == (t - lane + static_cast<u32>(mask)) * 3u;
    right &= shuffle_from(static_cast<float>(t), mask) == static_cast<float>(t - lane + static_cast<u32>(mask));
    right &= any_in_warp(lane == static_cast<u32>(mask));
  }
  u32 low = 2u * t, high = 2u * t + 1u;  // lanes t and t ^ 2 are two rows of a 2 x 2 matrix: it is transposed
  trade<2>(low, high);
  right &= (t & 2u) != 0 ? low == 2u * (t ^ 2u) + 1u && high == 2u * t + 1u : low == 2u * t && high == 2u * (t ^ 2u);
  right &= !any_in_warp(false) && any_in_warp(warp_index() == 1) == (t / 32 == 1);
  right &= warp_index() == t / 32 && grid_blocks() == 1 && block_index() == 0;
  p.out[2 * t] = static_cast<u32>(right);
  p.out[2 * t + 1] = elect_one() ? 1 : 0;
}

TJ_KERNEL(kernel, 128, Params, p) {
  const u32 base = shared_base();
  if (thread_index() == 0) {
    ring_init<Ring>(base);
    mbarrier_init_done();
    store_shared(base + 512, 0u);
  }
  block_sync();
  if (p.which == 0) ring(p, base);
  else if (p.which == 1) turns(p, base);
  else if (p.which == 2) meetings(p, base);
  else lanes(p);
}

// Every block arrives at every block's barrier, round after round: one that is ahead waits for the others.
TJ_KERNEL(arrivals, 64, Params, p) {
  const u32 base = shared_base(), blocks = static_cast<u32>(p.which);
  if (thread_index() == 0) {
    mbarrier_init(base, blocks);
    mbarrier_init_done();
  }
  cluster_sync<31>();
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    if (thread_index() < blocks) mbarrier_arrive_at<32>(base, thread_index());
    mbarrier_wait_phase<33>(base, i);
    block_sync<35>();  // no thread arrives twice before the others have seen the phase
  }
  const u32 warp = warp_index();
  if (lane_index() == 0) p.out[2 * block_index() + warp] = cluster_rank() + 1;
  cluster_sync<34>();
}

// A word goes round the cluster: each block stores the next one's, which completes its bytes on a barrier there.
TJ_KERNEL(words, 32, Params, p) {
  const u32 base = shared_base(), blocks = static_cast<u32>(p.which), count = static_cast<u32>(p.count);
  if (thread_index() == 0) {
    mbarrier_init(base, 1);
    mbarrier_init_done();
  }
  cluster_sync<61>();
  for (u32 i = 0; i < count; ++i) {
    if (lane_index() == 0) {
      mbarrier_expect<62>(base, 4);
      store_shared_at<63>(base + 64, 100u * block_index() + i, base, (cluster_rank() + 1u) % blocks);
    }
    mbarrier_wait_phase<64>(base, i);
    const u32 word = load_shared<u32>(base + 64);
    if (lane_index() == 0) p.out[block_index() * count + i] = word;
    reads_arrived<65>();
    cluster_sync_all<66>();  // then the next word may come
  }
}

// Four words of each lane go round the cluster, all for one phase of a barrier.
TJ_KERNEL(fours, 32, Params, p) {
  const u32 base = shared_base(), blocks = static_cast<u32>(p.which);
  if (thread_index() == 0) {
    mbarrier_init(base, 1);
    mbarrier_init_done();
  }
  cluster_sync<67>();
  if (lane_index() == 0) mbarrier_expect<68>(base, 32 * 16);
  const float first = static_cast<float>(100u * block_index() + lane_index());
  const float mine[4] = {first, first + 0.25f, first + 0.5f, first + 0.75f};
  store_shared_at(base + 64 + 16 * lane_index(), mine, base, (cluster_rank() + 1u) % blocks);
  mbarrier_wait_phase<69>(base, 0);
  float four[4];
  load_shared(base + 64 + 16 * lane_index(), four);
  bool right = true;
  const u32 from = block_index() / blocks * blocks + (cluster_rank() + blocks - 1u) % blocks;
  for (int e = 0; e < 4; ++e)
    right = right && four[e] == static_cast<float>(100u * from + lane_index()) + 0.25f * static_cast<float>(e);
  p.out[32 * block_index() + lane_index()] = right ? 1u : 0u;
}

// Each grid adds to what the one before has left, in the other half.
TJ_KERNEL(behind, 32, Params, p) {
  next_grid_may_start();
  wait_for_grids_before<41>();
  u32* from = p.out + p.which * 32 * static_cast<int>(grid_blocks()) + 32 * (grid_blocks() - 1 - block_index());
  u32* to = p.out + (1 - p.which) * 32 * static_cast<int>(grid_blocks()) + 32 * block_index();
  store_global(to + thread_index(), load_global_u32(from + thread_index()) + 1);
}

// Registers that one group gives back the others take; all keep what they hold. 384 threads begin with 168 each.
TJ_KERNEL(registers, 384, Params, p) {
  u32 mine = p.out[thread_index()];
  if (warp_index() < 4) {
    registers_shrink<51, 24>();
    p.out[thread_index()] = mine + 1;
  } else {
    registers_grow<52, 240>();
    p.out[thread_index()] = mine + 2;
  }
}
)";

struct Params {
  int which, count;
  std::uint32_t* out;
};

std::vector<std::uint32_t> run(PrimitiveUnit& unit, Params params, std::size_t words, unsigned threads = 128,
                               const PrimitiveUnit::Start& start = {}) {
  unit.forget();
  params.out = unit.upload(std::vector<std::uint32_t>(words));
  unit.run(params, threads, start);
  return unit.download(params.out, words);
}

}  // namespace

std::string_view sync_text() { return kUnit; }

void check_block_syncs(PrimitiveUnit& unit) {
  constexpr std::uint32_t kCount = 20;
  const std::vector<std::uint32_t> read = run(unit, {0, kCount, nullptr}, 2 * kCount * 256);
  int wrong = 0;
  for (std::uint32_t i = 0; i < read.size(); ++i) wrong += read[i] != 1000 * (i / 512) + i % 256;
  CHECK(wrong == 0);
  const std::vector<std::uint32_t> turns = run(unit, {1, kCount, nullptr}, 4 * kCount);
  for (std::uint32_t i = 0; i < turns.size(); ++i) wrong += turns[i] != i % 4;
  CHECK(wrong == 0);
  const std::vector<std::uint32_t> met = run(unit, {2, kCount, nullptr}, 128);
  CHECK(std::count(met.begin(), met.end(), 1u) == 128);
}

void check_lanes(PrimitiveUnit& unit) {
  const std::vector<std::uint32_t> out = run(unit, {3, 0, nullptr}, 256);
  int wrong = 0;
  for (std::size_t warp = 0; warp < 4; ++warp) {
    std::uint32_t elected = 0;
    for (std::size_t t = 32 * warp; t < 32 * warp + 32; ++t) {
      wrong += out[2 * t] != 1;
      elected += out[2 * t + 1];
    }
    CHECK(elected == 1);
  }
  CHECK(wrong == 0);
}

void check_cluster_arrivals(PrimitiveUnit& unit) {
  for (const unsigned cluster : {1u, 2u, 4u}) {
    CAPTURE(cluster);
    const std::vector<std::uint32_t> out =
        run(unit, {static_cast<int>(cluster), 50, nullptr}, 16, 64, {"arrivals", 65536, 8, cluster, false});
    for (unsigned i = 0; i < 16; ++i) CHECK(out[i] == i / 2 % cluster + 1);
  }
}

void check_words_between_blocks(PrimitiveUnit& unit) {
  constexpr unsigned kCount = 20;
  for (const unsigned cluster : {2u, 4u}) {  // in a grid without clusters the instruction is an illegal one
    CAPTURE(cluster);
    const std::vector<std::uint32_t> out =
        run(unit, {static_cast<int>(cluster), kCount, nullptr}, 8 * kCount, 32, {"words", 65536, 8, cluster, false});
    for (unsigned i = 0; i < out.size(); ++i) {
      const unsigned block = i / kCount, rank = block % cluster, from = block - rank + (rank + cluster - 1) % cluster;
      CHECK(out[i] == 100 * from + i % kCount);
    }
    const std::vector<std::uint32_t> right =
        run(unit, {static_cast<int>(cluster), 1, nullptr}, 8 * 32, 32, {"fours", 65536, 8, cluster, false});
    CHECK(std::count(right.begin(), right.end(), 1u) == static_cast<std::ptrdiff_t>(right.size()));
  }
}

void check_grids_behind(PrimitiveUnit& unit) {
  constexpr unsigned kBlocks = 40, kGrids = 30;
  unit.forget();
  Params params{0, 0, unit.upload(std::vector<std::uint32_t>(2 * kBlocks * 32))};
  for (unsigned i = 0; i < kGrids; ++i) {
    params.which = static_cast<int>(i % 2);
    unit.start(params, 32, {"behind", 0, kBlocks, 1, true});
  }
  unit.driver().synchronize(0, {});
  const std::vector<std::uint32_t> last = unit.download(params.out, kBlocks * 32);
  CHECK(std::count(last.begin(), last.end(), kGrids) == static_cast<std::ptrdiff_t>(last.size()));
}

void check_registers(PrimitiveUnit& unit) {
  unit.forget();
  std::vector<std::uint32_t> values(384);
  std::iota(values.begin(), values.end(), 7u);
  Params params{0, 0, unit.upload(values)};
  unit.run(params, 384, {"registers", 0, 1, 1, false});
  const std::vector<std::uint32_t> out = unit.download(params.out, 384);
  int wrong = 0;
  for (std::uint32_t t = 0; t < 384; ++t) wrong += out[t] != t + 7 + (t < 128 ? 1 : 2);
  CHECK(wrong == 0);
}

}  // namespace tj::testing
