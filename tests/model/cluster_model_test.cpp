// Protects clusters on the model: blocks run side by side, arrive at each other's barriers and copy to each other. A
// missing sync, a block that left too early and every misuse are reported.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "model/model_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::Stage;
using tj::testing::contains;
using tj::testing::outcome_of;

struct alignas(64) Params {
  std::byte map[tj::support::kTensorMapBytes];
  int which;
  int count;
  int* out;
};

constexpr const char* kUnit = R"(
struct alignas(64) Params { tj::TensorMap map; int which; int count; int* out; };

// A token goes round the blocks: each notes its turn, then arrives at the next one's barrier.
static void turns(const Params& p, u32 barrier, u32 blocks) {
  const u32 rank = cluster_rank();
  for (int i = 0; i < p.count; ++i) {
    if (rank > 0 || i > 0) mbarrier_wait<11>(barrier, static_cast<u32>(rank > 0 ? i : i - 1) & 1u);
    if (lane_index() == 0) {
      p.out[1 + p.out[0]] = static_cast<int>(block_index());
      ++p.out[0];
    }
    warp_sync();
    if (lane_index() == 0) mbarrier_arrive_at<12>(barrier, (rank + 1) % blocks);
  }
}

// Every block brings its part of 32 rows of 128 bytes to all blocks of its mask, and reads the whole.
static void shares(const Params& p, u32 barrier, u32 parts, u32 mask, u32 part) {
  const u32 slot = shared_base() + 1024, rows = 32u / parts;
  if (lane_index() == 0) {
    mbarrier_expect<21>(barrier, 32 * 128);
    copy_box_4d_multicast(slot + part * rows * 128, &p.map, barrier, mask, 0, static_cast<int>(part * rows), 0, 0);
  }
  mbarrier_wait<22>(barrier, 0);
  u32 word = load_shared<u32>(slot + lane_index() * 128);
  p.out[block_index() * 32 + lane_index()] = static_cast<int>(word);
}

static void misuse(const Params& p, u32 barrier) {
  if (block_index() != 1 || lane_index() != 3) return;
  switch (p.which) {
    case 10: mbarrier_arrive_at<31>(barrier, 2); break;
    case 11: mbarrier_arrive_at<32>(barrier + 8, 0); break;
    case 12: copy_box_4d_multicast(shared_base() + 1024, &p.map, barrier, 0, 0, 0, 0, 0); break;
    case 13: copy_box_4d_multicast(shared_base() + 1024, &p.map, barrier, 5, 0, 0, 0, 0); break;
    case 14: copy_box_4d_multicast(shared_base() + 1024, &p.map, barrier + 8, 3, 0, 0, 0, 0); break;
    case 15: store_shared_at<35>(barrier + 18, 1, barrier, 0); break;
    case 16: store_shared_at<36>(barrier + 16, 1, barrier, 2); break;
    case 18: {
      const float four[4] = {};
      store_shared_at(barrier + 8, four, barrier, 0);
      break;
    }
    case 17: store_shared_at<37>(barrier + 16, 1, barrier + 8, 0); break;
  }
}

TJ_KERNEL(kernel, 32, Params, p) {
  const u32 barrier = shared_base() + 128, blocks = p.which == 2 || p.which == 5 ? 4 : 2;
  if (thread_index() == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_init_done();
  }
  cluster_sync<1>();
  if (p.which == 0) p.out[block_index() * 32 + thread_index()] = static_cast<int>(cluster_rank());
  if (p.which == 1 || p.which == 2) turns(p, barrier, blocks);
  if (p.which == 3) shares(p, barrier, 2, 3, cluster_rank());
  if (p.which == 5) shares(p, barrier, 2, 5u << cluster_rank() % 2, cluster_rank() / 2);
  if (p.which == 6 && block_index() == 1) mbarrier_wait<41>(barrier, 0);
  if (p.which == 7 && cluster_rank() == 1 && lane_index() == 0) mbarrier_arrive_at<51>(barrier, 0);
  if (p.which >= 10) misuse(p, barrier);
  if (p.which == 4 && cluster_rank() == 1 && lane_index() > 2) return;  // nobody waits for them
  cluster_sync<2>();
  if (p.which == 4) p.out[thread_index()] = 1;
}

TJ_NOTES(kernel, "{\"sites\": [{\"id\": 41, \"text\": \"role test: wait ring k full\"}]}")

// A thread that syncs knows that the others have written.
TJ_KERNEL(meet, 64, Params, p) {
  for (int i = 0; i < p.count; ++i) {
    if (thread_index() == 40) p.out[block_index()] = i;
    cluster_sync<1>();
    const u32 first = block_index() - cluster_rank();
    for (u32 other = first; other < first + 4; ++other)
      if (p.out[other] != i) p.out[100] = 1;
    cluster_sync<2>();
  }
}
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit);
  return made;
}

struct Run {
  std::vector<int> out = std::vector<int>(512, 0), rows = std::vector<int>(32 * 32);
  Params params{};

  explicit Run(int which, int count = 1) {
    params.which = which;
    params.count = count;
    params.out = out.data();
    std::iota(rows.begin(), rows.end(), 1000);
    tj::launch::TensorMapDesc desc;
    desc.base = rows.data();
    desc.rank = 4;
    desc.dims = {64, 32, 1, 1, 0};
    desc.stride_bytes = {2, 128, 4096, 4096, 0};
    desc.box = {64, 16, 1, 1, 0};
    desc.swizzle_bytes = 0;
    unit().driver->encode_tensor_map(0, desc, params.map);
  }
  void operator()(unsigned blocks, unsigned cluster) { unit().run("kernel", params, 32, 16384, blocks, cluster); }
};

TEST_CASE("a block knows its rank; clusters of every size, on one worker and on several") {
  for (unsigned cluster : {1u, 2u, 3u, 8u})
    for (unsigned workers : {1u, 3u}) {
      unit().options({1, {}, workers, {}});
      Run run(0);
      run(cluster == 3 ? 9 : 8, cluster);
      for (unsigned i = 0; i < 8 * 32; ++i) CHECK(run.out[i] == static_cast<int>(i / 32 % cluster));
    }
}

TEST_CASE("an arrival at another block's barrier wakes it, and not before") {
  for (const auto& [which, blocks] : {std::pair{1, 2u}, {2, 4u}})
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      unit().options({seed, {}, 1, {}});
      Run run(which, 5);
      run(blocks, blocks);
      REQUIRE(run.out[0] == 5 * static_cast<int>(blocks));
      for (int i = 0; i < run.out[0]; ++i)
        CHECK(run.out[static_cast<std::size_t>(1 + i)] == i % static_cast<int>(blocks));
    }
}

TEST_CASE("a cluster's barrier holds all its threads, and no other cluster's") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    unit().options({seed, {}, 2, {}});
    std::vector<int> out(128, -1);
    Params params{};
    params.count = 6;
    params.out = out.data();
    out[100] = 0;
    unit().run("meet", params, 64, 1024, 8, 4);
    CHECK(out[100] == 0);
  }
}

TEST_CASE("a cluster's barrier does not wait for threads that have ended") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    unit().options({seed, {}, 1, {}});
    Run run(4);
    run(2, 2);
    CHECK(std::count(run.out.begin(), run.out.end(), 1) == 32);
  }
}

TEST_CASE("parts that each block brings to all make a whole in all") {
  for (const auto& [which, blocks] : {std::pair{3, 2u}, {5, 4u}})
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      unit().options({seed, {}, 1, {}});
      Run run(which);
      run(2 * blocks, blocks);
      for (std::size_t i = 0; i < 2 * blocks * 32; ++i) CHECK(run.out[i] == 1000 + static_cast<int>(i % 32) * 32);
    }
}

TEST_CASE("a sync that is switched off shows: barriers that are not there yet, a block that has left") {
  const auto noticed = [](int site, int which) {
    int count = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      unit().options({seed, {site}, 1, {}});
      Run run(which, 3);
      count += outcome_of([&] { run(2, 2); }).stage == Stage::model;
    }
    unit().options({});
    return count;
  };
  CHECK(noticed(1, 1) > 0);
  CHECK(noticed(2, 1) > 0);
  CHECK(noticed(1, 3) > 0);
  unit().options({1, {2}, 1, {}});
  Run run(1, 3);
  CHECK(contains(outcome_of([&] { run(2, 2); }).message, "of its cluster, which has ended"));
  unit().options({});
}

TEST_CASE("a block that ends knows of other blocks' arrivals: that they come before is chance") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Run left(7), together(7);
    unit().options({seed, {2}, 1, {}});
    const std::string said = outcome_of([&] { left(2, 2); }).message;
    CHECK_MESSAGE((contains(said, "nobody in it has waited for another block's arrival at the mbarrier at 0x480") ||
                   contains(said, "of its cluster, which has ended")),
                  said);
    unit().options({seed, {}, 1, {}});
    CHECK_NOTHROW(together(2, 2));
  }
  unit().options({});
}

TEST_CASE("a deadlock names the cluster, and who waits in each of its blocks") {
  unit().options({1, {}, 1, {}});
  Run run(6);
  const Error e = outcome_of([&] { run(4, 2); });
  CHECK(e.code == Code::deadlock);
  CHECK(contains(e.message, "deadlock in the cluster of blocks 0 to 1"));
  CHECK(contains(e.log, "cluster_sync: 32 of 64 threads have come (site 2)"));
  CHECK(contains(e.log, "lacks 1 of 1 arrivals and 0 bytes"));
  CHECK(contains(e.log, "site 41: role test: wait ring k full"));
  unit().options({});
}

TEST_CASE("misuse is a fault that names thread, place and rule") {
  struct Case {
    int which;
    const char* says;
  };
  for (const Case& c : {Case{10, "mbarrier_arrive in the block of rank 2; the cluster has 2 blocks"},
                        Case{11, "mbarrier_arrive at 0x488, where no mbarrier was initialised"},
                        Case{12, "copy_box_multicast with the mask 0x0; allowed are 1 to 0x3"},
                        Case{13, "copy_box_multicast with the mask 0x5"},
                        Case{14, "copy reports to 0x488, where no mbarrier was initialised"},
                        Case{15, "store_shared_at to shared address 0x492; it must be a multiple of 4"},
                        Case{16, "store_shared_at in the block of rank 2; the cluster has 2 blocks"},
                        Case{17, "copy reports to 0x488, where no mbarrier was initialised"},
                        Case{18, "store_shared_at to shared address 0x488; it must be a multiple of 16"}}) {
    CAPTURE(c.which);
    Run run(c.which);
    const Error e = outcome_of([&] { run(2, 2); });
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
    CHECK(contains(e.message, "block 1, warp 0, lane 3"));
  }
  Run run(0);
  CHECK(contains(outcome_of([&] { run(3, 2); }).message, "grid has 3 blocks; it must be a multiple of 2"));
  CHECK(contains(outcome_of([&] { run(9, 9); }).message, "cluster is 9; allowed are 1 to 8"));
  CHECK(contains(outcome_of([&] { run(4, 0); }).message, "cluster is 0"));
}

}  // namespace
