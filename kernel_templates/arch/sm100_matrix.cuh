// The matrix instruction of sm_100a, which works on tensor memory: one thread issues it. The model has the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. See arch/sm100_tensor.cuh, before which it
// is of no use. Source of the encodings: PTX ISA 8.7 and 9.0, "tcgen05.mma", "tcgen05.commit", "cp.async.bulk.tensor"
// (.cta_group::2: the barrier may be the pair's other block's). None of it has run on a device.
#pragma once

namespace tj::dev {

/// sums (+)= a b for 16 of K, both operands in shared memory. `instruction` is matrix_instruction's. sums: row i is
/// lane i (for 64 rows see there), column j is column j from the address on. The block of the lower rank issues it for
/// a pair of blocks. Each block then has half of the rows of a and of b's columns at the same places of its shared
/// memory, and its rows of the sums.
template <int Blocks = 1>
TJ_DEVICE void matrix_multiply(u32 sums, u64 a, u64 b, u32 instruction, bool accumulate) {
  detail::check_blocks<Blocks>();
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(
          sums),
      "l"(a), "l"(b), "r"(instruction), "r"(static_cast<u32>(accumulate)), "n"(Blocks)
      : "memory");
}
/// A product with a in tensor memory, 8 columns. Row i is lane i; column c holds elements 2c (in its low half) and 2c +
/// 1 of K.
template <int Blocks = 1>
TJ_DEVICE void matrix_multiply_tensor(u32 sums, u32 a, u64 b, u32 instruction, bool accumulate) {
  detail::check_blocks<Blocks>();
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::%5.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(
          sums),
      "r"(a), "l"(b), "r"(instruction), "r"(static_cast<u32>(accumulate)), "n"(Blocks)
      : "memory");
}
/// Several steps of either form.
template <class S, int Blocks = 1>
TJ_DEVICE void matrix_multiply_steps(u32 sums, u64 a, u64 b, u32 instruction, bool accumulate) {
#pragma unroll
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply<Blocks>(sums, operand_advance(a, step * S::kLeftBytes), operand_advance(b, step * S::kRightBytes),
                            instruction, accumulate || step > 0);
}
template <class S, int Blocks = 1>
TJ_DEVICE void matrix_multiply_tensor_steps(u32 sums, u32 a, u64 b, u32 instruction, bool accumulate) {
#pragma unroll
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply_tensor<Blocks>(sums, a + 8u * step, operand_advance(b, step * S::kRightBytes), instruction,
                                   accumulate || step > 0);
}

// ---- what the unit reads, and who learns that it is done ----------------------------------------
/// One box of a rank-4 tensor into this block's shared memory. Its bytes complete on the barrier at the same place in
/// the block of its pair with the lower rank, which asks for the pair's products. One thread issues it.
TJ_DEVICE void copy_box_4d_for_pair(u32 destination, const TensorMap* map, u32 barrier, int c0, int c1, int c2,
                                    int c3) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %2, %7;\n"
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%3, "
      "%4, %5, %6}], [there];\n}\n" ::"r"(destination),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(cluster_rank() & ~1u)
      : "memory");
}

/// One arrival on the barrier once all products that this thread has issued are done.
template <int Site, int Blocks = 1>
TJ_DEVICE void matrix_commit(u32 barrier) {
  detail::check_blocks<Blocks>();
  asm volatile("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier),
               "n"(Blocks)
               : "memory");
}
/// One arrival on the barrier at the same place in every block of the cluster whose rank's bit is set in `mask`.
template <int Site, int Blocks = 1>
TJ_DEVICE void matrix_commit_multicast(u32 barrier, u32 mask) {
  detail::check_blocks<Blocks>();
  asm volatile(
      "tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
          barrier),
      "h"(static_cast<unsigned short>(mask)), "n"(Blocks)
      : "memory");
}

}  // namespace tj::dev
