// Protects the model's matrix instruction on tensor memory: products of every type, order and place of operands against double, through boxes
// in swizzled shared memory and through tensor memory as a kernel lays them out; and what a descriptor must not say.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "launch/model_matrix_math.hpp"
#include "launch/model_unit.hpp"
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

// Warps 0 to 3 store the left operand and read the sums, each its lanes; one lane of warp 4 copies and multiplies; warp 5 allocates.
constexpr const char* kUnit = R"(
struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;
  float* out;
  int columns, bf16, in_tensor, right_mn, left_mn, fragments, which;
};
constexpr u32 kCopied = 0, kDone = 8, kStored = 16, kPlace = 24, kA = 1024, kB = kA + 16384;
constexpr u32 kLeftColumn = 256;

static void copy(const Params& p) {
  const u32 shared = shared_base();
  const u32 across = p.right_mn ? (static_cast<u32>(p.columns) + 63) / 64 : 1;
  const u32 down = p.left_mn ? 2 : 1;
  mbarrier_expect<1>(shared + kCopied, 16384u + (p.right_mn ? across * 8192u : static_cast<u32>(p.columns) * 128u));
  if (p.which == 10) copy_box_4d(shared + kB + 8192, &p.b, shared + kCopied, 32, 0, 0, 0);
  for (u32 i = 0; i < down; ++i) copy_box_4d(shared + kA + i * 8192, &p.a, shared + kCopied, static_cast<int>(64 * i), 0, 0, 0);
  for (u32 i = 0; i < across; ++i) copy_box_4d(shared + kB + i * 8192, &p.b, shared + kCopied, static_cast<int>(64 * i), 0, 0, 0);
}

template <int MnMajor>
static void multiply(const Params& p, u32 tensor, u32 instruction) {
  using Steps = MatrixSteps<4, (MnMajor & kLeftMn) != 0 ? 2048 : 32, (MnMajor & kRightMn) != 0 ? 2048 : 32>;
  const u32 shared = shared_base();
  const u64 left = matrix_operand(shared + kA, (MnMajor & kLeftMn) != 0 ? 8192 : 16, 1024);
  const u64 right = matrix_operand(shared + kB, (MnMajor & kRightMn) != 0 ? 8192 : 16, 1024);
  const u64 odd = p.which == 1 ? u64{1} << 49 : p.which == 2 ? u64{1} << 47 : p.which == 3 ? u64{1} << 61 : p.which == 4 ? u64{0x2000} : 0;
  if (p.which == 5) instruction += 1u << 25;
  if (p.which == 6) instruction |= 1u << 13;
  if (p.which == 7) instruction ^= 1u << 10;
  if (p.which == 8) instruction += 2u << 4;
  if (p.which == 9) instruction += 64u << 17;
  if (p.in_tensor) matrix_multiply_tensor_steps<Steps>(tensor, tensor_place(tensor, 0, kLeftColumn), right + odd, instruction, false);
  else matrix_multiply_steps<Steps>(tensor, left, right + odd, instruction, false);
}
template <int Columns, class Tag>
static void by_order(const Params& p, u32 tensor) {
  if (p.left_mn && p.right_mn) multiply<kLeftMn | kRightMn>(p, tensor, matrix_instruction<128, Columns, kLeftMn | kRightMn>(Tag{}));
  else if (p.left_mn) multiply<kLeftMn>(p, tensor, matrix_instruction<128, Columns, kLeftMn>(Tag{}));
  else if (p.right_mn) multiply<kRightMn>(p, tensor, matrix_instruction<128, Columns, kRightMn>(Tag{}));
  else multiply<0>(p, tensor, matrix_instruction<128, Columns, 0>(Tag{}));
}
template <int Columns>
static void by_type(const Params& p, u32 tensor) {
  if (p.bf16) by_order<Columns, Bf16>(p, tensor);
  else by_order<Columns, F16>(p, tensor);
}

static void issue(const Params& p, u32 tensor) {
  const u32 shared = shared_base();
  copy(p);
  mbarrier_wait<2>(shared + kCopied, 0);
  if (p.in_tensor) {
    mbarrier_wait<3>(shared + kStored, 0);
    tensor_after_sync<4>();
  }
  switch (p.columns) {
    case 16: by_type<16>(p, tensor); break;
    case 48: by_type<48>(p, tensor); break;
    case 96: by_type<96>(p, tensor); break;
    case 128: by_type<128>(p, tensor); break;
    case 256: by_type<256>(p, tensor); break;
  }
  matrix_commit<5>(shared + kDone);
}

static void store_left(const Params& p, u32 tensor) {
  u32 words[32];
  for (u32 i = 0; i < 32; ++i) words[i] = p.left[thread_index() * 32 + i];
  tensor_store(tensor_place(tensor_lanes(tensor), 0, kLeftColumn), words);
  tensor_store_wait<6>();
  tensor_before_sync<7>();
  mbarrier_arrive<8>(shared_base() + kStored);
}
static void read_rows(const Params& p, u32 tensor) {
  const u32 row = thread_index();
  for (int c = 0; c < p.columns; c += 16) {
    float v[16];
    tensor_load(tensor_place(tensor_lanes(tensor), 0, static_cast<u32>(c)), v);
    tensor_load_wait<9>();
    for (int i = 0; i < 16; ++i) p.out[static_cast<int>(row) * p.columns + c + i] = v[i];
  }
}
static void read_fragments(const Params& p, u32 tensor) {
  for (u32 half = 0; half < 2; ++half)
    for (int c = 0; c < p.columns; c += 16) {
      float v[8];
      tensor_load_fragment(tensor_place(tensor_lanes(tensor), 16 * half, static_cast<u32>(c)), v);
      tensor_load_wait<10>();
      for (int i = 0; i < 8; ++i) {
        const u32 row = 32 * warp_index() + 16 * half + lane_index() / 4 + 8 * (i % 4 / 2), column = c + 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2;
        p.out[row * p.columns + column] = v[i];
      }
    }
}

TJ_KERNEL(kernel, 192, Params, p) {
  const u32 shared = shared_base();
  if (warp_index() == 5) tensor_allocate(shared + kPlace, 512);
  if (thread_index() == 0) {
    mbarrier_init(shared + kCopied, 1);
    mbarrier_init(shared + kDone, 1);
    mbarrier_init(shared + kStored, 128);
    mbarrier_init_done();
  }
  block_sync();
  const u32 tensor = load_shared<u32>(shared + kPlace);
  if (warp_index() == 4) {
    if (elect_one()) issue(p, tensor);
  } else if (warp_index() < 4) {
    if (p.in_tensor) store_left(p, tensor);
    mbarrier_wait<11>(shared + kDone, 0);
    tensor_after_sync<12>();
    if (p.fragments) read_fragments(p, tensor);
    else read_rows(p, tensor);
  }
  block_sync();
  if (warp_index() == 5) {
    tensor_relinquish();
    tensor_free(tensor, 512);
  }
}
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit, "sm_100a");
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
