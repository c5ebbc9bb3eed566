// Protects the model's tensor memory: which cell each register of each lane is, who may allocate what, and what a warp may reach; each rule by
// a kernel that breaks it.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "launch/model_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::error_of;

struct Params {
  unsigned* out;
  int which;
};

constexpr const char* kUnit = R"unit(
struct Params { unsigned* out; int which; };

static u32 allocated(u32 columns) {
  const u32 place = shared_base() + 8;
  if (warp_index() == 0) tensor_allocate(place, columns);
  block_sync();
  return load_shared<u32>(place);
}
static void freed(u32 tensor, u32 columns) {
  block_sync();
  if (warp_index() == 0) tensor_free(tensor, columns);
}

// Each cell of 64 columns gets lane * 1000 + column, written in one shape and read in the other, by another warp of the same lanes.
TJ_KERNEL(shapes, 256, Params, p) {
  const u32 tensor = allocated(64), lane = lane_index(), base = 32 * (warp_index() % 4), mine = tensor_lanes(tensor);
  const bool writes = p.which < 2 ? warp_index() < 4 : warp_index() >= 4, in_rows = p.which % 2 == 0;
  if (writes && in_rows) {
    u32 v[64];
    for (u32 c = 0; c < 64; ++c) v[c] = (base + lane) * 1000 + c;
    tensor_store(mine, v);
  } else if (writes) {
    for (u32 half = 0; half < 2; ++half) {
      u32 v[32];
      for (u32 i = 0; i < 32; ++i) v[i] = (base + 16 * half + lane / 4 + 8 * (i % 4 / 2)) * 1000 + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
      tensor_store_fragment(tensor_place(mine, 16 * half, 0), v);
    }
  }
  tensor_store_wait<1>();
  tensor_before_sync<2>();
  block_sync();
  tensor_after_sync<3>();
  if (!writes && in_rows) {
    for (u32 half = 0; half < 2; ++half) {
      u32 v[32];
      tensor_load_fragment(tensor_place(mine, 16 * half, 0), v);
      tensor_load_wait<4>();
      for (u32 i = 0; i < 32; ++i) p.out[(base + 16 * half + lane / 4 + 8 * (i % 4 / 2)) * 64 + 8 * (i / 4) + 2 * (lane % 4) + i % 2] = v[i];
    }
  } else if (!writes) {
    u32 v[64];
    tensor_load(mine, v);
    tensor_load_wait<5>();
    for (u32 c = 0; c < 64; ++c) p.out[(base + lane) * 64 + c] = v[c];
  }
  freed(tensor, 64);
}

// Two warps that want all columns take turns: the second waits until the first has freed them.
TJ_KERNEL(turns, 64, Params, p) {
  const u32 place = shared_base() + 4 * warp_index();
  tensor_allocate(place, 512);
  warp_sync();
  const u32 tensor = load_shared<u32>(place);
  u32 v[1] = {7 + warp_index()};
  tensor_store(tensor_lanes(tensor), v);
  tensor_store_wait<1>();
  tensor_load(tensor_lanes(tensor), v);
  tensor_load_wait<2>();
  p.out[thread_index()] = v[0];
  tensor_free(tensor, 512);
}

TJ_KERNEL(allocations, 64, Params, p) {
  const u32 place = shared_base();
  if (warp_index() == 1) return;
  u32 columns = 64;
  if (p.which == 0) columns = 48;
  if (p.which == 1) columns = 16;
  if (p.which == 2) columns = 1024;
  if (p.which == 3) columns = lane_index() < 31 ? 64 : 32;
  tensor_allocate(place, columns);
  warp_sync();
  const u32 tensor = load_shared<u32>(place);
  if (p.which == 4) tensor_allocate(place + 4, 128);
  if (p.which == 5) tensor_relinquish();
  if (p.which == 5) tensor_allocate(place + 4, 32);
  if (p.which == 6) return;
  if (p.which == 10) {
    u32 v[64] = {};
    tensor_allocate(place + 4, 32);
    warp_sync();
    tensor_store(load_shared<u32>(place + 4), v);
  }
  if (p.which == 7) tensor_free(tensor, 32);
  if (p.which == 8) tensor_free(tensor + 32, 64);
  tensor_free(tensor, 64);
  if (p.which == 9) tensor_free(tensor, 64);
}

TJ_KERNEL(deadlock, 32, Params, p) {
  tensor_allocate(shared_base(), 512);
  tensor_allocate(shared_base() + 4, static_cast<u32>(p.which));
}
TJ_NOTES(deadlock, R"({"name": "k", "sites": [], "rings": [], "calls": [], "waits": [], "entry_registers": 32,
  "roles": [{"name": "taker", "first_warp": 0, "warps": 1, "single_thread": false, "registers": 32}]})")

TJ_KERNEL(accesses, 128, Params, p) {
  const u32 tensor = allocated(64), mine = tensor_lanes(tensor);
  float v[32] = {}, one[1] = {};
  tensor_store(mine, v);
  tensor_store(tensor_place(mine, 0, 32), v);
  tensor_store_wait<1>();
  if (p.which == 0) tensor_load(tensor_place(mine, 0, 40), v);
  if (p.which == 1) tensor_load(tensor - 64, v);
  if (p.which == 2) tensor_load(tensor, v);
  if (p.which == 3) tensor_load(tensor_place(mine, 16, 0), v);
  if (p.which == 4) tensor_load_fragment(tensor_place(mine, 8, 0), v);
  if (p.which == 5) tensor_load(tensor_place(mine, 0, lane_index() / 31), one);
  if (p.which == 6 && lane_index() < 16) tensor_load(mine, v);
  if (p.which == 7) {
    if (lane_index() < 16) tensor_load(mine, v);
    else tensor_store(mine, v);
  }
  if (p.which == 8) {
    tensor_load(mine, v);
    v[3] = 0;
  }
  if (p.which == 9) {
    tensor_load(mine, v);
    return;
  }
  if (p.which == 10) {
    tensor_store(mine, v);
    return;
  }
  if (p.which == 11) {
    tensor_load(mine, v);
    p.out[thread_index()] = __builtin_bit_cast(u32, v[5]);
  }
  if (p.which == 12) tensor_store(tensor_place(tensor, 128, 0), one);
  tensor_load_wait<2>();
  freed(tensor, 64);
  if (p.which != 13) return;
  block_sync();
  tensor_load(mine, v);
}
)unit";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit, "sm_100a");
  return made;
}

Error run(const char* symbol, int which, unsigned threads, std::vector<unsigned>& out) {
  return error_of([&] { unit().run(symbol, Params{out.data(), which}, threads, 64); });
}

TEST_CASE("registers of both shapes are the cells that the manual says") {
  for (int which = 0; which < 4; ++which)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(which);
      unit().options({seed, {}, 1, {}});
      std::vector<unsigned> out(128 * 64);
      CHECK(run("shapes", which, 256, out).message == "nothing was thrown");
      int wrong = 0;
      for (unsigned i = 0; i < out.size(); ++i) wrong += out[i] != i / 64 * 1000 + i % 64;
      CHECK(wrong == 0);
    }
  unit().options({});
}

TEST_CASE("who asks for columns that are taken waits until they are free") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    unit().options({seed, {}, 1, {}});
    std::vector<unsigned> out(64);
    CHECK(run("turns", 0, 64, out).message == "nothing was thrown");
    CHECK(out[0] == 7);
    CHECK(out[63] == 8);
  }
  unit().options({});
}

TEST_CASE("columns that nobody will free are a deadlock, with what is missing") {
  std::vector<unsigned> out(1);
  for (int columns : {512, 32}) {
    const Error e = run("deadlock", columns, 32, out);
    CHECK(e.code == Code::deadlock);
    CHECK(contains(e.log, "for " + std::to_string(columns) + " columns of tensor memory; 512 of 512 are allocated"));
    CHECK(contains(e.log, "role taker waits for " + std::to_string(columns) + " columns of tensor memory"));
  }
}

struct Case {
  int which;
  const char* says;
};

TEST_CASE("what an allocation must not be is a fault") {
  for (const Case& c : {Case{0, "tensor_allocate of 48 columns; allowed are powers of two from 32 to 512"}, Case{1, "tensor_allocate of 16 columns"}, Case{2, "tensor_allocate of 1024 columns"},
                        Case{3, "the lanes of its warp ask for different columns"}, Case{4, "tensor_allocate of 128 columns after one of 64; allowed is no more than that"},
                        Case{5, "tensor_allocate after tensor_relinquish"}, Case{6, "ends while 64 columns of tensor memory at 0x1c0 are allocated; tensor_free is missing"},
                        Case{7, "tensor_free of 32 columns at 0x1c0, which was not allocated so"}, Case{8, "tensor_free of 64 columns at 0x1e0"}, Case{9, "tensor_free of 64 columns at 0x1c0"},
                        Case{10, "tensor_store of lanes 0-31, columns 416-479 of tensor memory, beyond the 32 columns that are allocated from 416 on"}}) {
    CAPTURE(c.which);
    std::vector<unsigned> out(1);
    const Error e = run("allocations", c.which, 64, out);
    INFO(e.message);
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
  }
}

TEST_CASE("what a load or a store must not be is a fault") {
  for (const Case& c : {Case{0, "columns 488-519 of tensor memory, which has 128 lanes and 512 columns"}, Case{1, "columns 384-415 of tensor memory, which are not allocated"},
                        Case{2, "reaches lanes "}, Case{3, ", and begins at the first"}, Case{4, ", and begins at the first or the seventeenth"},
                        Case{5, "tensor_load: the lanes of its warp name different cells"}, Case{7, "while other lanes of its warp are in tensor_"},
                        Case{8, "registers of a tensor_load changed between its issue and its tensor_load_wait"},
                        Case{9, "ends while 1 loads of tensor memory by its warp have not been waited for; tensor_load_wait is missing"},
                        Case{10, "ends while 1 stores to tensor memory by its warp have not been waited for; tensor_store_wait is missing"},
                        Case{12, "tensor_store of lanes 128-159"}, Case{13, "which are not allocated"}}) {
    CAPTURE(c.which);
    std::vector<unsigned> out(128);
    const Error e = run("accesses", c.which, 128, out);
    INFO(e.message);
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
  }
}

TEST_CASE("half a warp in a load waits for ever") {
  std::vector<unsigned> out(128);
  const Error e = run("accesses", 6, 128, out);
  CHECK(e.stage == tj::Stage::model);
  CHECK((e.code == Code::deadlock || contains(e.message, "while other lanes of its warp are in")));
}

TEST_CASE("a load's registers are NaN until its wait") {
  std::vector<unsigned> out(128);
  CHECK(run("accesses", 11, 128, out).message == "nothing was thrown");
  int wrong = 0;
  for (unsigned bits : out) wrong += !std::isnan(__builtin_bit_cast(float, bits));
  CHECK(wrong == 0);
}

}  // namespace
