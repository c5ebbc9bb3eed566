// Blocks of 16 x 16 numbers in f32: products of them on tensor cores, and the inverse of one. Included by node bodies.
//
// Decides places and roundings. A factor of a product is two terms of bf16, 16 bits of a number together; three of
// their four products are added, and the fourth is below 2^-16 of the sum. bf16 has the range of f32, so nothing
// overflows that does not in f32. A block has kBlockTerms bytes in shared memory. The four 8 x 8 matrices of first
// terms come before those of second ones. A lane names row lane % 8 of matrix lane / 8, so that no two lie in the same
// bank.
#pragma once

#include "ops/delta_chunks/params.cuh"
#include "ops/delta_chunks/terms.cuh"
#include "tiles.cuh"

namespace tj::ops::delta_chunks {

using dev::u32;

inline constexpr u32 kTermBytes = kBlockTerms / 2;

/// A lane's numbers of a block. Sums of a product (multiply_16 says where they lie), rounded, are its left operand.
struct Terms {
  u32 high[4], low[4];
};

TJ_DEVICE void split_block(const float (&sums)[8], Terms& terms) {
#pragma unroll
  for (int w = 0; w < 4; ++w) split_pair(dev::Bf16{}, sums[2 * w], sums[2 * w + 1], terms.high[w], terms.low[w]);
}
TJ_DEVICE float number_of_terms(const Terms& terms, int at) {
  const dev::Bf16 tag{};
  float high[2], low[2];
  dev::unpack(tag, terms.high[at / 2], high[0], high[1]);
  dev::unpack(tag, terms.low[at / 2], low[0], low[1]);
  return high[at % 2] + low[at % 2];
}

TJ_DEVICE u32 lane_row(u32 place) { return place + 16u * dev::lane_index(); }

/// The matrices of a block: those of rows 0 to 7 first.
TJ_DEVICE void store_terms(u32 place, const Terms& terms) {
  const u32 to = lane_row(place);
  dev::store_matrices(to, {terms.high[0], terms.high[2], terms.high[1], terms.high[3]});
  dev::store_matrices(to + kTermBytes, {terms.low[0], terms.low[2], terms.low[1], terms.low[3]});
}
/// Words of a block whose rows the lanes name, for either operand of a product, as load_matrices() gives them.
TJ_DEVICE void load_block(u32 row, Terms& terms) {
  dev::load_matrices(row, terms.high);
  dev::load_matrices(row + kTermBytes, terms.low);
}
TJ_DEVICE void load_block_transposed(u32 row, Terms& terms) {
  dev::load_matrices_transposed(row, terms.high);
  dev::load_matrices_transposed(row + kTermBytes, terms.low);
}
TJ_DEVICE void load_terms(u32 place, Terms& terms) { load_block(lane_row(place), terms); }
TJ_DEVICE void load_terms_transposed(u32 place, Terms& terms) { load_block_transposed(lane_row(place), terms); }

/// The same with the middle matrices in each other's place: right operands that are not transposed where load_terms()
/// has them transposed, and the other way. Lanes name the matrices so, as moving words takes an instruction each.
TJ_DEVICE u32 crossed_row(u32 place) {
  const u32 lane = dev::lane_index(), matrix = lane / 8;
  return place + lane % 8 * 16u + (matrix % 2 * 2 + matrix / 2) * 128u;
}
TJ_DEVICE void load_terms_crossed(u32 place, Terms& terms) { load_block(crossed_row(place), terms); }
TJ_DEVICE void load_terms_transposed_crossed(u32 place, Terms& terms) {
  load_block_transposed(crossed_row(place), terms);
}

/// sums += left right, for 16 rows and 16 columns.
TJ_DEVICE void multiply_terms(float (&sums)[8], const Terms& left, const Terms& right) {
  const dev::Bf16 tag{};
  dev::multiply_16(tag, sums, left.low, right.high);
  dev::multiply_16(tag, sums, left.high, right.low);
  dev::multiply_16(tag, sums, left.high, right.high);
}

/// The same for eight columns, of which the right operand has two words a term.
TJ_DEVICE void multiply_terms(float (&sums)[4], const Terms& left, const u32 (&high)[2], const u32 (&low)[2]) {
  const dev::Bf16 tag{};
  dev::mma_m16n8k16(tag, sums, left.low, high[0], high[1]);
  dev::mma_m16n8k16(tag, sums, left.high, low[0], low[1]);
  dev::mma_m16n8k16(tag, sums, left.high, high[0], high[1]);
}

// ---- the inverse of a block -----------------------------------------------------------------------------------------
// It has quarters of 8 x 8. Those on the diagonal come by substitution in f32, a column a lane. The one below them is a
// product of three blocks, as those of 16 x 16 are.
inline constexpr int kQuarterRows = 8;
inline constexpr u32 kQuarterBytes = 272;  ///< in shared memory: both quarters' rows are read at once, from other banks

/// A strictly lower block's quarters on the diagonal, in f32.
TJ_DEVICE void store_quarters(u32 place, const float (&sums)[8]) {
  const u32 to = place + 8u * dev::lane_index();
#pragma unroll
  for (u32 e = 0; e < 2; ++e) {
    dev::store_shared(to + 4 * e, sums[e]);
    dev::store_shared(to + kQuarterBytes + 4 * e, sums[6 + e]);
  }
}
/// A column of (I + L)^-1 of one of them. Column -1 is zero throughout.
TJ_DEVICE void substitute(u32 quarter, int column, float (&rows)[kQuarterRows]) {
#pragma unroll
  for (int row = 0; row < kQuarterRows; ++row) {
    float of_row[kQuarterRows];
#pragma unroll
    for (int q = 0; 4 * q < row; ++q) {
      float four[4];
      dev::load_shared(quarter + static_cast<u32>(row * 32 + q * 16), four);
#pragma unroll
      for (int e = 0; e < 4; ++e) of_row[4 * q + e] = four[e];
    }
    rows[row] = row == column ? 1.0f : 0.0f;
#pragma unroll
    for (int k = 0; k < row; ++k) rows[row] = dev::multiply_add(-of_row[k], rows[k], rows[row]);
  }
}
/// Matrices of a block that is stored transposed, columns 0 to 7 first.
enum Quarter : u32 { kFirst = 0, kRight = 128, kBelow = 256, kLast = 384 };

/// Columns of the transpose of the inverse, without the quarter below. Lanes 0 to 7 have those of the first quarter, 8
/// to 15 those of the last one. The other lanes have zeros.
TJ_DEVICE void store_columns(u32 place, const float (&rows)[kQuarterRows]) {
  const u32 lane = dev::lane_index(), matrix = lane / 8;  // in which order: first, last, right, below
  u32 high[4], low[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) split_pair(dev::Bf16{}, rows[2 * w], rows[2 * w + 1], high[w], low[w]);
  const u32 to = place + (matrix == 0 ? kFirst : matrix == 1 ? kLast : matrix == 2 ? kRight : kBelow) + lane % 8 * 16u;
  dev::store_shared(to, high);
  dev::store_shared(to + kTermBytes, low);
}
/// The quarter below: T_21 = T_22 (-L_21) T_11, all of them transposed. `sums`: the block L.
TJ_DEVICE void store_below(u32 place, const float (&sums)[8]) {
  const u32 lane = dev::lane_index(), row = place + lane % 8 * 16u + lane / 8 % 2 * kTermBytes;
  u32 words[2], high[2] = {}, low[2] = {};
  dev::load_matrices(row + kFirst, words);
  Terms left = {{words[0]}, {words[1]}};
  split_pair(dev::Bf16{}, -sums[2], -sums[3], high[0], low[0]);
  float product[4] = {}, below[4] = {};
  multiply_terms(product, left, high, low);
  split_pair(dev::Bf16{}, product[0], product[1], left.high[0], left.low[0]);
  dev::load_matrices_transposed(row + kLast, words);
  high[0] = words[0];
  low[0] = words[1];
  multiply_terms(below, left, high, low);
  u32 first, second;
  split_pair(dev::Bf16{}, below[0], below[1], first, second);
  dev::store_shared(place + kBelow + 4u * lane, first);
  dev::store_shared(place + kBelow + kTermBytes + 4u * lane, second);
}

// ---- rows to memory -------------------------------------------------------------------------------------------------
/// Sixteen elements of a row, 32 bytes, of which each lane of a quad has elements 2q and 2q + 1 of either half. A
/// quad's stores fill a sector. All lanes take part, and store where `there` says so.
TJ_DEVICE void put_sixteen(unsigned char* to, u32 first, u32 second, bool there = true) {
  const u32 q = dev::lane_index() % 4;
  dev::trade<1>(first, second);
  if (there) dev::store_global(to + q % 2 * 16 + q / 2 * 8, first, second);
}

}  // namespace tj::ops::delta_chunks
