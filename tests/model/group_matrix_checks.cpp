// Expectations of a warpgroup's matrix instructions, on whatever runs the primitives. Every type, width, place and
// order of operands, through descriptors of every swizzle and of none; chains on the same sums, groups in flight.
// Shared by the tests of the model and of a device.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/half.hpp"
#include "model/group_matrix_layout.hpp"
#include "model/matrix_math.hpp"
#include "model/matrix_problem.hpp"
#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

constexpr const char* kUnit = R"(
struct Params {
  const char* image;    // of shared memory
  const u32* fragments; // [instruction][thread][4]
  float* out;           // 64 x columns; also what the sums hold before
  u64 left, right;      // operands of the first instruction, in an image at address 0
  u32 left_at[4], right_at[4];  // bytes from there to those of each
  int image_bytes, columns, type, left_in_registers, orders, accumulate, at_once;
};

static void fill(const Params& p) {
  for (u32 at = 16 * thread_index(); at < static_cast<u32>(p.image_bytes); at += 16 * 128) {
    u32 words[4];
    load_global(p.image + at, words);
    store_shared(shared_base() + at, words);
  }
  proxy_fence<1>();
  block_sync();
}
template <int N>
static float* place(float* out, int i) {
  return out + (16 * warp_index() + lane_index() / 4 + 8 * (i % 4 / 2)) * N + 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2;
}

// Fence, instructions, commit and wait in one straight line; four instructions by one statement where their steps are those of S.
template <class S, bool AtOnce, class Tag, int Half>
static void product(const Params& p, Tag tag, float (&d)[Half]) {
  const u64 left = p.left + (shared_base() >> 4), right = p.right + (shared_base() >> 4);
  const bool accumulate = p.accumulate;
  hold(d);
  matrix_fence<2>();
  if constexpr (AtOnce) {
    matrix_multiply<S>(tag, d, left, right, accumulate);
  } else {
    matrix_multiply<S::kMnMajor>(tag, d, left, right, accumulate);
#pragma unroll
    for (int k = 1; k < 4; ++k) matrix_multiply<S::kMnMajor>(tag, d, operand_advance(left, p.left_at[k]), operand_advance(right, p.right_at[k]), true);
  }
  matrix_commit<3>();
  matrix_wait<4, 0>();
  hold(d);
}
template <class S, bool AtOnce, class Tag, int Half>
static void product_of_registers(const Params& p, Tag tag, float (&d)[Half]) {
  u32 a[16];
  for (int i = 0; i < 16; ++i) a[i] = p.fragments[(i / 4 * 128 + static_cast<int>(thread_index())) * 4 + i % 4];
  const u64 right = p.right + (shared_base() >> 4);
  const bool accumulate = p.accumulate;
  hold(a);
  hold(d);
  matrix_fence<2>();
  if constexpr (AtOnce) {
    matrix_multiply<S>(tag, d, a, right, accumulate);
  } else {
    matrix_multiply<S::kMnMajor>(tag, d, a, right, accumulate);
#pragma unroll
    for (int k = 1; k < 4; ++k) matrix_multiply<S::kMnMajor>(tag, d, a + 4 * k, operand_advance(right, p.right_at[k]), true);
  }
  matrix_commit<3>();
  matrix_wait<4, 0>();
  hold(d);
  hold(a);
}

template <bool AtOnce, class Tag, int Half>
static void by_order(const Params& p, Tag tag, float (&d)[Half]) {
  if (p.left_in_registers && p.orders == 0) product_of_registers<MatrixSteps<4, 0, 32, 0>, AtOnce>(p, tag, d);
  else if (p.left_in_registers) product_of_registers<MatrixSteps<4, 0, 2048, kRightMn>, AtOnce>(p, tag, d);
  else if (p.orders == 0) product<MatrixSteps<4, 32, 32, 0>, AtOnce>(p, tag, d);
  else if (p.orders == kRightMn) product<MatrixSteps<4, 32, 2048, kRightMn>, AtOnce>(p, tag, d);
  else if (p.orders == kLeftMn) product<MatrixSteps<4, 2048, 32, kLeftMn>, AtOnce>(p, tag, d);
  else product<MatrixSteps<4, 2048, 2048, kLeftMn | kRightMn>, AtOnce>(p, tag, d);
}
template <bool AtOnce, int Half>
static void by_type(const Params& p, float (&d)[Half]) {
  if (p.type == 0) by_order<AtOnce>(p, F16{}, d);
  else if (p.type == 1) by_order<AtOnce>(p, Bf16{}, d);
  else product<MatrixSteps<4, 32, 32, 0>, AtOnce>(p, E4m3{}, d);
}
template <int N>
static void whole(const Params& p) {
  fill(p);
  float d[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[i] = *place<N>(p.out, i);
  if constexpr (N == 64 || N == 160) {  // compilers take long over each width
    if (p.at_once) by_type<true>(p, d);
    else by_type<false>(p, d);
  } else {
    by_type<false>(p, d);
  }
#pragma unroll
  for (int i = 0; i < N / 2; ++i) *place<N>(p.out, i) = d[i];
}

// Two sums in turns, at most one group unfinished when the other's are read. out: three times 64 x 64.
TJ_KERNEL(chains, 128, Params, p) {
  fill(p);
  const u64 left = p.left + (shared_base() >> 4), right = p.right + (shared_base() >> 4);
  const auto one = [&](float (&d)[32], u32 k, bool accumulate) { matrix_multiply<0>(F16{}, d, operand_advance(left, 32 * k), operand_advance(right, 32 * k), accumulate); };
  float first[32], second[32];
  matrix_fence<2>();
  one(first, 0, false);
  one(first, 1, true);
  matrix_commit<3>();
  one(second, 2, false);
  matrix_commit<3>();
  matrix_wait<4, 1>();
  hold(first);
  for (int i = 0; i < 32; ++i) {
    *place<64>(p.out, i) = first[i];
    first[i] += 1.0f;
  }
  hold(first);
  matrix_fence<2>();
  one(first, 2, true);
  matrix_commit<3>();
  one(second, 3, true);
  one(second, 0, true);
  matrix_commit<3>();
  matrix_commit<3>();  // a group of nothing
  matrix_wait<4, 2>();
  hold(first);
  for (int i = 0; i < 32; ++i) *place<64>(p.out + 64 * 64, i) = first[i];
  matrix_wait<4, 0>();
  hold(second);
  for (int i = 0; i < 32; ++i) *place<64>(p.out + 2 * 64 * 64, i) = second[i];
}
)";

constexpr int kRows = 64;
constexpr std::int64_t kSmemBytes = 160 * 1024;

struct Params {
  const unsigned char* image;
  const unsigned* fragments;
  float* out;
  std::uint64_t left, right;
  std::uint32_t left_at[4], right_at[4];
  int image_bytes, columns, type, left_in_registers, orders, accumulate, at_once;
};

float value_of(std::uint16_t bits, MatrixType type) {
  if (type == MatrixType::e4m3) return model::e4m3_to_float(static_cast<std::uint8_t>(bits));
  return type == MatrixType::f16 ? samples::half_to_float(bits) : samples::bf16_to_float(bits);
}

std::uint16_t whole_number(int value, MatrixType type) {
  static constexpr std::uint8_t kE4m3[] = {0x00, 0x38, 0x40, 0x44, 0x48};  // 0 to 4
  if (type == MatrixType::e4m3)
    return static_cast<std::uint16_t>((value < 0 ? 0x80 : 0) | kE4m3[value < 0 ? -value : value]);
  const auto number = static_cast<float>(value);
  return type == MatrixType::f16 ? samples::float_to_half(number) : samples::float_to_bf16(number);
}

/// Element k of row or column i is operand[i * depth + k].
struct Numbers {
  MatrixType type;
  int columns;
  std::vector<std::uint16_t> left, right;
  std::vector<float> before;
  Numbers(MatrixType of, int n)
      : type(of),
        columns(n),
        left(static_cast<std::size_t>(kRows * whole_depth(of))),
        right(static_cast<std::size_t>(n * whole_depth(of))),
        before(static_cast<std::size_t>(kRows * n)) {}
  /// Whole numbers of -4 to 4: every partial sum is a whole number below 2^12, exact for every type.
  void fill_whole(unsigned seed) {
    std::mt19937 random(seed);
    for (auto& x : left) x = whole_number(static_cast<int>(random() % 9) - 4, type);
    for (auto& x : right) x = whole_number(static_cast<int>(random() % 9) - 4, type);
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(random() % 100) - 50.0f;
  }
  void fill_any(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto any = [&]() -> std::uint16_t {
      if (type == MatrixType::e4m3) {
        const auto bits = static_cast<std::uint16_t>(random() % 256);
        return (bits & 0x7f) == 0x7f ? std::uint16_t{0} : bits;
      }
      return type == MatrixType::f16 ? samples::float_to_half(normal(random)) : samples::float_to_bf16(normal(random));
    };
    for (auto& x : left) x = any();
    for (auto& x : right) x = any();
    for (auto& x : before) x = normal(random);
  }
  double term(int i, int j, int k) const {
    const int depth = whole_depth(type);
    return static_cast<double>(value_of(left[static_cast<std::size_t>(i * depth + k)], type)) *
           static_cast<double>(value_of(right[static_cast<std::size_t>(j * depth + k)], type));
  }
  double sum(int i, int j, int first_step, int steps) const {
    double result = 0;
    for (int k = first_step * step_depth(type); k < (first_step + steps) * step_depth(type); ++k)
      result += term(i, j, k);
    return result;
  }
};

struct Form {
  OperandLayout left, right;
  bool in_registers = false, accumulate = false, at_once = false;
};

std::vector<float> run(PrimitiveUnit& unit, const Numbers& numbers, Form form, std::size_t outs = 0) {
  unit.forget();
  form.right.begin = form.left.bytes();
  std::vector<unsigned char> image;
  put(form.left, numbers.left, image);
  put(form.right, numbers.right, image);
  Params params{};
  params.image = unit.upload(image);
  params.image_bytes = static_cast<int>(image.size());
  if (form.in_registers) params.fragments = unit.upload(left_fragments(numbers.left, whole_depth(numbers.type)));
  std::vector<float> out = numbers.before;
  if (outs > 0) out.resize(outs * numbers.before.size());
  params.out = unit.upload(out);
  params.left = form.left.descriptor();
  params.right = form.right.descriptor();
  for (int step = 0; step < 4; ++step) {
    params.left_at[step] = form.left.step_bytes(step);
    params.right_at[step] = form.right.step_bytes(step);
  }
  params.columns = numbers.columns;
  params.type = static_cast<int>(numbers.type);
  params.left_in_registers = form.in_registers;
  params.orders = (form.right.mn_major ? 1 : 0) | (form.left.mn_major && !form.in_registers ? 2 : 0);
  params.accumulate = form.accumulate;
  params.at_once = form.at_once;
  const std::string symbol = outs > 0 ? std::string("chains") : width_symbol(numbers.columns);
  unit.run(params, 128, {symbol.c_str(), kSmemBytes, 1, 1, false});
  return unit.download(params.out, out.size());
}

std::vector<double> products(const Numbers& numbers) {
  std::vector<double> sums;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < numbers.columns; ++j) sums.push_back(numbers.sum(i, j, 0, 4));
  return sums;
}
int wrong_bits(const std::vector<float>& out, const std::vector<double>& sums, const std::vector<float>* before) {
  int wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto wanted = static_cast<float>(sums[i] + (before != nullptr ? static_cast<double>((*before)[i]) : 0.0));
    wrong += std::bit_cast<std::uint32_t>(out[i]) != std::bit_cast<std::uint32_t>(wanted);
  }
  return wrong;
}

/// Ways in which an operand lies in shared memory; the first is the right one for steps of 32 or 2048 bytes.
std::vector<OperandLayout> layouts(MatrixType type, int count) {
  std::vector<OperandLayout> all;
  for (const bool mn_major : {false, true})
    for (const std::uint32_t swizzle : {128u, 64u, 32u, 0u})
      for (const bool apart : {false, true})
        if (type != MatrixType::e4m3 || !mn_major) all.push_back({type, count, mn_major, swizzle, apart, 0});
  return all;
}
/// Four steps in one statement are the same distance apart.
bool even_steps(const OperandLayout& layout) { return layout.swizzle == 128 && (!layout.mn_major || !layout.apart); }

}  // namespace

std::string_view group_matrix_text() {
  static const std::string text = with_widths(kUnit);
  return text;
}

void check_group_products(const MakeUnit& make, int every) {
  PrimitiveUnit unit = make(group_matrix_text());
  unsigned seed = 0;
  int index = 0;
  for (const MatrixType type : {MatrixType::f16, MatrixType::bf16, MatrixType::e4m3})
    for (const int columns : kGroupColumns) {
      Numbers numbers(type, columns);
      numbers.fill_whole(++seed);
      const std::vector<double> sums = products(numbers);
      for (const OperandLayout& left : layouts(type, kRows))
        for (const OperandLayout& right : layouts(type, columns))
          for (const bool in_registers : {false, true}) {
            if (in_registers && (type == MatrixType::e4m3 || left.swizzle != 128 || left.mn_major || left.apart))
              continue;
            if (index++ % every != 0) continue;
            Form form{left, right, in_registers, index % 2 == 0,
                      index % 3 != 0 && even_steps(left) && even_steps(right)};
            CAPTURE(static_cast<int>(type));
            CAPTURE(columns);
            CAPTURE(in_registers);
            CAPTURE(left.mn_major);
            CAPTURE(left.swizzle);
            CAPTURE(left.apart);
            CAPTURE(right.mn_major);
            CAPTURE(right.swizzle);
            CAPTURE(right.apart);
            CHECK(wrong_bits(run(unit, numbers, form), sums, form.accumulate ? &numbers.before : nullptr) == 0);
          }
    }
}

void check_group_chains(const MakeUnit& make) {
  PrimitiveUnit unit = make(group_matrix_text());
  Numbers numbers(MatrixType::f16, 64);
  numbers.fill_whole(99);
  const std::vector<float> out = run(unit, numbers, {{MatrixType::f16, kRows}, {MatrixType::f16, 64}}, 3);
  int wrong[3] = {};
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 64; ++j) {
      const auto at = static_cast<std::size_t>(i * 64 + j);
      const double first = numbers.sum(i, j, 0, 2);
      wrong[0] += static_cast<double>(out[at]) != first;
      wrong[1] += static_cast<double>(out[64 * 64 + at]) != first + 1 + numbers.sum(i, j, 2, 1);
      wrong[2] += static_cast<double>(out[2 * 64 * 64 + at]) != numbers.sum(i, j, 2, 2) + numbers.sum(i, j, 0, 1);
    }
  for (const int count : wrong) CHECK(count == 0);
}

void check_e4m3_cuts(const MakeUnit& make) {
  PrimitiveUnit unit = make(group_matrix_text());
  Numbers numbers(MatrixType::e4m3, 32);
  Form form{{MatrixType::e4m3, kRows}, {MatrixType::e4m3, 32}};
  form.accumulate = true;
  numbers.before.assign(numbers.before.size(), 1.0f + 0x1p-13f + 0x1p-14f);
  CHECK(run(unit, numbers, form)[0] == 1.0f + 0x1p-13f);
  numbers.before.assign(numbers.before.size(), 0.0f);
  numbers.left[0] = numbers.right[0] = 0x78;    // 256 * 256 = 2^16: all below 2^3 is dropped
  numbers.left[1] = numbers.right[1] = 0x44;    // 9 becomes 8
  numbers.left[32] = numbers.right[32] = 0x48;  // in the next instruction: 16 stays
  CHECK(run(unit, numbers, form)[0] == 65536.0f + 8.0f + 16.0f);
}

std::vector<float> random_group_product(PrimitiveUnit& unit, int type, int columns, unsigned seed,
                                        std::vector<double>& exact, std::vector<double>& size) {
  Numbers numbers(static_cast<MatrixType>(type), columns);
  numbers.fill_any(seed);
  Form form{{numbers.type, kRows}, {numbers.type, columns}};
  form.accumulate = true;
  exact.clear();
  size.clear();
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < columns; ++j) {
      double all = std::fabs(static_cast<double>(numbers.before[exact.size()]));
      for (int k = 0; k < whole_depth(numbers.type); ++k) all += std::fabs(numbers.term(i, j, k));
      exact.push_back(numbers.sum(i, j, 0, 4) + static_cast<double>(numbers.before[exact.size()]));
      size.push_back(all);
    }
  return run(unit, numbers, form);
}

}  // namespace tj::testing
