// Protects the model's warpgroup matrix instructions. Descriptors, fragments and types are held against a plain product
// in double, through boxes in swizzled shared memory as a kernel lays them out. Also what is visible before a wait.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/matrix_math.hpp"
#include "model/matrix_problem.hpp"
#include "model/model_unit.hpp"

namespace {

using namespace tj::testing;
using tj::Code;
using tj::DType;
using tj::Error;
using tj::model::to_float;

constexpr int kRows = 64, kDepth = 64;

struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* fragments;  ///< [16-wide step][thread][4]
  float* out;                 ///< 64 x columns; also what c holds before
  int columns, bf16, in_registers, transposed, left_transposed, accumulate, which;
};

constexpr const char* kUnit = R"(
struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* fragments;
  float* out;
  int columns, bf16, in_registers, transposed, left_transposed, accumulate, which;
};
constexpr u32 kA = 0, kB = 8192, kBarrier = 8192 + 256 * 128;

static u32 row() { return 16 * warp_index() + lane_index() / 4; }
template <int Half>
static void read(float (&d)[Half], const float* from) {
  for (int i = 0; i < Half; ++i) d[i] = from[(row() + 8 * (i % 4 / 2)) * 2 * Half + 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2];
}
template <int Half>
static void write(const float (&d)[Half], float* to) {
  for (int i = 0; i < Half; ++i) to[(row() + 8 * (i % 4 / 2)) * 2 * Half + 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2] = d[i];
}

static void load(const Params& p) {
  const u32 shared = shared_base();
  if (thread_index() == 0) {
    mbarrier_init(shared + kBarrier, 1);
    mbarrier_init_done();
    const int blocks = p.transposed ? (p.columns + 63) / 64 : 1;
    mbarrier_expect<1>(shared + kBarrier, 8192u + (p.transposed ? blocks * 8192u : p.columns * 128u));
    copy_box_4d(shared + kA, &p.a, shared + kBarrier, 0, 0, 0, 0);
    for (int b = 0; b < blocks; ++b) copy_box_4d(shared + kB + b * 8192, &p.b, shared + kBarrier, 64 * b, 0, 0, 0);
  }
  block_sync();
  mbarrier_wait<2>(shared + kBarrier, 0);
}

template <int N, class Tag, int MnMajor>
static void product(const Params& p) {
  const u32 shared = shared_base();
  float d[N / 2];
  read(d, p.out);
  u32 a[16];
  for (int i = 0; i < 16; ++i) a[i] = p.fragments[(i / 4 * 128 + static_cast<int>(thread_index())) * 4 + i % 4];
  hold(d);
  const u64 left = matrix_operand(shared + kA, 16, 1024);
  const u64 right = matrix_operand(shared + kB, MnMajor & kRightMn ? 8192 : 16, 1024);
  matrix_fence<3>();
  for (u32 k = 0; k < 4; ++k) {
    const u64 step = operand_advance(right, k * (MnMajor & kRightMn ? 2048 : 32));
    if (p.in_registers) matrix_multiply<MnMajor & kRightMn>(Tag{}, d, a + 4 * k, step, p.accumulate || k > 0);
    else matrix_multiply<MnMajor>(Tag{}, d, operand_advance(left, k * (MnMajor & kLeftMn ? 2048 : 32)), step, p.accumulate || k > 0);
  }
  matrix_commit<4>();
  if (p.which == 1) a[3] += 1;
  if (p.which == 2) d[5] = 0.0f;
  if (p.which == 9) d[0] += 1000.0f;
  if (p.which == 12) d[1] += d[2];
  if (p.which != 3) matrix_wait<5, 0>();
  hold(d);
  hold(a);
  write(d, p.out);
}

template <int N, class Tag>
static void by_order(const Params& p) {
  if (p.left_transposed) p.transposed ? product<N, Tag, kLeftMn | kRightMn>(p) : product<N, Tag, kLeftMn>(p);
  else p.transposed ? product<N, Tag, kRightMn>(p) : product<N, Tag, 0>(p);
}
template <int N>
static void whole(const Params& p) {
  load(p);
  if (p.bf16) by_order<N, Bf16>(p);
  else by_order<N, F16>(p);
}

// Two groups in flight: the wait for the first shows the first only. out: 6 values a thread.
TJ_KERNEL(groups, 128, Params, p) {
  load(p);
  const u32 shared = shared_base();
  const u64 left = matrix_operand(shared + kA, 16, 1024), right = matrix_operand(shared + kB, 16, 1024);
  float first[32], second[32];
  float* out = p.out + thread_index() * 6;
  if (p.which != 8) matrix_fence<10>();
  matrix_multiply<0>(F16{}, first, left, right, false);
  matrix_commit<11>();
  matrix_multiply<0>(F16{}, second, p.which == 4 && thread_index() == 77 ? left + 2 : left, right, false);
  matrix_commit<12>();
  out[0] = first[0]; out[1] = second[0];
  matrix_wait<13, 1>();
  out[2] = first[0]; out[3] = second[0];
  if (p.which == 5 && warp_index() == 3) return;
  matrix_wait<14, 0>();
  out[4] = first[0]; out[5] = second[0];
  if (p.which == 6) { matrix_fence<20>(); if (warp_index() < 3) matrix_multiply<0>(F16{}, first, left, right, false); matrix_commit<15>(); matrix_wait<16, 0>(); }
  if (p.which == 10) { first[3] += 1; matrix_multiply<0>(F16{}, first, left, right, true); }
  if (p.which == 11) { matrix_fence<21>(); first[3] += 1; matrix_multiply<0>(F16{}, first, left, right, true); }
  if (p.which == 7) { matrix_fence<20>(); matrix_multiply<0>(F16{}, first, left, operand_advance(right, 60000), false); matrix_commit<17>(); matrix_wait<18, 0>(); }
  if (p.which == 15) {  // a right operand of warp 0's, of which warp 1 has not heard
    const u32 place = shared + kB + 16384;
    const u32 zeros[4] = {};
    for (u32 row = lane_index(); warp_index() == 0 && row < 64; row += 32)
      for (u32 half = 0; half < 2; ++half) store_shared(place + row * 128 + 16 * (half ^ (row & 7)), zeros);
    proxy_fence<22>();
    if (warp_index() != 1) named_sync<23>(1, 96);
    matrix_fence<20>();
    matrix_multiply<0>(F16{}, first, left, matrix_operand(place, 16, 1024), false);
    matrix_commit<17>();
    matrix_wait<18, 0>();
  }
  if (p.which == 13 || p.which == 14) {  // a right operand without its first row, of which the second has one half or both
    const u32 place = shared + kB + 16384, row = thread_index(), swizzle = row & 7;
    const u32 zeros[4] = {};
    if (row > 0 && row < 64) store_shared(place + row * 128 + 16 * (1 ^ swizzle), zeros);
    if (row > (p.which == 13 ? 1 : 0) && row < 64) store_shared(place + row * 128 + 16 * swizzle, zeros);
    proxy_fence<22>();
    block_sync();
    matrix_fence<20>();
    matrix_multiply<0>(F16{}, first, left, matrix_operand(place, 16, 1024), false);
    matrix_commit<17>();
    matrix_wait<18, 0>();
  }
}
)";

ModelUnit& unit() {
  static ModelUnit made(with_widths(kUnit));
  return made;
}

struct Problem : MatrixProblem {
  std::vector<unsigned> fragments = left_fragments(left, kDepth);
  Params params{};

  Problem(int n, DType of, bool transposed, unsigned seed) : MatrixProblem(kRows, n, kDepth, of, transposed, seed) {
    map_matrix(*unit().driver, {left.data(), kRows, kDepth, kRows}, &params.a);
    if (transposed)
      map_matrix(*unit().driver, {right.data(), kDepth, n, kDepth}, &params.b);
    else
      map_matrix(*unit().driver, {right.data(), n, kDepth, n}, &params.b);
    params.fragments = fragments.data();
    params.out = out.data();
    params.columns = n;
    params.bf16 = of == DType::bf16;
    params.transposed = transposed;
  }
  void transpose_left() {
    map_matrix(*unit().driver, {left_by_depth.data(), kDepth, kRows, kDepth}, &params.a);
    params.left_transposed = 1;
  }
  void run(const std::string& symbol) { unit().run(symbol, params, 128, 8192 + 256 * 128 + 8); }
  void run() { run(width_symbol(columns)); }
};

TEST_CASE("products of every width, type, order and operand place agree with double") {
  unsigned seed = 0;
  for (int columns : kGroupColumns)
    for (int form = 0; form < 32; ++form) {
      if ((form & 16) != 0 && (form & 4) != 0) continue;  // registers have one order
      Problem problem(columns, (form & 1) != 0 ? DType::bf16 : DType::f16, (form & 2) != 0, ++seed);
      problem.params.in_registers = (form & 4) != 0;
      problem.params.accumulate = (form & 8) != 0;
      if ((form & 16) != 0) problem.transpose_left();
      unit().options({seed, {}, 1, {}});
      problem.run();
      CAPTURE(columns);
      CAPTURE(form);
      CHECK(problem.worst(problem.params.accumulate) < 1e-4);
    }
  unit().options({});
}

TEST_CASE("16-bit elements mean what IEEE says") {
  CHECK(to_float(0x3c00, TJ_MODEL_F16) == 1.0f);
  CHECK(to_float(0xc500, TJ_MODEL_F16) == -5.0f);
  CHECK(to_float(0x0001, TJ_MODEL_F16) == 0x1p-24f);
  CHECK(to_float(0x7bff, TJ_MODEL_F16) == 65504.0f);
  CHECK(std::isinf(to_float(0x7c00, TJ_MODEL_F16)));
  CHECK(to_float(0x3fc0, TJ_MODEL_BF16) == 1.5f);
}

TEST_CASE("accumulators are NaN from issue to the wait that covers them") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    unit().options({seed, {}, 1, {}});
    Problem problem(64, DType::f16, false, static_cast<unsigned>(seed));
    std::vector<float> seen(128 * 6);
    problem.params.out = seen.data();
    problem.run("groups");
    int wrong = 0;
    for (std::size_t t = 0; t < 128; ++t) {
      const float* s = &seen[t * 6];
      wrong += !std::isnan(s[0]) + !std::isnan(s[1]) + std::isnan(s[2]) + !std::isnan(s[3]) + std::isnan(s[5]) +
               (s[4] != s[2]);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("switching a wait off shows as NaN, and the copy's wait as a fault whatever the order") {
  Problem without_wait(64, DType::f16, false, 3), without_copy_wait(64, DType::f16, false, 3);
  std::vector<float> seen(128 * 6);
  without_wait.params.out = seen.data();
  unit().options({1, {13}, 1, {}});
  without_wait.run("groups");
  CHECK(std::isnan(seen[2]));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    unit().options({seed, {2}, 1, {}});
    CHECK(outcome_of([&] { without_copy_wait.run(); }).code == Code::model_fault);
  }
  unit().options({});
}

TEST_CASE("what a warpgroup must not do is a fault or a deadlock") {
  struct Case {
    int which;
    const char* symbol;
    Code code;
    const char* says;
  };
  for (const Case& c :
       {Case{1, "kernel_64", Code::model_fault, "left operand changed between its issue and its wait"},
        Case{2, "kernel_64", Code::model_fault, "accumulators of a matrix instruction changed"},
        Case{9, "kernel_64", Code::model_fault,
             "accumulators of a matrix instruction changed"},  // a number added, to any of them
        Case{12, "kernel_64", Code::model_fault,
             "accumulators of a matrix instruction changed"},  // one added to another
        Case{3, "kernel_64", Code::model_fault, "ends while 4 matrix instructions have not been waited for"},
        Case{4, "groups", Code::model_fault, "warpgroup 0 disagree on the left descriptor"},
        Case{5, "groups", Code::model_fault, "have not been waited for"},
        Case{6, "groups", Code::deadlock, "deadlock in block 0"},
        Case{8, "groups", Code::model_fault, "matrix_multiply is given registers that no matrix_fence has preceded"},
        Case{10, "groups", Code::model_fault,
             "registers that a matrix_wait has handed back, with no matrix_fence since"},
        Case{11, "groups", Code::model_fault, "registers that have changed since the last matrix_fence"},
        Case{13, "groups", Code::model_fault, "16 bytes at shared address 0x6490, which nobody has written"},
        Case{7, "groups", Code::model_fault, "a matrix operand's read of 16 bytes at shared address"}}) {
    CAPTURE(c.which);
    Problem problem(64, DType::f16, false, 9);
    std::vector<float> seen(128 * 64);
    problem.params.out = seen.data();
    problem.params.which = c.which;
    problem.params.in_registers = 1;
    const Error e = outcome_of([&] { problem.run(c.symbol); });
    CHECK(e.code == c.code);
    CHECK_MESSAGE(contains(e.message, c.says), e.message);
    if (c.code == Code::deadlock) CHECK(contains(e.log, "by all 128 threads 2, done 2"));
  }
}

TEST_CASE("a warp that has not heard of an operand is named, whichever warp began the instruction") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    unit().options({seed, {}, 1, {}});
    Problem problem(64, DType::f16, false, 9);
    std::vector<float> seen(128 * 64);
    problem.params.out = seen.data();
    problem.params.which = 15;
    const Error e = outcome_of([&] { problem.run("groups"); });
    CHECK(e.code == Code::model_fault);
    CHECK_MESSAGE(contains(e.message, "block 0: warp 1, lane "), e.message);
  }
  unit().options({});
}

TEST_CASE("a row that nobody has written is one outside of the tensor") {
  Problem problem(64, DType::f16, false, 9);
  std::vector<float> seen(128 * 64);
  problem.params.out = seen.data();
  problem.params.which = 14;
  problem.run("groups");
}

}  // namespace
