// Protects tensor memory of a pair of blocks. Columns are allocated and freed together; products of 256 rows have
// operands and sums half in each block. Also the waits across the two blocks.
#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "model/matrix_problem.hpp"
#include "model/model_unit.hpp"
#include "model/primitive_texts.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::outcome_of;

constexpr int kRows = 256, kColumns = 64, kDepth = 64;

struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;
  float* out;
  int in_tensor, which;
};

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(tj::testing::tensor_pair_text(), "sm_100a");
  return made;
}

/// Small integers, whose products are exact.
struct Problem {
  std::vector<std::uint16_t> a = std::vector<std::uint16_t>(kRows * kDepth),
                             b = std::vector<std::uint16_t>(kColumns * kDepth);
  std::vector<unsigned> left = std::vector<unsigned>(kRows * kDepth / 2);
  std::vector<float> out = std::vector<float>(kRows * kColumns, -1.0f);
  Params params{};

  static int left_at(int row, int k) { return (7 * row + 3 * k + row / 9) % 5 - 2; }
  static int right_at(int column, int k) { return (5 * column + 11 * k + column / 7) % 7 - 3; }
  static std::uint16_t half(int value) {
    static constexpr std::uint16_t kHalf[] = {0x0000, 0x3c00, 0x4000, 0x4200};  // 0 to 3
    return static_cast<std::uint16_t>(kHalf[std::abs(value)] | (value < 0 ? 0x8000u : 0u));
  }
  Problem() {
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < kDepth; ++k) {
        a[static_cast<std::size_t>(row * kDepth + k)] = half(left_at(row, k));
        left[static_cast<std::size_t>((row * kDepth + k) / 2)] |= static_cast<unsigned>(half(left_at(row, k)))
                                                                  << (k % 2 * 16);
      }
    for (int column = 0; column < kColumns; ++column)
      for (int k = 0; k < kDepth; ++k) b[static_cast<std::size_t>(column * kDepth + k)] = half(right_at(column, k));
    tj::testing::map_matrix(*unit().driver, {a.data(), kRows, kDepth, kRows / 2}, &params.a);
    tj::testing::map_matrix(*unit().driver, {b.data(), kColumns, kDepth, kColumns / 2}, &params.b);
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
  Problem& with(int in_tensor, int which) {
    params.in_tensor = in_tensor;
    params.which = which;
    return *this;
  }
  Error run(unsigned cluster = 2) {
    return outcome_of([&] { unit().run("kernel", params, 192, 1024 + 16384 + 4096, 2, cluster); });
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
  for (int site : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
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

TEST_CASE(
    "copies of both blocks that report to the first are exact; without their announcement, or the wait for them, it is "
    "a fault") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Problem problem;
    unit().options({seed, {}, 1, {}});
    CHECK(problem.with(static_cast<int>(seed % 2), 5).run().message == "nothing was thrown");
    CHECK(problem.wrong() == 0);
    for (int site : {2, 3}) {
      CAPTURE(site);
      unit().options({seed, {site}, 1, {}});
      CHECK(Problem().with(0, 5).run().stage == tj::Stage::model);
    }
  }
  unit().options({});
}

TEST_CASE("a block that does not wait for what its pair's unit does there is a fault, whichever comes first") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Problem problem;
    unit().options({seed, {}, 1, {}});
    const Error e = problem.with(0, 6).run();
    CAPTURE(e.message);
    CHECK(e.stage == tj::Stage::model);
  }
  unit().options({});
}

TEST_CASE("what a pair must not do is a fault or a deadlock") {
  struct Case {
    int which;
    unsigned cluster;
    const char* says;
  };
  for (const Case& c : {Case{0, 1, "tensor memory by a pair of blocks in a cluster of 1"},
                        Case{5, 1, "in a cluster of 1"}, Case{7, 2, "may still be used by the block of rank"},
                        Case{1, 2, "matrix_multiply of a pair of blocks in the block of rank 1"},
                        Case{3, 2, "the warp of the other block of its pair, to do the same tensor_allocate"},
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

TEST_CASE("one block and a pair in one kernel are a fault, as ptxas has it") {
  tj::testing::ModelUnit mixed(
      "struct Params { int n; };\nTJ_KERNEL(kernel, 32, Params, p) {\n  tensor_allocate<2>(shared_base(), 32 + "
      "static_cast<u32>(p.n));\n  tensor_relinquish();\n}\n",
      "sm_100a");
  struct {
    int n;
  } none{0};
  const Error e = outcome_of([&] { mixed.run("kernel", none, 32, 64, 2, 2); });
  CHECK(contains(e.message,
                 "tensor memory by one block after a pair of blocks; allowed is one of the two throughout a kernel"));
}

}  // namespace
