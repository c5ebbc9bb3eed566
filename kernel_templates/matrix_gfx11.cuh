// Layout of the matrix instruction of gfx11, lane by lane: 16 rows, 16 columns, 16 of K. The same text serves devices
// and the model.
//
// Decides no instruction. Operands are alike: rows of the left one, columns of the right one, elements of K in order,
// two a word. So the sums' rows are the K of a next product whose operand they become. Included by arch/gfx11.cuh of
// both, after arch/amd.cuh. Source: AMD RDNA 3 ISA reference guide, "WMMA instructions"; AMD GPUOpen, "How to
// accelerate AI applications on RDNA 3 using WMMA".
#pragma once

namespace tj::dev {

/// Registers of an operand, two elements each; sums; and how many lanes hold each element of an operand.
inline constexpr int kOperandWords = 8, kSums = 8, kCopies = 2;
/// The lane's row of the left operand, or column of the right one; its first element of K, all 16 of them.
TJ_DEVICE u32 operand_row() { return lane_index() % 16u; }
TJ_DEVICE u32 operand_k() { return 0u; }
/// Place of the v-th of the lane's sums.
TJ_DEVICE u32 sum_row(int v) { return 2u * static_cast<u32>(v) + lane_index() / 16u; }
TJ_DEVICE u32 sum_column() { return lane_index() % 16u; }

/// Sums, rounded, as an operand of the next product. Their columns are its rows (of the left operand) or columns (of
/// the right one); their rows are its K. Lanes 0 to 15 have the even rows, the others the odd rows, and both need all.
template <class Tag>
TJ_DEVICE void sums_as_operand(Tag tag, const float (&sums)[kSums], u32 (&words)[kOperandWords]) {
  const bool odd = lane_index() >= 16u;
#pragma unroll
  for (int w = 0; w < kSums / 2; ++w) {
    const u32 mine = pack(tag, sums[2 * w], sums[2 * w + 1]), theirs = shuffle_xor<16>(mine);
    const u32 even_rows = odd ? theirs : mine, odd_rows = odd ? mine : theirs;
    words[2 * w] = low_halves(even_rows, odd_rows);
    words[2 * w + 1] = high_halves(even_rows, odd_rows);
  }
}

/// The row of the sums that is at place `place` of K below: among four neighbours the inner two change places. So rows
/// of places add: for two places with no bit in common, row_at of their sum is the sum of their rows.
TJ_DEVICE constexpr u32 row_at(u32 place) { return (place & ~3u) | (place & 1u) << 1 | (place >> 1 & 1u); }
/// sums_as_operand with K in the order of the sums: row_at makes the other operand, and no word is put together anew.
template <class Tag>
TJ_DEVICE void sums_as_own_operand(Tag tag, const float (&sums)[kSums], u32 (&words)[kOperandWords]) {
  const bool odd = lane_index() >= 16u;
#pragma unroll
  for (int w = 0; w < kSums / 2; ++w) {
    const u32 mine = pack(tag, sums[2 * w], sums[2 * w + 1]), theirs = shuffle_xor<16>(mine);
    words[2 * w] = odd ? theirs : mine;
    words[2 * w + 1] = odd ? mine : theirs;
  }
}

/// The part of an operand that no other lane has: words of K from own_k() on.
inline constexpr int kOwnWords = kOperandWords / kCopies;
TJ_DEVICE u32 own_k() { return lane_index() / 16u * 8u; }
TJ_DEVICE void own_part(const u32 (&words)[kOperandWords], u32 (&own)[kOwnWords]) {
  const bool second = lane_index() >= 16u;
#pragma unroll
  for (int w = 0; w < kOwnWords; ++w) {
    const u32 lower = words[w], upper = words[kOwnWords + w];  // read both, so that no index is computed
    own[w] = second ? upper : lower;
  }
}

/// Sums in the order of their rows, kSums of them from row own_k() on: the halves of a wave trade what each lacks.
TJ_DEVICE void sums_in_order(const float (&sums)[kSums], float (&values)[kSums]) {
  const bool upper = lane_index() >= 16u;
#pragma unroll
  for (int v = 0; v < kSums / 2; ++v) {
    const float low = sums[v], high = sums[v + kSums / 2], got = shuffle_xor<16>(upper ? low : high);
    values[2 * v] = upper ? got : low;
    values[2 * v + 1] = upper ? high : got;
  }
}

}  // namespace tj::dev
