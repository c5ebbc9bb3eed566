// Protects the model's matrix instruction on tensor memory. Products of every type, order and place of operands are
// held against double. They go through boxes in swizzled shared memory and through tensor memory, as a kernel lays them
// out. Bad descriptors are refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "model/matrix_problem.hpp"
#include "model/model_unit.hpp"
#include "model/primitive_texts.hpp"

namespace {

using namespace tj::testing;
using tj::Code;
using tj::DType;
using tj::Error;

constexpr int kRows = 128, kDepth = 64;

struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;  ///< rows of the left operand, for those that store it to tensor memory
  float* out;            ///< 128 x columns
  int columns, bf16, in_tensor, right_mn, left_mn, fragments, few, which;
};

ModelUnit& unit() {
  static ModelUnit made(tensor_matrix_text(), "sm_100a");
  return made;
}

struct Problem : MatrixProblem {
  std::vector<unsigned> words = std::vector<unsigned>(kRows * kDepth / 2);  ///< the left operand, two elements each
  Params params{};

  Problem(int n, DType of, bool left_mn, bool is_right_mn, unsigned seed)
      : MatrixProblem(kRows, n, kDepth, of, is_right_mn, seed) {
    std::memcpy(words.data(), left.data(), words.size() * sizeof(unsigned));
    if (left_mn)
      map_matrix(*unit().driver, {left_by_depth.data(), kDepth, kRows, kDepth}, &params.a);
    else
      map_matrix(*unit().driver, {left.data(), kRows, kDepth, kRows}, &params.a);
    if (right_mn)
      map_matrix(*unit().driver, {right.data(), kDepth, n, kDepth}, &params.b);
    else
      map_matrix(*unit().driver, {right.data(), n, kDepth, n}, &params.b);
    out.assign(out.size(), -1.0f);
    params.left = words.data();
    params.out = out.data();
    params.columns = n;
    params.bf16 = of == DType::bf16;
    params.left_mn = left_mn;
    params.right_mn = right_mn;
  }
  void run() { unit().run("kernel", params, 192, 1024 + 16384 + 32768); }
};

TEST_CASE("products of every width, type, order and operand place agree with double") {
  unsigned seed = 0;
  for (int columns : {16, 48, 96, 128, 256})
    for (int form = 0; form < 16; ++form) {
      const bool in_tensor = (form & 4) != 0;
      if (in_tensor && (form & 8) != 0) continue;  // tensor memory has one order
      Problem problem(columns, (form & 1) != 0 ? DType::bf16 : DType::f16, (form & 8) != 0, (form & 2) != 0, ++seed);
      problem.params.in_tensor = in_tensor;
      problem.params.fragments = seed % 2;
      unit().options({seed, {}, 1, {}});
      problem.run();
      CAPTURE(columns);
      CAPTURE(form);
      CHECK(problem.worst() < 1e-4);
    }
  unit().options({});
}

TEST_CASE(
    "products of 64 rows lie in 16 of each warp's lanes, the lower or the upper ones, with sixteen bits of left "
    "operand beside them") {
  unsigned seed = 0;
  for (int form = 0; form < 16; ++form) {
    const bool in_tensor = (form & 4) != 0;
    if (in_tensor && (form & 8) != 0) continue;
    for (int few = 1; few <= 2; ++few) {
      Problem problem(96, (form & 1) != 0 ? DType::bf16 : DType::f16, (form & 8) != 0, (form & 2) != 0, ++seed);
      problem.params.in_tensor = in_tensor;
      problem.params.fragments = 1;
      problem.params.few = few;
      unit().options({seed, {}, 1, {}});
      problem.run();
      CAPTURE(form);
      CAPTURE(few);
      problem.rows = kRows / 2;
      CHECK(problem.worst() < 1e-4);
      CHECK(std::count(problem.out.begin() + kRows / 2 * 96, problem.out.end(), -1.0f) == kRows / 2 * 96);
    }
  }
  unit().options({});
}

TEST_CASE("a left operand of 64 rows in other lanes than the sums is a fault") {
  Problem problem(96, DType::f16, false, false, 9);
  problem.params.in_tensor = problem.params.fragments = problem.params.few = 1;
  problem.params.which = 11;
  const Error e = outcome_of([&] { problem.run(); });
  CHECK(e.code == Code::model_fault);
  INFO(e.message);
  CHECK(contains(e.message,
                 "sums in lanes 0-111 (16 of each 32), columns 0-95 of tensor memory and a left operand in lanes "
                 "16-127 (16 of each 32), columns 256-263; allowed are the same lanes"));
}

TEST_CASE("what a descriptor must not say is a fault that names what it says and what is allowed") {
  struct Case {
    int which;
    const char* says;
  };
  for (const Case& c : {Case{1, "right operand: the descriptor"}, Case{2, "has 3 in bits 46 to 48; allowed is 1"},
                        Case{3, "has swizzle mode 3; allowed are 0 (none), 2 (128 bytes), 4 (64) and 6 (32)"},
                        Case{4, "a matrix operand's read of 16 bytes at shared address"},
                        Case{5, "has 160 rows; allowed are 64 and 128 for one block"},
                        Case{6, "has bits set that the model does not know: 0x2000"},
                        Case{7, "has operands of types 0 and 1; allowed are two of 0, f16, or two of 1, bf16"},
                        Case{8, "has sums of type 3; allowed is 1, f32"}}) {
    CAPTURE(c.which);
    Problem problem(128, DType::f16, false, false, 9);
    problem.params.which = c.which;
    const Error e = outcome_of([&] { problem.run(); });
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
    if (!contains(e.message, c.says)) MESSAGE(e.message);
  }
}

TEST_CASE("an operand that a copy brought with another swizzle than its descriptor says is a fault") {
  Problem problem(128, DType::f16, false, false, 9);
  map_matrix(*unit().driver, {problem.right.data(), 128, kDepth, 128, 32, 64}, &problem.params.b);
  problem.params.which = 10;
  const Error e = outcome_of([&] { problem.run(); });
  CHECK(e.code == Code::model_fault);
  INFO(e.message);
  CHECK(contains(e.message, "says a swizzle of 128 bytes, the copy that brought the operand had one of 64"));
}

TEST_CASE("a wait, a fence or a commit that is switched off shows") {
  for (int site : {2, 3, 4, 5, 6, 7, 8, 9, 11, 12})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(site);
      Problem problem(96, DType::f16, false, false, 3);
      problem.params.in_tensor = 1;
      unit().options({seed, {site}, 1, {}});
      CHECK(outcome_of([&] { problem.run(); }).stage == tj::Stage::model);
    }
  unit().options({});
}

}  // namespace
