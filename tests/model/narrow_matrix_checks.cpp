// Expectations of a warp's and of a wave's product of e4m3, on whatever runs the primitives. A byte is what the
// format's definition makes of it. Shared by the tests of the model and of a device.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

constexpr std::size_t kSide = 16;  // rows of a and of b

// Rows of 64 bytes, in swizzled tiles of rows of 128: d (16 x 16) = a b^T + what out holds.
constexpr const char* kText = R"(
struct Params { const char* left; const char* right; float* out; };

static void fill(u32 tile, const char* from) {
  for (u32 piece = lane_index(); piece < 16 * 4; piece += 32) {
    u32 words[4];
    load_global(from + piece * 16, words);
    store_shared(piece_address(tile, piece / 4, piece % 4), words);
  }
}
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 left = shared_base(), right = left + 8192, row = lane_index() / 4, column = lane_index() % 4 * 2;
  fill(left, p.left);
  fill(right, p.right);
  warp_sync();
  float d[2][4];
  for (u32 i = 0; i < 8; ++i) d[i / 4][i % 4] = p.out[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + column + i % 2];
  for (u32 k = 0; k < 2; ++k) {
    u32 a[4], b[4];
    load_matrices(piece_address(left, down_row(), 2 * k + down_piece()), a);
    load_matrices(piece_address(right, across_row(), 2 * k + across_piece()), b);
    mma_m16n8k32(E4m3{}, d[0], a, b[0], b[1]);
    mma_m16n8k32(E4m3{}, d[1], a, b[2], b[3]);
  }
  for (u32 i = 0; i < 8; ++i) p.out[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + column + i % 2] = d[i / 4][i % 4];
}
)";

struct Params {
  const std::uint8_t* left;
  const std::uint8_t* right;
  float* out;
};

/// By the format's definition: four bits of exponent of bias 7, three of fraction, no infinity.
double value_of(std::uint8_t byte) {
  const int exponent = byte >> 3 & 15, fraction = byte & 7;
  if (exponent == 15 && fraction == 7) return NAN;
  const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return byte >= 0x80 ? -size : size;
}

struct Narrow {
  std::size_t depth;
  std::vector<std::uint8_t> a = std::vector<std::uint8_t>(kSide * depth), b = a;
  std::vector<float> before = std::vector<float>(kSide * kSide), out;

  explicit Narrow(std::size_t k) : depth(k) {}
  void fill(unsigned seed, const std::vector<std::uint8_t>& from) {
    std::mt19937 random(seed);
    for (std::uint8_t& byte : a) byte = from[random() % from.size()];
    for (std::uint8_t& byte : b) byte = from[random() % from.size()];
  }
  void run(PrimitiveUnit& unit) {
    const Params params{unit.upload(a), unit.upload(b), unit.upload(before)};
    unit.run(params, 32);
    out = unit.download(params.out, kSide * kSide);
    unit.forget();
  }
  /// Sums whose distance from the true one is larger than `share` of all that is added, or NaN where they are not.
  int wrong(double share) const {
    int count = 0;
    for (std::size_t i = 0; i < kSide; ++i)
      for (std::size_t j = 0; j < kSide; ++j) {
        double sum = static_cast<double>(before[i * kSide + j]), size = std::abs(sum);
        for (std::size_t k = 0; k < depth; ++k) {
          const double term = value_of(a[i * depth + k]) * value_of(b[j * depth + k]);
          sum += term;
          size += std::abs(term);
        }
        const double got = static_cast<double>(out[i * kSide + j]);
        count += std::isnan(sum) ? !std::isnan(got) : !(std::abs(got - sum) <= share * size);
      }
    return count;
  }
};

}  // namespace

std::string_view narrow_matrix_text() { return kText; }

namespace {

/// depth: K of the unit's product. loss: the share of all that is added which a sum may lose.
void check(PrimitiveUnit unit, std::size_t depth, double loss) {
  std::vector<std::uint8_t> finite, tiny;
  for (int byte = 0; byte < 256; ++byte)
    if ((byte & 0x7f) != 0x7f) finite.push_back(static_cast<std::uint8_t>(byte));
  for (int byte = 0; byte < 8; ++byte) tiny.push_back(static_cast<std::uint8_t>(byte % 2 * 0x80 + byte));

  Narrow whole(depth);  // 0, 1 to 4 and their negatives: sums stay below 2^11
  whole.fill(1, {0x00, 0x38, 0x40, 0x44, 0x48, 0xb8, 0xc0, 0xc4, 0xc8});
  for (std::size_t i = 0; i < whole.before.size(); ++i) whole.before[i] = static_cast<float>(i % 100) - 50.0f;
  whole.run(unit);
  CHECK(whole.wrong(0) == 0);

  Narrow subnormal(depth);  // of both operands: multiples of 2^-18 below 2^-6
  subnormal.fill(2, tiny);
  subnormal.run(unit);
  CHECK(subnormal.wrong(0) == 0);

  for (unsigned seed = 3; seed < 8; ++seed) {
    CAPTURE(seed);
    Narrow any(depth);
    any.fill(seed, finite);
    any.run(unit);
    CHECK(any.wrong(loss) == 0);
    Narrow alone(depth);  // one pair and zeros: exact
    for (std::size_t i = 0; i < kSide; ++i) {
      alone.a[i * depth + (seed * 16 + i * 5) % depth] = finite[(seed * 16 + i) % finite.size()];
      for (std::size_t k = 0; k < depth; ++k) alone.b[i * depth + k] = finite[(seed * 31 + i * 64 + k) % finite.size()];
    }
    alone.run(unit);
    CHECK(alone.wrong(0) == 0);
  }

  for (const std::uint8_t nan : {std::uint8_t{0x7f}, std::uint8_t{0xff}}) {  // reaches its row, or its column
    Narrow problem(depth);
    problem.fill(9, finite);
    problem.a[5 * depth + 27] = nan;
    problem.b[11 * depth + 2] = nan;
    problem.run(unit);
    CHECK(problem.wrong(loss) == 0);
  }
}

}  // namespace

void check_narrow_products(const MakeUnit& make) { check(make(kText), 64, 2 * 34 * 0x1p-13); }
void check_narrow_wave_products(const MakeUnit& make) { check(make(narrow_wave_text()), 32, 34 * 0x1p-23); }

}  // namespace tj::testing
