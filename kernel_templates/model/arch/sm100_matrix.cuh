// The matrix instruction of sm_100a on the CPU: the names, signatures and meanings of the device's file, for the CPU
// model.
//
// Decides nothing but what a step of a multiplication adds to its operands: the library's model multiplies. Invariant:
// a unit that compiles for the device compiles here.
#pragma once

namespace tj::dev {

/// sums (+)= a b for 16 of K, both operands in shared memory. `instruction` is matrix_instruction's. sums: row i is
/// lane i (for 64 rows see there), column j is column j from the address on. The block of the lower rank issues it for
/// a pair of blocks. Each block then has half of the rows of a and of b's columns at the same places of its shared
/// memory, and its rows of the sums.
template <int Blocks = 1>
TJ_DEVICE void matrix_multiply(u32 sums, u64 a, u64 b, u32 instruction, bool accumulate) {
  detail::check_blocks<Blocks>();
  const tj_model_tensor_matrix product = {sums, instruction, accumulate, 0, 0, a, b, Blocks};
  detail::api.tensor_multiply(&product);
}
/// A product with a in tensor memory, 8 columns. Row i is lane i; column c holds elements 2c (in its low half) and 2c +
/// 1 of K.
template <int Blocks = 1>
TJ_DEVICE void matrix_multiply_tensor(u32 sums, u32 a, u64 b, u32 instruction, bool accumulate) {
  detail::check_blocks<Blocks>();
  const tj_model_tensor_matrix product = {sums, instruction, accumulate, 1, a, 0, b, Blocks};
  detail::api.tensor_multiply(&product);
}
/// Several steps of either form.
template <class S, int Blocks = 1>
TJ_DEVICE void matrix_multiply_steps(u32 sums, u64 a, u64 b, u32 instruction, bool accumulate) {
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply<Blocks>(sums, operand_advance(a, step * S::kLeftBytes), operand_advance(b, step * S::kRightBytes),
                            instruction, accumulate || step > 0);
}
template <class S, int Blocks = 1>
TJ_DEVICE void matrix_multiply_tensor_steps(u32 sums, u32 a, u64 b, u32 instruction, bool accumulate) {
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply_tensor<Blocks>(sums, a + 8u * step, operand_advance(b, step * S::kRightBytes), instruction,
                                   accumulate || step > 0);
}

/// One box of a rank-4 tensor into this block's shared memory. Its bytes complete on the barrier at the same place in
/// the block of its pair with the lower rank. One thread issues it.
TJ_DEVICE void copy_box_4d_for_pair(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2,
                                    int c3) {
  const int coordinates[4] = {c0, c1, c2, c3};
  detail::api.copy_box_for_pair(destination, map, barrier, coordinates, 4);
}

/// One arrival on the barrier once all products that this thread has issued are done.
template <int Site, int Blocks = 1>
TJ_DEVICE void matrix_commit(u32 barrier) {
  detail::check_blocks<Blocks>();
  detail::api.tensor_commit(Site, barrier, ~0u, Blocks);
}
/// One arrival on the barrier at the same place in every block of the cluster whose rank's bit is set in `mask`.
template <int Site, int Blocks = 1>
TJ_DEVICE void matrix_commit_multicast(u32 barrier, u32 mask) {
  detail::check_blocks<Blocks>();
  detail::api.tensor_commit(Site, barrier, mask, Blocks);
}

}  // namespace tj::dev
