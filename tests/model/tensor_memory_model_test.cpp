// Protects the model's tensor memory: which cell each register of each lane is, who may allocate what, and what a warp
// may reach. A kernel breaks each rule.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "model/model_unit.hpp"
#include "model/primitive_texts.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::outcome_of;

struct Params {
  unsigned* out;
  int which;
};

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(tj::testing::tensor_memory_text(), "sm_100a");
  return made;
}

Error run(const char* symbol, int which, unsigned threads, std::vector<unsigned>& out) {
  return outcome_of([&] { unit().run(symbol, Params{out.data(), which}, threads, 64); });
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

TEST_CASE("so are those of a left operand") {
  for (int which = 0; which < 2; ++which)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(which);
      unit().options({seed, {}, 1, {}});
      std::vector<unsigned> out(128 * 64);
      CHECK(run("operands", which, 256, out).message == "nothing was thrown");
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
void check_faults(const char* symbol, unsigned threads, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    CAPTURE(c.which);
    std::vector<unsigned> out(threads);
    const Error e = run(symbol, c.which, threads, out);
    INFO(e.message);
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
  }
}

TEST_CASE("what an allocation must not be is a fault") {
  check_faults("allocations", 64,
               {{0, "tensor_allocate of 48 columns; allowed are powers of two from 32 to 512"},
                {1, "tensor_allocate of 16 columns"},
                {2, "tensor_allocate of 1024 columns"},
                {3, "the lanes of its warp ask for different columns"},
                {4, "tensor_allocate of 128 columns after one of 64; allowed is no more than that"},
                {5, "tensor_allocate after tensor_relinquish"},
                {6, "ends while 64 columns of tensor memory at 0x1c0 are allocated; tensor_free is missing"},
                {7, "tensor_free of 32 columns at 0x1c0, which was not allocated so"},
                {8, "tensor_free of 64 columns at 0x1e0"},
                {9, "tensor_free of 64 columns at 0x1c0"},
                {10,
                 "tensor_store of lanes 0-31, columns 416-479 of tensor memory, beyond the 32 columns that are "
                 "allocated from 416 on"}});
}

TEST_CASE("what a load or a store must not be is a fault") {
  check_faults(
      "accesses", 128,
      {{0, "columns 488-519 of tensor memory, which has 128 lanes and 512 columns"},
       {1, "columns 384-415 of tensor memory, which are not allocated"},
       {2, "reaches lanes "},
       {3, ", and begins at the first"},
       {4, ", and begins at the first or the seventeenth"},
       {5, "tensor_load: the lanes of its warp name different cells"},
       {7, "while other lanes of its warp are in tensor_"},
       {8, "registers of a tensor_load changed between its issue and its tensor_load_wait"},
       {9, "ends while 1 loads of tensor memory by its warp have not been waited for; tensor_load_wait is missing"},
       {10, "ends while 1 stores to tensor memory by its warp have not been waited for; tensor_store_wait is missing"},
       {12, "tensor_store of lanes 128-159"},
       {13, "which are not allocated"},
       {14,
        "tensor_load into registers to which a tensor_load is under way; tensor_load_wait is missing between the two"},
       {15, "tensor_store out of registers to which a tensor_load is under way"}});
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
