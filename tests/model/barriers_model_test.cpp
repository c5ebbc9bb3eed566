// Protects the model's synchronisation: phases, parities, named barriers, warp instructions. Misuse and deadlock are
// reported with names instead of hung on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "model/model_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::Stage;
using tj::testing::contains;
using tj::testing::outcome_of;

struct Params {
  int which;
  int count;
  int* out;
  int* clock;
};

// One kernel a case: `which` picks it.
constexpr const char* kUnit = R"(
struct Params { int which; int count; int* out; int* clock; };

// Warp 0 lets phases pass, warp 1 waits for each: what it reads proves that it was not early.
static void phases(const Params& p, u32 barrier) {
  for (int i = 0; i < p.count; ++i) {
    if (warp_index() == 0) {
      if (lane_index() == 0) *p.clock = i + 1;
      warp_sync();
      mbarrier_arrive<1>(barrier);
      mbarrier_wait_phase<2>(barrier + 8, static_cast<u32>(i));
    } else {
      mbarrier_wait<3>(barrier, i & 1);
      if (lane_index() == 0) p.out[i] = *p.clock;
      mbarrier_arrive<4>(barrier + 8);
    }
  }
}

// The same as above, but warp 1 asks first, and waits where the answer is no.
static void asks(const Params& p, u32 barrier) {
  for (int i = 0; i < p.count; ++i) {
    if (warp_index() == 0) {
      if (lane_index() == 0) *p.clock = i + 1;
      warp_sync();
      mbarrier_arrive<1>(barrier);
      mbarrier_wait_phase<2>(barrier + 8, static_cast<u32>(i));
    } else {
      const bool done = mbarrier_phase_done<3>(barrier, static_cast<u32>(i));
      if (!done) mbarrier_wait_phase<3>(barrier, static_cast<u32>(i));
      if (lane_index() == 0) p.out[i] = *p.clock, p.out[100 + i] = done ? 1 : 0;
      mbarrier_arrive<4>(barrier + 8);
    }
  }
}

// Ping-pong: the warps append their turns.
static void turns(const Params& p) {
  const u32 warp = warp_index();
  if (warp == 1) named_arrive<11>(1, 64);
  for (int i = 0; i < p.count; ++i) {
    named_sync<12>(1 + warp, 64);
    if (lane_index() == 0) p.out[(*p.clock)++] = static_cast<int>(warp);
    named_arrive<13>(1 + (warp ^ 1u), 64);
  }
  if (warp == 0) named_sync<14>(1, 64);
}

static void warp_instructions(const Params& p) {
  const u32 t = thread_index();
  int ok = 1;
  for (int mask = 0; mask < 32; ++mask) ok &= shuffle_xor(t * 7u, mask) == (t ^ static_cast<u32>(mask)) * 7u;
  ok &= shuffle_xor(static_cast<float>(t) + 0.5f, 9) == static_cast<float>(t ^ 9u) + 0.5f;
  u32 low = 2u * t, high = 2u * t + 1u;  // lanes t and t ^ 2 are two rows of a 2 x 2 matrix: it is transposed
  trade<2>(low, high);
  ok &= (t & 2u) != 0 ? low == 2u * (t ^ 2u) + 1u && high == 2u * t + 1u : low == 2u * t && high == 2u * (t ^ 2u);
  ok &= any_in_warp(lane_index() == 17) && !any_in_warp(false);
  ok &= any_in_warp(warp_index() == 0) == (t < 32);
  p.out[t] = ok;
}

// Warps append themselves without any order: what the seed decides.
static void race(const Params& p) {
  const int warp = static_cast<int>(warp_index());
  for (int i = 0; i < p.count; ++i) {
    if (lane_index() == 0) p.out[(*p.clock)++] = warp;
    warp_sync();
  }
}

static void misuse(const Params& p, u32 barrier) {
  if (thread_index() != 40) return;
  switch (p.which) {
    case 10: mbarrier_arrive<21>(barrier + 16); break;
    case 11: mbarrier_init(barrier + 4, 1); break;
    case 12: mbarrier_init(shared_base() + 65536, 1); break;
    case 13: mbarrier_init(shared_base() - 8, 1); break;
    case 14: mbarrier_expect<22>(barrier, 64); mbarrier_arrive<23>(barrier); break;
    case 15: named_sync<24>(16, 64); break;
    case 16: named_sync<25>(3, 40); break;
    case 17: store_global(reinterpret_cast<char*>(p.out) + 8, 1u, 2u, 3u, 4u); break;
    case 18: mbarrier_wait<26>(barrier, 2); break;
    case 19: matrix_commit<27>(); break;
    case 20: mbarrier_init(barrier, 1); break;
  }
}

// A warp of the second warpgroup gives back registers that its neighbours keep.
TJ_KERNEL(uneven, 256, Params, p) {
  if (warp_index() == 6) registers_shrink<51, 24>();
  if (thread_index() == 0) p.out[0] = 1;
}
TJ_NOTES(uneven, R"notes({"name": "uneven", "entry_registers": 248, "sites": []})notes" "\n")

TJ_KERNEL(kernel, 64, Params, p) {
  const u32 barrier = shared_base() + 128;
  if (thread_index() == 0) {
    mbarrier_init(barrier, p.which >= 10 && p.which != 21 ? 1 : 32);
    mbarrier_init(barrier + 8, 32);
    mbarrier_init_done();
  }
  block_sync();
  if (p.which == 0) phases(p, barrier);
  if (p.which == 1) turns(p);
  if (p.which == 2) warp_instructions(p);
  if (p.which == 3) race(p);
  if (p.which == 4 && warp_index() == 1) mbarrier_wait<31>(barrier, 0);
  if (p.which == 9) mbarrier_wait<31>(barrier, 0);
  if (p.which == 5 && thread_index() == 3) block_sync();
  if (p.which == 6 && warp_index() == 0) { if (lane_index() < 16) warp_sync(); else any_in_warp(true); }
  if (p.which == 7 && thread_index() > 0) warp_sync();
  if (p.which == 8) { if (lane_index() == 0) p.out[0] = static_cast<int>(warp_index()); block_sync(); }
  if (p.which == 21) asks(p, barrier);
  if (p.which >= 10) misuse(p, barrier);
}

TJ_NOTES(kernel, "{\"sites\": [{\"id\": 31, \"text\": \"role test: wait ring k full\"}]}")

TJ_KERNEL(where, 96, Params, p) {
  const u32 at = block_index() * 96 + thread_index();
  const bool one = elect_one(), again = elect_one();
  p.out[at] = static_cast<int>(warp_index() * 1000 + lane_index() * 10 + grid_blocks() + (one ? 100000u : 0u) +
                               (again ? 200000u : 0u));
}
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit);
  return made;
}

struct Run {
  std::vector<int> out = std::vector<int>(512, -1);
  int clock = 0;
  void operator()(int which, int count = 1, unsigned threads = 64) {
    unit().run("kernel", Params{which, count, out.data(), &clock}, threads);
  }
};

TEST_CASE("a wait returns after its phase and not before, whatever the seed") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    unit().options({seed, {}, 1, {}});
    Run run;
    run(0, 9);
    for (int i = 0; i < 9; ++i) CHECK(run.out[static_cast<std::size_t>(i)] == i + 1);
  }
}

TEST_CASE("a phase that is asked for is done, or is waited for") {
  int done = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    unit().options({seed, {}, 1, {}});
    Run run;
    run(21, 9);
    for (std::size_t i = 0; i < 9; ++i) CHECK(run.out[i] == static_cast<int>(i) + 1);
    done += std::count(run.out.begin() + 100, run.out.begin() + 109, 1);
  }
  CHECK(done > 0);
  CHECK(done < 20 * 9);
}

TEST_CASE("named barriers give turns in order") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    unit().options({seed, {}, 1, {}});
    Run run;
    run(1, 6);
    for (int i = 0; i < 12; ++i) CHECK(run.out[static_cast<std::size_t>(i)] == i % 2);
  }
}

TEST_CASE("shuffles and votes reach all lanes") {
  unit().options({});
  Run run;
  run(2);
  CHECK(std::count(run.out.begin(), run.out.begin() + 64, 1) == 64);
}

TEST_CASE("a thread knows where it is; every block runs once") {
  for (unsigned workers : {1u, 3u}) {
    unit().options({1, {}, workers, {}});
    std::vector<int> out(5 * 96, -1);
    int clock = 0;
    unit().run("where", Params{0, 0, out.data(), &clock}, 96, 0, 5);
    for (int i = 0; i < 5 * 96; ++i) {
      const int thread = i % 96, lane = thread % 32;
      CHECK(out[static_cast<std::size_t>(i)] % 100000 == thread / 32 * 1000 + lane * 10 + 5);
    }
  }
}

TEST_CASE("one lane of each warp is elected, the same each time; which one, each seed draws") {
  std::set<int> lanes;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    unit().options({seed, {}, 1, {}});
    std::vector<int> out(2 * 96, -1);
    int clock = 0;
    unit().run("where", Params{0, 0, out.data(), &clock}, 96, 0, 2);
    for (int warp = 0; warp < 6; ++warp) {
      int elected = 0;
      for (int lane = 0; lane < 32; ++lane) {
        const int answers = out[static_cast<std::size_t>(warp * 32 + lane)] / 100000;
        CHECK((answers == 0 || answers == 3));
        if (answers == 3) ++elected, lanes.insert(lane);
      }
      CHECK(elected == 1);
    }
  }
  CHECK(lanes.size() > 16);
  unit().options({});
}

TEST_CASE("a seed decides the order and repeats it") {
  const auto order = [](std::uint64_t seed) {
    unit().options({seed, {}, 1, {}});
    Run run;
    run(3, 20);
    return run.out;
  };
  CHECK(order(7) == order(7));
  int different = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) different += order(seed) != order(seed + 1);
  CHECK(different > 0);
}

TEST_CASE("a deadlock names who waits, for what and since when") {
  unit().options({1, {}, 1, {}});
  Run run;
  const Error e = outcome_of([&] { run(4); });
  CHECK(e.stage == Stage::model);
  CHECK(e.code == Code::deadlock);
  CHECK(contains(e.message, "block 0"));
  CHECK(contains(e.log, "warp 1: waits since step"));
  CHECK(contains(e.log, "mbarrier 0x480, parity 0: in phase 0, lacks 32 of 32 arrivals and 0 bytes"));
  CHECK(contains(e.log, "site 31: role test: wait ring k full"));
  CHECK(contains(e.log, "32 of 64 threads have ended"));
  const std::string both = outcome_of([&] { run(9); }).log;
  CHECK_MESSAGE(contains(both, "\nwarps 0-1: waits since step"), both);
}

TEST_CASE("a barrier that not all threads reach is a deadlock") {
  unit().options({});
  Run run;
  const Error block = outcome_of([&] { run(5); });
  CHECK(block.code == Code::deadlock);
  CHECK(contains(block.log, "warp 0, lane 3: waits since step"));
  CHECK(contains(block.log, "block_sync: 1 of 64 threads have come"));
  const Error warp = outcome_of([&] { run(7); });
  CHECK(warp.code == Code::deadlock);
  CHECK(contains(warp.log, "the other lanes of the warp"));
}

TEST_CASE("one lane alone that asks for its warp's index waits for the others, as on the device") {
  unit().options({});
  Run run;
  const Error e = outcome_of([&] { run(8); });
  CHECK(e.code == Code::deadlock);
  CHECK_MESSAGE(contains(e.log, "lane 0: waits since step 3 for the other lanes of the warp"), e.log);
}

TEST_CASE("lanes in different warp instructions are a fault") {
  Run run;
  const Error e = outcome_of([&] { run(6); });
  CHECK(e.code == Code::model_fault);
  CHECK(contains(e.message, "all 32 lanes must execute the same"));
}

TEST_CASE("a wait or an arrival that is switched off shows") {
  Run late, stuck;
  unit().options({1, {1}, 1, {}});
  const Error e = outcome_of([&] { stuck(0, 4); });
  CHECK(e.code == Code::deadlock);
  CHECK(contains(e.log, "site 3"));
  bool early = false;
  for (std::uint64_t seed = 1; seed <= 20 && !early; ++seed) {
    unit().options({seed, {3}, 1, {}});
    Run run;
    try {
      run(0, 4);
    } catch (const Error&) {
      early = true;
    }
    for (int i = 0; i < 4; ++i) early = early || run.out[static_cast<std::size_t>(i)] != i + 1;
  }
  CHECK(early);
  unit().options({});
}

TEST_CASE("misuse is a fault that names thread, place and rule") {
  struct Case {
    int which;
    const char* says;
  };
  for (const Case& c :
       {Case{10, "mbarrier_arrive at 0x490, where no mbarrier was initialised"}, Case{11, "must be a multiple of 8"},
        Case{12, "out of bounds; the block has 0x400 to 0x10400"}, Case{13, "at shared address 0x3f8"},
        Case{14, "one arrival more than the 1 of its phase 0, while 64 bytes are outstanding"},
        Case{15, "named barrier 16; allowed are 1 to 15"}, Case{16, "for 40 threads; allowed are multiples of 32"},
        Case{17, "no multiple of 16"}, Case{18, "parity 2; allowed are 0 and 1"}, Case{19, "incomplete warpgroup"},
        Case{20, "mbarrier at 0x480 a second time"}}) {
    CAPTURE(c.which);
    Run run;
    std::vector<int> aligned(64);
    const Error e = outcome_of([&] {
      unit().run(
          "kernel",
          Params{c.which, 1,
                 reinterpret_cast<int*>((reinterpret_cast<std::uintptr_t>(aligned.data()) + 15) & ~std::uintptr_t{15}),
                 &run.clock},
          64);
    });
    CHECK(e.stage == Stage::model);
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
    CHECK(contains(e.message, "block 0, warp 1, lane 8"));
  }
}

TEST_CASE("a warpgroup whose warps end with unequal registers is named, with both warps") {
  Run run;
  const Error e = outcome_of([&] { unit().run("uneven", Params{0, 1, run.out.data(), &run.clock}, 256); });
  CHECK(e.code == Code::model_fault);
  CHECK_MESSAGE(contains(e.message, "block 0: warp 4 of warpgroup 1 holds 248 registers a thread and warp 6 24; all "),
                e.message);
}

}  // namespace
