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
/// Words of a block for either operand of a product, as load_matrices() gives them.
TJ_DEVICE void load_terms(u32 place, Terms& terms) {
  dev::load_matrices(lane_row(place), terms.high);
  dev::load_matrices(lane_row(place) + kTermBytes, terms.low);
}
TJ_DEVICE void load_terms_transposed(u32 place, Terms& terms) {
  dev::load_matrices_transposed(lane_row(place), terms.high);
  dev::load_matrices_transposed(lane_row(place) + kTermBytes, terms.low);
}

/// Matrices of a block that lie by rows in the order of columns, or the other way: a right operand that is not
/// transposed where load_terms() has it transposed, and so on.
TJ_DEVICE void swap_middle(Terms& terms) {
  const u32 high = terms.high[1], low = terms.low[1];
  terms.high[1] = terms.high[2];
  terms.low[1] = terms.low[2];
  terms.high[2] = high;
  terms.low[2] = low;
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
/// Sums of a strictly lower block in kBlockTerms bytes, four of a row in 16 bytes. Neither stores nor substitute() meet
/// in a bank.
TJ_DEVICE void store_sums(u32 place, const float (&sums)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    dev::store_shared(lane_row(place) + static_cast<u32>(i) * kTermBytes,
                      {sums[2 * i], sums[2 * i + 1], sums[4 + 2 * i], sums[5 + 2 * i]});
}
/// A column of (I + L)^-1, in f32, from the first row on. All lanes read the same of L.
TJ_DEVICE void substitute(u32 place, int column, float (&rows)[kBlockRows]) {
#pragma unroll
  for (int row = 0; row < kBlockRows; ++row) {
    float of_row[kBlockRows];
#pragma unroll
    for (int q = 0; q < 4 && 2 * q < row; ++q) {
      float four[4];
      dev::load_shared(
          place + static_cast<u32>(row / 8) * kTermBytes + static_cast<u32>(row % 8) * 64u + static_cast<u32>(q) * 16u,
          four);
#pragma unroll
      for (int e = 0; e < 4; ++e) of_row[2 * q + e % 2 + 8 * (e / 2)] = four[e];
    }
    rows[row] = row == column ? 1.0f : 0.0f;
#pragma unroll
    for (int k = 0; k < row; ++k) rows[row] = dev::multiply_add(-of_row[k], rows[k], rows[row]);
  }
}
/// The transpose of a block of which lanes 0 to 15 have a column each, its matrices of columns 0 to 7 first.
TJ_DEVICE void store_columns(u32 place, int column, const float (&rows)[kBlockRows]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    u32 high[4], low[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      split_pair(dev::Bf16{}, rows[8 * half + 2 * w], rows[8 * half + 2 * w + 1], high[w], low[w]);
    const u32 to = place + static_cast<u32>(column / 8 + 2 * half) * 128u + static_cast<u32>(column % 8) * 16u;
    dev::store_shared(to, high);
    dev::store_shared(to + kTermBytes, low);
  }
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
