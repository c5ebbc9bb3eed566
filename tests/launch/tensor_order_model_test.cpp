// Protects the order of what works on tensor memory: a loop of products, loads and stores as attention has it runs clean whatever the seed, and
// without any one of its waits, fences, commits and arrivals it is a fault at every seed.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "launch/model_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::error_of;

struct Params {
  float* out;
  int count, which;
};

// All elements of the operands in shared memory are 1. Products of one lane of warp 4: s = a b, a stage ahead of o += p b; warps 0 to 3 load s and
// store p, all of 1, in its place beside it.
constexpr const char* kUnit = R"(
struct Params { float* out; int count, which; };
constexpr u32 kFull = 0, kEmpty = 8, kStored = 16, kDone = 24, kPlace = 32, kA = 1024, kB = kA + 16384;
constexpr u32 kSums = 0, kP = 32, kOut = 64, kColumns = 128;

static u32 begin(u32 threads) {
  const u32 shared = shared_base();
  if (warp_index() == 0) tensor_allocate(shared + kPlace, kColumns);
  if (thread_index() == 0) {
    mbarrier_init(shared + kFull, 1);
    mbarrier_init(shared + kEmpty, 4);
    mbarrier_init(shared + kStored, 128);
    mbarrier_init(shared + kDone, 1);
    mbarrier_init_done();
  }
  for (u32 i = thread_index(); i < (16384 + 4096) / 4; i += threads) store_shared(shared + kA + 4 * i, 0x3c003c00u);
  proxy_fence<1>();
  block_sync();
  return load_shared<u32>(shared + kPlace);
}
static void end(u32 tensor) {
  block_sync();
  if (warp_index() == 0) tensor_free(tensor, kColumns);
}

static void issue_sums(u32 tensor) {
  constexpr u32 kInstruction = matrix_instruction<128, 32, 0>(F16{});
  const u32 shared = shared_base();
  matrix_multiply_steps<MatrixSteps<4, 32, 32>>(tensor + kSums, matrix_operand(shared + kA, 16, 1024), matrix_operand(shared + kB, 16, 1024), kInstruction, false);
}
static void issue(const Params& p, u32 tensor) {
  constexpr u32 kInstruction = matrix_instruction<128, 32, 0>(F16{});
  const u32 shared = shared_base();
  issue_sums(tensor);
  matrix_commit<2>(shared + kFull);
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    mbarrier_wait<3>(shared + kEmpty, i & 1);
    tensor_after_sync<4>();
    if (i + 1 < static_cast<u32>(p.count)) {
      issue_sums(tensor);
      matrix_commit<5>(shared + kFull);
    }
    mbarrier_wait<6>(shared + kStored, i & 1);
    tensor_after_sync<7>();
    matrix_multiply_tensor_steps<MatrixSteps<2, 0, 32>>(tensor + kOut, tensor + kP, matrix_operand(shared + kB, 16, 1024), kInstruction, i > 0);
    matrix_commit<8>(shared + kDone);
  }
}
static void rows(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), mine = tensor_lanes(tensor);
  float v[32];
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    mbarrier_wait<9>(shared + kFull, i & 1);
    tensor_after_sync<10>();
    tensor_load(mine + kSums, v);
    tensor_load_wait<11>();
    tensor_before_sync<12>();
    warp_sync<13>();
    if (lane_index() == 0) mbarrier_arrive<14>(shared + kEmpty);
    if (i > 0) {
      mbarrier_wait<15>(shared + kDone, (i - 1) & 1);
      tensor_after_sync<16>();
    }
    u32 words[16];
    for (u32 c = 0; c < 16; ++c) words[c] = pack(F16{}, v[2 * c] / 64.0f, v[2 * c + 1] / 64.0f);
    tensor_store(mine + kP, words);
    tensor_store_wait<17>();
    tensor_before_sync<18>();
    mbarrier_arrive<19>(shared + kStored);
  }
  mbarrier_wait<20>(shared + kDone, static_cast<u32>(p.count - 1) & 1);
  tensor_after_sync<21>();
  tensor_load(mine + kOut, v);
  tensor_load_wait<22>();
  for (u32 c = 0; c < 32; ++c) p.out[thread_index() * 32 + c] = v[c];
}

TJ_KERNEL(loop, 160, Params, p) {
  const u32 tensor = begin(160);
  if (warp_index() < 4) rows(p, tensor);
  else if (elect_one()) issue(p, tensor);
  end(tensor);
}

TJ_KERNEL(rules, 160, Params, p) {
  const u32 tensor = begin(160), shared = shared_base(), mine = tensor_lanes(tensor);
  float v[32] = {};
  const bool one = warp_index() == 4 && elect_one();
  constexpr u32 kInstruction = matrix_instruction<128, 32, 0>(F16{}), kWide = matrix_instruction<128, 64, 0>(F16{});
  const u64 a = matrix_operand(shared + kA, 16, 1024), b = matrix_operand(shared + kB, 16, 1024);
  if (p.which == 0 && warp_index() < 4) tensor_load(mine, v);
  if (p.which == 1 && one) matrix_multiply(tensor, a, b, kInstruction, true);
  if (p.which == 2 && (one || thread_index() == 0)) matrix_multiply(tensor, a, b, kInstruction, false);
  if (p.which == 3 && one) {
    matrix_multiply(tensor, a, b, kInstruction, false);
    matrix_multiply(tensor, a, a, kWide, false);
  }
  if (p.which == 4 && one) matrix_multiply(tensor, a, b, kInstruction, false);
  if (p.which >= 5 && p.which <= 8 && warp_index() < 4) {
    tensor_store(mine, v);
    if (p.which != 5) tensor_store_wait<30>();
    if (p.which != 8) tensor_load(mine, v);
    if (p.which == 6) tensor_store(mine, v);
    tensor_load_wait<31>();
    tensor_store_wait<32>();
    if (p.which == 8 && lane_index() == 0) tensor_before_sync<33>();
  }
  if (p.which == 7 || p.which == 8) {
    if (p.which == 7) tensor_before_sync<34>();
    block_sync();
    tensor_after_sync<35>();
    if (one) matrix_multiply(tensor, a, b, kInstruction, true);
    if (one) matrix_commit<36>(shared + kDone);
    if (p.which == 7 && warp_index() == 0) mbarrier_wait<37>(shared + kDone, 0);
  }
  end(tensor);
}
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit, "sm_100a");
  return made;
}

constexpr const char* kNothing = "nothing was thrown";

Error run(const char* symbol, int count, int which, std::vector<float>& out) {
  out.assign(128 * 32, -1.0f);
  return error_of([&] { unit().run(symbol, Params{out.data(), count, which}, 160, 1024 + 16384 + 4096); });
}

TEST_CASE("a loop over tensor memory runs clean at every seed") {
  std::vector<float> out;
  for (int count : {1, 2, 5})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      unit().options({seed, {}, 1, {}});
      CHECK(run("loop", count, 0, out).message == kNothing);
      int wrong = 0;
      for (float v : out) wrong += v != 32.0f * static_cast<float>(count);
      CHECK(wrong == 0);
    }
  unit().options({});
}

TEST_CASE("without any one of its waits, fences, commits and arrivals it is a fault at every seed") {
  struct Case {
    int site;
    const char* says;  ///< where it is no deadlock
  };
  std::vector<float> out;
  for (const Case& c : {Case{1, "a proxy_fence is missing"}, Case{2, ""}, Case{3, "columns 384-415"}, Case{4, "a tensor_after_sync is missing"}, Case{5, ""},
                        Case{6, "lanes 0-31"}, Case{7, "a tensor_after_sync is missing"}, Case{8, ""}, Case{9, "columns 384-415 of tensor memory, "},
                        Case{10, "a tensor_after_sync is missing"}, Case{11, "tensor_load_wait"}, Case{12, "a tensor_before_sync is missing after the tensor_load_wait"}, Case{13, "tensor_load_wait"}, Case{14, ""},
                        Case{15, "columns 416-4"}, Case{16, "a tensor_after_sync is missing"}, Case{17, "tensor_store_wait"},
                        Case{18, "a tensor_before_sync is missing after the tensor_store_wait"}, Case{19, ""}, Case{20, "columns 448-479 of tensor memory, where"}, Case{21, "a tensor_after_sync is missing"}, Case{22, ""}})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(c.site);
      CAPTURE(seed);
      unit().options({seed, {c.site}, 1, {}});
      const Error e = run("loop", 4, 0, out);
      INFO(e.message);
      CHECK(e.stage == tj::Stage::model);
      CHECK((e.code == Code::deadlock || contains(e.message, c.says)));
    }
  unit().options({});
}

TEST_CASE("each rule by a kernel that breaks it") {
  struct Case {
    int which;
    const char* says;
  };
  std::vector<float> out;
  for (const Case& c : {Case{0, "some of which nobody has written since their allocation"}, Case{1, "adds to lanes 0-127"}, Case{2, "has issued a product on as sums lanes 0-127, columns 384-415"},
                        Case{3, "warp 4, lane 0 issues a product whose sums are lanes 0-127, columns 384-447 of tensor memory, where warp 4, lane 0 has issued a product on as sums"},
                        Case{4, "tensor_free of 128 columns from 384 on"}, Case{5, "a tensor_store_wait is missing between the two"}, Case{6, "a tensor_load_wait is missing between the two"}, Case{7, kNothing},
                        Case{8, "a tensor_before_sync is missing after the tensor_store_wait there and before the sync, in all lanes of the warp"}})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(c.which);
      unit().options({seed, {}, 1, {}});
      const Error e = run("rules", 1, c.which, out);
      INFO(e.message);
      CHECK(contains(e.message, c.says));
    }
  unit().options({});
}

}  // namespace
