// Protects the model's matrix instructions on e4m3: the meaning of its bytes, and products of every width through
// swizzled shared memory against exact arithmetic. A NaN reaches its row and no other.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "model/matrix_math.hpp"
#include "model/matrix_problem.hpp"
#include "model/model_unit.hpp"
#include "support/index.hpp"

namespace {

using tj::support::at;

using tj::model::e4m3_to_float;
using tj::testing::contains;
using tj::testing::outcome_of;

constexpr int kRows = 64, kDepth = 128;

struct alignas(64) Params {
  tj::TensorMap a, b;
  float* out;  ///< 64 x columns; also what the sums hold before
  int columns, accumulate;
};

constexpr const char* kUnit = R"(
struct alignas(64) Params {
  tj::TensorMap a, b;
  float* out;
  int columns, accumulate;
};
constexpr u32 kA = 0, kB = 8192, kBarrier = 8192 + 256 * 128;

static void load(const Params& p) {
  const u32 shared = shared_base();
  if (thread_index() == 0) {
    mbarrier_init(shared + kBarrier, 1);
    mbarrier_init_done();
    mbarrier_expect<1>(shared + kBarrier, 8192u + p.columns * 128u);
    copy_box_4d(shared + kA, &p.a, shared + kBarrier, 0, 0, 0, 0);
    copy_box_4d(shared + kB, &p.b, shared + kBarrier, 0, 0, 0, 0);
  }
  block_sync();
  mbarrier_wait<2>(shared + kBarrier, 0);
}

template <int N>
static void whole(const Params& p) {
  load(p);
  const u32 shared = shared_base(), row = 16 * warp_index() + lane_index() / 4;
  float d[N / 2];
  const auto place = [&](int i) { return p.out + (row + 8 * (i % 4 / 2)) * N + 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2; };
  for (int i = 0; i < N / 2; ++i) d[i] = *place(i);
  matrix_fence<3>();
  const u64 left = matrix_operand(shared + kA, 16, 1024), right = matrix_operand(shared + kB, 16, 1024);
  matrix_multiply<MatrixSteps<4, 32, 32, 0>>(E4m3{}, d, left, right, p.accumulate);
  matrix_commit<4>();
  matrix_wait<5, 0>();
  for (int i = 0; i < N / 2; ++i) *place(i) = d[i];
}
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(tj::testing::with_widths(kUnit));
  return made;
}

/// a [64, 128] and b [columns, 128] of bytes, and 64 x columns sums.
struct Problem {
  int columns;
  std::vector<std::uint8_t> a = std::vector<std::uint8_t>(kRows * kDepth), b;
  std::vector<float> before, out;
  Params params{};

  explicit Problem(int n) : columns(n), b(at(n * kDepth)), before(at(kRows * n)), out(at(kRows * n)) {}
  void fill(unsigned seed, const std::vector<std::uint8_t>& from) {
    std::mt19937 random(seed);
    for (auto& v : a) v = from[random() % from.size()];
    for (auto& v : b) v = from[random() % from.size()];
  }
  void run(bool accumulate = false) {
    tj::testing::map_matrix(*unit().driver, {a.data(), kRows, kDepth, kRows, kDepth, 128, tj::DType::e4m3}, &params.a);
    tj::testing::map_matrix(*unit().driver, {b.data(), columns, kDepth, columns, kDepth, 128, tj::DType::e4m3},
                            &params.b);
    out = before;
    params.out = out.data();
    params.columns = columns;
    params.accumulate = accumulate;
    unit().run(tj::testing::width_symbol(columns), params, 128, 8192 + 256 * 128 + 8);
  }
  double exact(int row, int column) const {
    double sum = params.accumulate ? static_cast<double>(before[at(row * columns + column)]) : 0.0;
    for (int k = 0; k < kDepth; ++k)
      sum += static_cast<double>(e4m3_to_float(a[at(row * kDepth + k)])) *
             static_cast<double>(e4m3_to_float(b[at(column * kDepth + k)]));
    return sum;
  }
  double relative_error() const {
    double difference = 0, norm = 0;
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < columns; ++j) {
        const double wanted = exact(i, j), got = static_cast<double>(out[at(i * columns + j)]);
        difference += (got - wanted) * (got - wanted);
        norm += wanted * wanted;
      }
    return std::sqrt(difference / norm);
  }
};

std::vector<std::uint8_t> finite_bytes() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 256; ++i)
    if ((i & 0x7f) != 0x7f) bytes.push_back(static_cast<std::uint8_t>(i));
  return bytes;
}

}  // namespace

TEST_CASE("bytes mean what the format says") {
  struct Known {
    std::uint8_t bits;
    float value;
  };
  for (const Known& known : {Known{0x00, 0.0f},
                             {0x01, 0x1p-9f},
                             {0x07, 7 * 0x1p-9f},
                             {0x08, 0x1p-6f},
                             {0x38, 1.0f},
                             {0x3c, 1.5f},
                             {0x40, 2.0f},
                             {0x77, 240.0f},
                             {0x78, 256.0f},
                             {0x7e, 448.0f},
                             {0xb9, -1.125f},
                             {0xfe, -448.0f}}) {
    CAPTURE(int{known.bits});
    CHECK(e4m3_to_float(known.bits) == known.value);
  }
  CHECK(std::signbit(e4m3_to_float(0x80)));
  CHECK(std::isnan(e4m3_to_float(0x7f)));
  CHECK(std::isnan(e4m3_to_float(0xff)));
  for (int bits = 1; bits < 0x7f; ++bits)
    CHECK(e4m3_to_float(static_cast<std::uint8_t>(bits)) > e4m3_to_float(static_cast<std::uint8_t>(bits - 1)));
}

TEST_CASE("products of every width: whole numbers exactly, all values within what the unit keeps") {
  // 0, 1 to 4 and their negatives: sums of 128 products stay below 2^12.
  const std::vector<std::uint8_t> whole = {0x00, 0x38, 0x40, 0x44, 0x48, 0xb8, 0xc0, 0xc4, 0xc8};
  unsigned seed = 0;
  for (const int columns : tj::testing::kGroupColumns)
    for (const bool accumulate : {false, true}) {
      CAPTURE(columns);
      CAPTURE(accumulate);
      Problem exact(columns);
      exact.fill(++seed, whole);
      for (std::size_t i = 0; i < exact.before.size(); ++i) exact.before[i] = static_cast<float>(i % 100) - 50.0f;
      exact.run(accumulate);
      CHECK(exact.relative_error() == 0);
      Problem any(columns);
      any.fill(++seed, finite_bytes());
      any.run();
      CHECK(any.relative_error() < 5e-4);
      CHECK(any.relative_error() > 0);
    }
}

TEST_CASE("a NaN reaches its row and no other, from either encoding") {
  for (const std::uint8_t nan : {std::uint8_t{0x7f}, std::uint8_t{0xff}}) {
    Problem problem(64);
    problem.fill(7, finite_bytes());
    problem.a[at(10 * kDepth + 77)] = nan;
    problem.run();
    for (int i = 0; i < kRows; ++i) CHECK(std::isnan(problem.out[at(i * 64 + 5)]) == (i == 10));
  }
}
