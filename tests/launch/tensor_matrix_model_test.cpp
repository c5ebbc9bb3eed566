// Protects the model's matrix instruction on tensor memory: products of every type, order and place of operands against double, through boxes
// in swizzled shared memory and through tensor memory as a kernel lays them out; and what a descriptor must not say.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "launch/model_matrix_math.hpp"
#include "launch/model_unit.hpp"
#include "launch/primitive_texts.hpp"
#include "types.cuh"

namespace {

using tj::Code;
using tj::Error;
using tj::launch::model::to_float;
using tj::testing::contains;
using tj::testing::error_of;

constexpr int kRows = 128, kDepth = 64;

struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;  ///< rows of the left operand, for those that store it to tensor memory
  float* out;            ///< 128 x columns
  int columns, bf16, in_tensor, right_mn, left_mn, fragments, which;
};

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(tj::testing::tensor_matrix_text(), "sm_100a");
  return made;
}

/// Operands of one product, and its result in double.
struct Problem {
  int columns;
  bool bf16, right_mn;
  std::vector<std::uint16_t> a = std::vector<std::uint16_t>(kRows * kDepth), by_depth = a, b;  ///< by_depth: the same as a, MN-major
  std::vector<unsigned> left = std::vector<unsigned>(kRows * kDepth / 2);
  std::vector<float> out;
  Params params{};

  Problem(int n, bool is_bf16, bool is_left_mn, bool is_right_mn, unsigned seed)
      : columns(n), bf16(is_bf16), right_mn(is_right_mn), b(static_cast<std::size_t>(n) * kDepth), out(static_cast<std::size_t>(kRows * n), -1.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto& v : a) v = rounded(normal(random));
    for (auto& v : b) v = rounded(normal(random));
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < kDepth; ++k) {
        by_depth[static_cast<std::size_t>(k * kRows + row)] = at(a, row, k);
        left[static_cast<std::size_t>((row * kDepth + k) / 2)] |= static_cast<unsigned>(at(a, row, k)) << (k % 2 * 16);
      }
    if (is_left_mn) map(&params.a, by_depth.data(), kRows, kDepth, kDepth);
    else map(&params.a, a.data(), kDepth, kRows, kRows);
    if (right_mn) map(&params.b, b.data(), columns, kDepth, kDepth);
    else map(&params.b, b.data(), kDepth, columns, columns);
    params.left = left.data();
    params.out = out.data();
    params.columns = columns;
    params.bf16 = bf16;
    params.left_mn = is_left_mn;
    params.right_mn = right_mn;
  }
  static std::uint16_t at(const std::vector<std::uint16_t>& m, int row, int k) { return m[static_cast<std::size_t>(row * kDepth + k)]; }
  tj_model_element element() const { return bf16 ? TJ_MODEL_BF16 : TJ_MODEL_F16; }
  /// Any 16 bits near the value will do: what they mean is read back.
  std::uint16_t rounded(float value) const {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (bf16) return static_cast<std::uint16_t>(bits >> 16);
    if (std::fabs(value) < 1e-3f) return 0;
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (((bits & 0x7fffffffu) >> 13) - (112u << 10)));
  }
  static void map(tj::TensorMap* out_map, void* base, int inner, int outer, int box_rows, std::uint32_t box_columns = 64, int swizzle_bytes = 128) {
    tj::support::TensorMapDesc desc;
    desc.base = base;
    desc.rank = 4;
    desc.dims = {static_cast<std::uint64_t>(inner), static_cast<std::uint64_t>(outer), 1, 1};
    const auto pitch = static_cast<std::uint64_t>(inner) * 2;
    desc.stride_bytes = {2, pitch, pitch * static_cast<std::uint64_t>(outer), pitch * static_cast<std::uint64_t>(outer)};
    desc.box = {box_columns, static_cast<std::uint32_t>(box_rows), 1, 1};
    desc.swizzle_bytes = swizzle_bytes;
    unit().driver->encode_tensor_map(0, desc, out_map);
  }
  double expected(int row, int column) const {
    double sum = 0;
    for (int k = 0; k < kDepth; ++k) {
      const std::uint16_t right = right_mn ? b[static_cast<std::size_t>(k * columns + column)] : at(b, column, k);
      sum += static_cast<double>(to_float(at(a, row, k), element())) * static_cast<double>(to_float(right, element()));
    }
    return sum;
  }
  double worst() const {
    double largest = 0;
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < columns; ++column) {
        const double difference = std::fabs(static_cast<double>(out[static_cast<std::size_t>(row * columns + column)]) - expected(row, column));
        if (!(difference <= largest)) largest = std::isnan(difference) ? 1e9 : difference;
      }
    return largest;
  }
  void run() { unit().run("kernel", params, 192, 1024 + 16384 + 32768); }
};

TEST_CASE("products of every width, type, order and operand place agree with double") {
  unsigned seed = 0;
  for (int columns : {16, 48, 96, 128, 256})
    for (int form = 0; form < 16; ++form) {
      const bool in_tensor = (form & 4) != 0;
      if (in_tensor && (form & 8) != 0) continue;  // tensor memory has one order
      Problem problem(columns, form & 1, form & 8, form & 2, ++seed);
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

TEST_CASE("what a descriptor must not say is a fault that names what it says and what is allowed") {
  struct Case {
    int which;
    const char* says;
  };
  for (const Case& c : {Case{1, "right operand: the descriptor"}, Case{2, "has 3 in bits 46 to 48; allowed is 1"}, Case{3, "has swizzle mode 3; allowed are 0 (none), 2 (128 bytes), 4 (64) and 6 (32)"},
                        Case{4, "a matrix operand's read of 16 bytes at shared address"}, Case{5, "has 160 rows; allowed are 128 for one block"},
                        Case{6, "has bits set that the model does not know: 0x2000"}, Case{7, "has operands of types 0 and 1; allowed are two of 0, f16, or two of 1, bf16"},
                        Case{8, "has sums of type 3; allowed is 1, f32"}}) {
    CAPTURE(c.which);
    Problem problem(128, false, false, false, 9);
    problem.params.which = c.which;
    const Error e = error_of([&] { problem.run(); });
    CHECK(e.code == Code::model_fault);
    CHECK(contains(e.message, c.says));
    if (!contains(e.message, c.says)) MESSAGE(e.message);
  }
}

TEST_CASE("an operand that a copy brought with another swizzle than its descriptor says is a fault") {
  Problem problem(128, false, false, false, 9);
  problem.map(&problem.params.b, problem.b.data(), kDepth, 128, 128, 32, 64);
  problem.params.which = 10;
  const Error e = error_of([&] { problem.run(); });
  CHECK(e.code == Code::model_fault);
  INFO(e.message);
  CHECK(contains(e.message, "says a swizzle of 128 bytes, the copy that brought the operand had one of 64"));
}

TEST_CASE("a wait, a fence or a commit that is switched off shows") {
  for (int site : {2, 3, 4, 5, 6, 7, 8, 9, 11, 12})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(site);
      Problem problem(96, false, false, false, 3);
      problem.params.in_tensor = 1;
      unit().options({seed, {site}, 1, {}});
      CHECK(error_of([&] { problem.run(); }).stage == tj::Stage::model);
    }
  unit().options({});
}

}  // namespace
