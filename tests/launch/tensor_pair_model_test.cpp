// Protects tensor memory of a pair of blocks: allocated and freed together, products of 256 rows whose operands and sums lie half in each
// block, and what must be waited for across the two.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "launch/model_matrix_math.hpp"
#include "launch/model_unit.hpp"
#include "types.cuh"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::error_of;

constexpr int kRows = 256, kColumns = 64, kDepth = 64;

struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;
  float* out;
  int in_tensor, which;
};

constexpr const char* kUnit = R"(
struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;
  float* out;
  int in_tensor, which;
};
constexpr u32 kCopied = 0, kReady = 8, kStored = 16, kDone = 24, kPlace = 32, kA = 1024, kB = kA + 16384, kLeftColumn = 64;

static void issue(const Params& p, u32 tensor) {
  constexpr u32 kInstruction = matrix_instruction<256, 64, 0>(F16{});
  using Steps = MatrixSteps<4, 32, 32>;
  const u32 shared = shared_base();
  const u64 a = matrix_operand(shared + kA, 16, 1024), b = matrix_operand(shared + kB, 16, 1024);
  mbarrier_wait<5>(shared + kReady, 0);
  if (p.in_tensor) {
    mbarrier_wait<6>(shared + kStored, 0);
    tensor_after_sync<7>();
    matrix_multiply_tensor_steps<Steps, 2>(tensor, tensor + kLeftColumn, b, kInstruction, false);
  } else {
    matrix_multiply_steps<Steps, 2>(tensor, a, b, kInstruction, false);
  }
  matrix_commit_multicast<8, 2>(shared + kDone, 3);
}
static void copy(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), rank = cluster_rank();
  mbarrier_expect<2>(shared + kCopied, 16384 + 4096);
  copy_box_4d(shared + kA, &p.a, shared + kCopied, 0, static_cast<int>(128 * rank), 0, 0);
  copy_box_4d(shared + kB, &p.b, shared + kCopied, 0, static_cast<int>(32 * rank), 0, 0);
  mbarrier_wait<3>(shared + kCopied, 0);
  if (p.which == 1 && rank == 1) matrix_multiply_steps<MatrixSteps<4, 32, 32>, 2>(tensor, matrix_operand(shared + kA, 16, 1024), matrix_operand(shared + kB, 16, 1024), matrix_instruction<256, 64, 0>(F16{}), false);
  if (p.which == 2 && rank == 0) matrix_multiply_steps<MatrixSteps<4, 32, 32>>(tensor, matrix_operand(shared + kA, 16, 1024), matrix_operand(shared + kB, 16, 1024), matrix_instruction<128, 32, 0>(F16{}), false);
  mbarrier_arrive_at<4>(shared + kReady, 0);
  if (rank == 0) issue(p, tensor);
}
static void rows(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), row = 128 * cluster_rank() + thread_index(), mine = tensor_lanes(tensor);
  if (p.in_tensor) {
    u32 words[32];
    for (u32 i = 0; i < 32; ++i) words[i] = p.left[row * 32 + i];
    tensor_store(mine + kLeftColumn, words);
    tensor_store_wait<9>();
    tensor_before_sync<10>();
    mbarrier_arrive_at<11>(shared + kStored, 0);
  }
  mbarrier_wait<12>(shared + kDone, 0);
  tensor_after_sync<13>();
  float v[64];
  tensor_load(mine, v);
  tensor_load_wait<14>();
  for (u32 c = 0; c < 64; ++c) p.out[row * 64 + c] = v[c];
}

TJ_KERNEL(kernel, 192, Params, p) {
  const u32 shared = shared_base();
  if (warp_index() == 5 && (p.which != 3 || cluster_rank() == 0)) tensor_allocate<2>(shared + kPlace, p.which == 4 ? 64 + 64 * cluster_rank() : 128);
  if (thread_index() == 0) {
    mbarrier_init(shared + kCopied, 1);
    mbarrier_init(shared + kReady, 2);
    mbarrier_init(shared + kStored, 256);
    mbarrier_init(shared + kDone, 1);
    mbarrier_init_done();
  }
  block_sync();
  cluster_sync<1>();
  const u32 tensor = load_shared<u32>(shared + kPlace);
  if (warp_index() == 4) {
    if (elect_one()) copy(p, tensor);
  } else if (warp_index() < 4) {
    rows(p, tensor);
  }
  block_sync();
  if (warp_index() == 5) {
    tensor_relinquish<2>();
    tensor_free<2>(tensor, 128);
  }
}
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit, "sm_100a");
  return made;
}

/// Small integers, whose products are exact.
struct Problem {
  std::vector<std::uint16_t> a = std::vector<std::uint16_t>(kRows * kDepth), b = std::vector<std::uint16_t>(kColumns * kDepth);
  std::vector<unsigned> left = std::vector<unsigned>(kRows * kDepth / 2);
  std::vector<float> out = std::vector<float>(kRows * kColumns, -1.0f);
  Params params{};

  static int left_at(int row, int k) { return (7 * row + 3 * k + row / 9) % 5 - 2; }
  static int right_at(int column, int k) { return (5 * column + 11 * k + column / 7) % 7 - 3; }
  static std::uint16_t half(int value) {
    static constexpr std::uint16_t kHalf[] = {0x0000, 0x3c00, 0x4000, 0x4200};  // 0 to 3
    return static_cast<std::uint16_t>(kHalf[std::abs(value)] | (value < 0 ? 0x8000u : 0u));
  }
  static void map(tj::TensorMap* out_map, void* base, int rows, int box_rows) {
    tj::support::TensorMapDesc desc;
    desc.base = base;
    desc.rank = 4;
    desc.dims = {kDepth, static_cast<std::uint64_t>(rows), 1, 1};
    const auto all = static_cast<std::uint64_t>(rows) * kDepth * 2;
    desc.stride_bytes = {2, kDepth * 2, all, all};
    desc.box = {kDepth, static_cast<std::uint32_t>(box_rows), 1, 1};
    unit().driver->encode_tensor_map(0, desc, out_map);
  }
  Problem() {
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < kDepth; ++k) {
        a[static_cast<std::size_t>(row * kDepth + k)] = half(left_at(row, k));
        left[static_cast<std::size_t>((row * kDepth + k) / 2)] |= static_cast<unsigned>(half(left_at(row, k))) << (k % 2 * 16);
      }
    for (int column = 0; column < kColumns; ++column)
      for (int k = 0; k < kDepth; ++k) b[static_cast<std::size_t>(column * kDepth + k)] = half(right_at(column, k));
    map(&params.a, a.data(), kRows, kRows / 2);
    map(&params.b, b.data(), kColumns, kColumns / 2);
    params.left = left.data();
    params.out = out.data();
  }
  int wrong() const {
    int count = 0;
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column) {
        int sum = 0;
        for (int k = 0; k < kDepth; ++k) sum += left_at(row, k) * right_at(column, k);
        count += out[static_cast<std::size_t>(row * kColumns + column)] != static_cast<float>(sum);
      }
    return count;
  }
  Error run(unsigned cluster = 2) {
    return error_of([&] { unit().run("kernel", params, 192, 1024 + 16384 + 4096, 2, cluster); });
  }
};

TEST_CASE("products of a pair are exact in both blocks, whatever the seed") {
  for (int in_tensor = 0; in_tensor < 2; ++in_tensor)
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(in_tensor);
      Problem problem;
      problem.params.in_tensor = in_tensor;
      unit().options({seed, {}, 1, {}});
      CHECK(problem.run().message == "nothing was thrown");
      CHECK(problem.wrong() == 0);
    }
  unit().options({});
}

TEST_CASE("without any one of its waits, fences, commits and arrivals it is a fault at every seed") {
  for (int site : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(site);
      CAPTURE(seed);
      Problem problem;
      problem.params.in_tensor = 1;
      unit().options({seed, {site}, 1, {}});
      CHECK(problem.run().stage == tj::Stage::model);
    }
  unit().options({});
}

TEST_CASE("what a pair must not do is a fault or a deadlock") {
  struct Case {
    int which;
    unsigned cluster;
    const char* says;
  };
  for (const Case& c : {Case{0, 1, "tensor memory by a pair of blocks in a cluster of 1"}, Case{1, 2, "matrix_multiply of a pair of blocks in the block of rank 1"},
                        Case{2, 2, "tensor memory by one block after a pair of blocks; allowed is one of the two throughout a kernel"}, Case{3, 2, "the warp of the other block of its pair, to do the same tensor_allocate"},
                        Case{4, 2, "columns while the warp of the other block of its pair is in tensor_allocate of"}}) {
    CAPTURE(c.which);
    Problem problem;
    problem.params.which = c.which;
    const Error e = problem.run(c.cluster);
    INFO(e.message);
    CHECK(e.stage == tj::Stage::model);
    CHECK((contains(e.message, c.says) || contains(e.log, c.says)));
  }
}

}  // namespace
