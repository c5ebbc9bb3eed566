// Expectations of the matrices of a warp, on whatever runs the primitives: fragments against plain products, loads and
// stores against their definition, and the places of tiles. Shared by the tests of the model and of a device.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "model/copy.hpp"
#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

// A and B are read out of swizzled tiles of rows of 64 elements. The result must be d (16 x 16) = A (16 x 64) B (64 x
// 16), in each of the two orders that either operand can have in memory.
constexpr const char* kProduct = R"(
struct Params { const char* left; const char* right; float* out; int left_rows_of_m, right_rows_of_n, bf16; };

static void fill(u32 tile, const char* from) {  // 64 rows of 128 bytes
  for (u32 piece = lane_index(); piece < 64 * 8; piece += 32) {
    u32 words[4];
    load_global(from + piece * 16, words);
    store_shared(piece_address(tile, piece / 8, piece % 8), words);
  }
}

template <class Tag>
static void product(const Params& p, u32 left, u32 right) {
  float d[2][4] = {};
  for (u32 k = 0; k < 4; ++k) {
    u32 a[4], b[4];
    if (p.left_rows_of_m) load_matrices_transposed(piece_address(left, 16 * k + across_row(), across_piece()), a);
    else load_matrices(piece_address(left, down_row(), 2 * k + down_piece()), a);
    if (p.right_rows_of_n) load_matrices_transposed(piece_address(right, 16 * k + down_row(), down_piece()), b);
    else load_matrices(piece_address(right, across_row(), 2 * k + across_piece()), b);
    mma_m16n8k16(Tag{}, d[0], a, b[0], b[1]);
    mma_m16n8k16(Tag{}, d[1], a, b[2], b[3]);
  }
  const u32 row = lane_index() / 4, column = lane_index() % 4 * 2;
  for (u32 block = 0; block < 2; ++block) {
    store_global(p.out + row * 16 + 8 * block + column, d[block][0], d[block][1]);
    store_global(p.out + (row + 8) * 16 + 8 * block + column, d[block][2], d[block][3]);
  }
}

TJ_KERNEL(kernel, 32, Params, p) {
  const u32 left = shared_base(), right = left + 8192;
  fill(left, p.left);
  fill(right, p.right);
  warp_sync();
  if (p.bf16) product<Bf16>(p, left, right);
  else product<F16>(p, left, right);
}
)";

struct ProductParams {
  const std::uint16_t* left;
  const std::uint16_t* right;
  float* out;
  int left_rows_of_m, right_rows_of_n, bf16;
};

std::uint16_t to_bits(float value, bool bf16) {  // values that both types hold exactly
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (bf16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (((bits >> 23 & 0xffu) - 112u) << 10) |
                                    (bits >> 13 & 0x3ffu));
}

void check_product(PrimitiveUnit& unit, int which) {
  ProductParams params{};
  params.left_rows_of_m = which & 1;
  params.right_rows_of_n = which >> 1 & 1;
  params.bf16 = which >> 2;
  std::mt19937 random(static_cast<unsigned>(which + 1));
  std::vector<float> a(16 * 64), b(64 * 16);
  for (float& x : a) x = static_cast<float>(static_cast<int>(random() % 65) - 32) / 8;
  for (float& x : b) x = static_cast<float>(static_cast<int>(random() % 65) - 32) / 16;
  std::vector<std::uint16_t> left(64 * 64, 0xffff),
      right(64 * 64, 0xffff);  // NaN, but for what belongs to the operands
  for (std::size_t k = 0; k < 64; ++k)
    for (std::size_t i = 0; i < 16; ++i) {
      left[params.left_rows_of_m ? k * 64 + i : i * 64 + k] = to_bits(a[i * 64 + k], params.bf16 != 0);
      right[params.right_rows_of_n ? k * 64 + i : i * 64 + k] = to_bits(b[k * 16 + i], params.bf16 != 0);
    }
  params.left = unit.upload(left);
  params.right = unit.upload(right);
  params.out = unit.upload(std::vector<float>(256, NAN));
  unit.run(params, 32);
  const std::vector<float> out = unit.download(params.out, 256);
  int wrong = 0;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) {
      float sum = 0;  // every partial sum is a multiple of 1/128 below 2^15: exact in f32
      for (std::size_t k = 0; k < 64; ++k) sum += a[i * 64 + k] * b[k * 16 + j];
      wrong += out[i * 16 + j] != sum;
    }
  CHECK(wrong == 0);
}

// Loads of one, two and four matrices against the definition, lane by lane; then stored back by store_matrices to
// another place.
constexpr const char* kLoads = R"(
struct Params { u32* out; };
template <int Count>
static u32* loads(u32 base, u32* out) {
  u32 straight[Count], turned[Count];
  // Lanes that name nothing hold addresses that would be faults.
  const u32 address = lane_index() < 8 * Count ? base + 48 * lane_index() : 1u;
  load_matrices(address, straight);
  load_matrices_transposed(address, turned);
  for (int m = 0; m < Count; ++m) {
    out[(2 * m) * 32 + lane_index()] = straight[m];
    out[(2 * m + 1) * 32 + lane_index()] = turned[m];
  }
  return out + 64 * Count;
}
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base();
  for (u32 row = 0; row < 32; ++row)
    if (lane_index() < 4) store_shared(base + 48 * row + 4 * lane_index(), (row * 8 + 2 * lane_index()) | (row * 8 + 2 * lane_index() + 1) << 16);
  warp_sync();
  u32* out = loads<4>(base, loads<2>(base, loads<1>(base, p.out)));
  u32 words[4];
  load_matrices(base + 48 * lane_index(), words);
  store_matrices(base + 4096 + 32 * lane_index(), words);
  warp_sync();
  for (u32 word = 0; word < 4; ++word) out[4 * lane_index() + word] = load_shared<u32>(base + 4096 + 32 * lane_index() + 4 * word);
}
)";

// The addresses of tiles.cuh.
constexpr const char* kPlaces = R"(
struct Params { u32* out; };
TJ_KERNEL(kernel, 32, Params, p) {
  for (u32 piece = lane_index(); piece < 512; piece += 32) {
    p.out[4 * piece] = swizzle_128(16 * piece);
    p.out[4 * piece + 1] = swizzle_64(16 * piece);
    p.out[4 * piece + 2] = swizzle_32(16 * piece);
    p.out[4 * piece + 3] = piece_address(0, piece / 8, piece % 8);
  }
}
)";

struct OutParams {
  std::uint32_t* out;
};

}  // namespace

std::vector<std::string_view> warp_matrix_texts() { return {kProduct, kLoads, kPlaces}; }

void check_products(const MakeUnit& make) {
  PrimitiveUnit unit = make(kProduct);
  for (int which = 0; which < 8; ++which) {
    CAPTURE(which);
    check_product(unit, which);
  }
}

void check_matrix_loads(const MakeUnit& make) {
  PrimitiveUnit unit = make(kLoads);
  const OutParams params{unit.upload(std::vector<std::uint32_t>(64 * 7 + 128, 0xffffffffu))};
  unit.run(params, 32);
  const std::vector<std::uint32_t> out = unit.download(params.out, 64 * 7 + 128);
  const std::uint32_t* next = out.data();
  int wrong = 0;
  for (std::uint32_t count : {1u, 2u, 4u})
    for (std::uint32_t m = 0; m < count; ++m) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint32_t line = lane / 4, place = lane % 4 * 2, corner = 64 * m;
        wrong += next[lane] != ((corner + 8 * line + place) | (corner + 8 * line + place + 1) << 16);
        wrong += next[32 + lane] != ((corner + 8 * place + line) | (corner + 8 * (place + 1) + line) << 16);
      }
      next += 64;
    }
  for (std::uint32_t row = 0; row < 32; ++row)
    for (std::uint32_t word = 0; word < 4; ++word)
      wrong += next[4 * row + word] != ((8 * row + 2 * word) | (8 * row + 2 * word + 1) << 16);
  CHECK(wrong == 0);
}

void check_tile_places(const MakeUnit& make) {
  PrimitiveUnit unit = make(kPlaces);
  const OutParams params{unit.upload(std::vector<std::uint32_t>(2048))};
  unit.run(params, 32);
  const std::vector<std::uint32_t> out = unit.download(params.out, 2048);
  int wrong = 0;
  for (std::uint32_t piece = 0; piece < 512; ++piece) {
    wrong += out[4 * piece] != model::swizzled(16 * piece, 128);
    wrong += out[4 * piece + 1] != model::swizzled(16 * piece, 64);
    wrong += out[4 * piece + 2] != model::swizzled(16 * piece, 32);
    wrong += out[4 * piece + 3] != model::swizzled(16 * piece, 128);
  }
  CHECK(wrong == 0);
}

}  // namespace tj::testing
