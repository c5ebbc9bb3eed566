// Protects grids whose blocks tell each other by counters in global memory: all resident blocks run side by side under
// one seed. A missing signal, wait, sync or reset, and a wait for a block that has not begun, are reported.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/model_unit.hpp"
#include "model/primitive_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::Stage;
using tj::testing::contains;
using tj::testing::outcome_of;

struct Grid {
  explicit Grid(const char* arch = "sm_90a") : unit(tj::testing::counters_text(), arch) {}

  void run(int which, unsigned blocks, const tj::model::ModelOptions& options = {}, unsigned across = 1) {
    unit.options(options);
    const auto kernel = unit.driver->load(0, unit.bytes(), "kernel", 1024);
    const tj::testing::CountersParams params{
        which, static_cast<int>(out.size()), blocks, &ticket, &done, partial.data(), out.data()};
    unit.driver->launch(0, *kernel, {{blocks, 1, 1}, {.threads = 32, .across_blocks = across, .smem_bytes = 1024}},
                        &params, sizeof params, {});
  }
  Error fails(int which, unsigned blocks, const tj::model::ModelOptions& options = {}, unsigned across = 1) {
    const Error error = outcome_of([&] { run(which, blocks, options, across); });
    ticket = done = 0;
    return error;
  }

  tj::testing::ModelUnit unit;
  unsigned ticket = 0, done = 0;
  std::vector<float> partial = std::vector<float>(64 * 64), out = std::vector<float>(64);
};

tj::model::ModelOptions seeded(std::uint64_t seed) {
  tj::model::ModelOptions options;
  options.seed = seed;
  return options;
}

TEST_CASE("tiles that are drawn go to all resident blocks, in another way for another seed") {
  Grid grid;
  std::vector<std::vector<float>> ways;
  unsigned alone = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    grid.run(0, 4, seeded(seed));
    CHECK(grid.ticket == 0);
    const std::vector<float> way = grid.out;
    CHECK(std::all_of(way.begin(), way.end(), [](float block) { return block >= 0 && block < 4; }));
    if (std::all_of(way.begin(), way.end(), [&](float block) { return block == way[0]; })) ++alone;
    grid.run(0, 4, seeded(seed));
    CHECK(grid.out == way);
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  }
  CHECK(ways.size() >= 8);
  CHECK(alone <= 6);
}

TEST_CASE("counters do what a device's do") {
  for (const char* arch : {"sm_90a", "sm_80", "sm_100a", "gfx1100", "gfx90a"}) {
    CAPTURE(arch);
    auto unit = tj::testing::PrimitiveUnit::on_model(tj::testing::counters_text(), arch);
    tj::testing::check_counters(unit, arch == std::string_view("gfx90a") ? 64 : 32);
  }
}

TEST_CASE("a counter that an aborted launch has left, or that nobody has zeroed, is named") {
  Grid grid;
  grid.ticket = 3;
  const Error error = outcome_of([&] { grid.run(0, 4); });
  CHECK(error.code == Code::model_fault);
  CHECK(contains(error.message, "at 3, not at 0: a launch before it was aborted, or the memory was never zeroed"));
}

TEST_CASE("partial sums of all blocks are merged by the last one that began") {
  for (const char* arch : {"sm_90a", "sm_80", "gfx1100"}) {
    CAPTURE(arch);
    Grid grid(arch);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      grid.out.assign(64, -1);
      grid.run(1, 4, seeded(seed));
      CHECK(std::all_of(grid.out.begin(), grid.out.begin() + 32, [](float sum) { return sum == 10; }));
    }
    // More blocks than are resident: those that end make room.
    grid.run(1, 21, seeded(3));
    CHECK(grid.out[31] == 231);
    tj::model::ModelOptions wide = seeded(4);
    wide.sm_count = 64;
    grid.run(1, 21, wide);
    CHECK(grid.out[31] == 231);
  }
}

TEST_CASE("each missing part is reported, by block and place, whatever the seed") {
  Grid grid;
  struct Case {
    int site;
    bool weakened;
    Code code;
    const char* part;
  };
  for (const Case& each :
       {Case{2, false, Code::model_fault, "a signal_global behind the one or a wait_global before the other"},
        Case{3, false, Code::deadlock, "to reach 4; it is 0"},
        Case{3, true, Code::model_fault, "a signal_global behind the one or a wait_global before the other"},
        Case{4, false, Code::model_fault, "a signal_global behind the one or a wait_global before the other"},
        Case{4, true, Code::model_fault, "a signal_global behind the one or a wait_global before the other"},
        Case{5, false, Code::model_fault, "a signal_global behind the one or a wait_global before the other"},
        Case{6, false, Code::model_fault, "at 4, which it found at 0"},
        Case{7, false, Code::model_fault, "at 4, which it found at 0"}})
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      CAPTURE(each.site);
      CAPTURE(each.weakened);
      CAPTURE(seed);
      tj::model::ModelOptions options = seeded(seed);
      (each.weakened ? options.weakened_sites : options.disabled_sites) = {each.site};
      const Error error = grid.fails(1, 4, options);
      CHECK(error.stage == Stage::model);
      CHECK(error.code == each.code);
      CHECK_MESSAGE((contains(error.message, each.part) || contains(error.log, each.part)), error.message << error.log);
      CHECK(contains(error.message + error.log, "block "));
    }
}

TEST_CASE("a wait for a block that has not begun is a deadlock that says so") {
  Grid grid;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Error resident = grid.fails(2, 4, seeded(seed));  // all four meet; only the reset is missing
    CHECK(resident.code == Code::model_fault);
    CHECK(contains(resident.message, "a reset_global is missing"));
    const Error error = grid.fails(2, 6, seeded(seed));
    CHECK(error.code == Code::deadlock);
    CHECK(contains(error.message, "blocks 4 to 5 have not begun"));
    CHECK(contains(error.log, "the counter at global address"));
  }
}

// Block 0 stores 32 rows of 16 words, in one of two ways; block 1 waits for it and has the copy engine bring them.
constexpr const char* kCopies = R"(
struct alignas(64) Params { tj::TensorMap map; u32* done; u32* words; u32* out; int bulk; };
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 barrier = shared_base(), box = shared_base() + 1024;
  if (thread_index() == 0) mbarrier_init(barrier, 1);
  mbarrier_init_done();
  block_sync();
  if (block_index() == 0) {
    for (u32 i = 0; i < 16; ++i)
      if (p.bulk != 0) store_shared(box + 4 * (16 * thread_index() + i), 100 * thread_index() + i);
      else store_global(p.words + 16 * thread_index() + i, 100 * thread_index() + i);
    proxy_fence<1>();
    block_sync<2>();
    if (thread_index() == 0) {
      if (p.bulk != 0) {
        store_box_4d(&p.map, box, 0, 0, 0, 0);
        store_commit<3>();
        store_wait<4, 0>();
      }
      signal_global<5>(p.done, 1);
    }
  } else {
    if (thread_index() == 0) {
      wait_global<6>(p.done, 1);
      proxy_fence<7>();
      mbarrier_expect<8>(barrier, 32 * 64);
      copy_box_4d(box, &p.map, barrier, 0, 0, 0, 0);
      reset_global<9>(p.done);
    }
    mbarrier_wait<10>(barrier, 0);
    for (u32 i = 0; i < 16; ++i) p.out[16 * thread_index() + i] = load_shared<u32>(box + 4 * (16 * thread_index() + i));
  }
}
)";

struct alignas(64) CopyParams {
  std::byte map[tj::support::kTensorMapBytes];
  unsigned *done, *words, *out;
  int bulk;
};

TEST_CASE("the copy engine sees what a block has acquired behind a fence, of either side") {
  tj::testing::ModelUnit unit(kCopies);
  std::vector<unsigned> words(32 * 16), out(32 * 16);
  const auto run = [&](bool bulk, std::vector<int> disabled, std::uint64_t seed) {
    tj::model::ModelOptions options = seeded(seed);
    options.disabled_sites = std::move(disabled);
    unit.options(options);
    unsigned done = 0;
    CopyParams params{{}, &done, words.data(), out.data(), bulk ? 1 : 0};
    const tj::support::TensorMapDesc desc{.base = words.data(),
                                          .dtype = tj::DType::f32,
                                          .rank = 4,
                                          .dims = {16, 32, 1, 1},
                                          .stride_bytes = {4, 64, 2048, 2048},
                                          .box = {16, 32, 1, 1},
                                          .swizzle_bytes = 0};
    const tj::launch::TensorMapPlace place{&desc, params.map};
    unit.driver->encode_tensor_maps(0, {&place, 1});
    const auto kernel = unit.driver->load(0, unit.bytes(), "kernel", 8192);
    unit.driver->launch(0, *kernel, {{2, 1, 1}, {.threads = 32, .across_blocks = 1, .smem_bytes = 8192}}, &params,
                        sizeof params, {});
  };
  const auto message = [&](bool bulk, std::vector<int> disabled, std::uint64_t seed) {
    return outcome_of([&] { run(bulk, std::move(disabled), seed); }).message;
  };
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    for (const int fence : {1, 7}) {  // one is enough
      std::fill(out.begin(), out.end(), 0u);
      run(false, {fence}, seed);
      CHECK(out[16 * 31 + 15] == 3115);
    }
    CHECK(contains(message(false, {1, 7}, seed), "a proxy_fence is missing"));
    CHECK(contains(message(false, {2}, seed), "a signal_global behind the one"));
    CHECK(contains(message(false, {6}, seed), "nothing orders the two"));
    CHECK(contains(message(true, {}, seed), "nobody else knows when a bulk store has written"));
  }
}

TEST_CASE("misuse is named") {
  Grid grid;
  CHECK(contains(grid.fails(3, 1).message, "a sync of the block is missing"));
  CHECK(contains(grid.fails(4, 1).message, "as ordinary memory"));
  CHECK(contains(grid.fails(0, 4, {}, 0).message, "across_blocks"));
}

}  // namespace
