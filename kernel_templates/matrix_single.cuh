// Layout of the matrix instructions of gfx12 and gfx9, lane by lane: 16 rows, 16 columns, 16 of K. The same text serves
// devices and the model.
//
// Decides no instruction. Operands are alike: rows of the left one, columns of the right one, elements of K in order,
// two a word. So the sums' rows are the K of a next product whose operand they become. Each element is in one lane,
// whether a wave has 32 or 64. Included by arch/gfx12.cuh and arch/gfx9.cuh of both, after arch/amd.cuh. Source: AMD
// RDNA 4 ISA reference guide, "WMMA instructions"; CDNA 2 and 3 ISA reference guides, "Matrix arithmetic instructions".
#pragma once

namespace tj::dev {

/// Registers of an operand, two elements each; sums; and how many lanes hold each element of an operand.
inline constexpr int kSums = 16 * 16 / static_cast<int>(kWave), kOperandWords = kSums / 2, kCopies = 1;
/// The lane's row of the left operand, or column of the right one; its first element of K, kSums of them.
TJ_DEVICE u32 operand_row() { return lane_index() % 16u; }
TJ_DEVICE u32 operand_k() { return lane_index() / 16u * static_cast<u32>(kSums); }
/// Place of the v-th of the lane's sums.
TJ_DEVICE u32 sum_row(int v) { return lane_index() / 16u * static_cast<u32>(kSums) + static_cast<u32>(v); }
TJ_DEVICE u32 sum_column() { return lane_index() % 16u; }

/// Sums, rounded, as an operand of the next product. Their columns are its rows (of the left operand) or columns (of
/// the right one); their rows are its K. They are where they are wanted.
template <class Tag>
TJ_DEVICE void sums_as_operand(Tag tag, const float (&sums)[kSums], u32 (&words)[kOperandWords]) {
#pragma unroll
  for (int w = 0; w < kOperandWords; ++w) words[w] = pack(tag, sums[2 * w], sums[2 * w + 1]);
}

/// The row of the sums that is at place `place` of K below: the sums are in order.
TJ_DEVICE constexpr u32 row_at(u32 place) { return place; }
/// sums_as_operand with K in the order of the sums: row_at makes the other operand.
template <class Tag>
TJ_DEVICE void sums_as_own_operand(Tag tag, const float (&sums)[kSums], u32 (&words)[kOperandWords]) {
  sums_as_operand(tag, sums, words);
}

/// The part of an operand that no other lane has: words of K from own_k() on.
inline constexpr int kOwnWords = kOperandWords;
TJ_DEVICE u32 own_k() { return operand_k(); }
TJ_DEVICE void own_part(const u32 (&words)[kOperandWords], u32 (&own)[kOwnWords]) {
#pragma unroll
  for (int w = 0; w < kOwnWords; ++w) own[w] = words[w];
}

/// Sums in the order of their rows, kSums of them from row own_k() on.
TJ_DEVICE void sums_in_order(const float (&sums)[kSums], float (&values)[kSums]) {
#pragma unroll
  for (int v = 0; v < kSums; ++v) values[v] = sums[v];
}

}  // namespace tj::dev
