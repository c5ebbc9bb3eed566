// Primitives of sm_90a on the CPU: the names, signatures and meanings of the device's file, for the CPU model.
//
// Decides nothing but what a step of a matrix multiplication adds to its operands: the library's model multiplies. No
// op and no schedule. Invariant: a unit that compiles for the device compiles here.
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "arch/sm90_sync.cuh"

namespace tj::dev {

// ---- warpgroup matrix instructions ----------------------------------------------------------------------------------
template <int Site>
TJ_DEVICE void matrix_fence() {
  detail::api.matrix_fence(Site);
}
template <int Site>
TJ_DEVICE void matrix_commit() {
  detail::api.matrix_commit(Site);
}
/// Returns once at most `Pending` of the newest committed groups are unfinished.
template <int Site, int Pending>
TJ_DEVICE void matrix_wait() {
  detail::api.matrix_wait(Site, Pending);
}

/// Shared-memory operand with 128-byte swizzle. Bits 0-13 address >> 4, 16-29 leading offset >> 4, 32-45 stride offset
/// >> 4, 62-63 swizzle mode 1 (128 bytes).
TJ_DEVICE u64 matrix_operand(u32 address, u32 leading_bytes, u32 stride_bytes) {
  return (u64{1} << 62) | (u64{(stride_bytes >> 4) & 0x3fffu} << 32) | (u64{(leading_bytes >> 4) & 0x3fffu} << 16) |
         u64{(address >> 4) & 0x3fffu};
}
/// The operand `bytes` further on, inside one swizzle atom row or at a multiple of 1024.
TJ_DEVICE u64 operand_advance(u64 operand, u32 bytes) { return operand + (bytes >> 4); }

/// The operands of a matrix instruction that are stored MN-major in shared memory (rows of one k), instead of K-major.
inline constexpr int kRightMn = 1, kLeftMn = 2;

/// d (+)= a b, both operands in shared memory; MnMajor (kLeftMn, kRightMn or both) says which is stored so. The whole
/// warpgroup executes it. Until the wait that covers it, d holds NaN.
template <int MnMajor, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  static_assert(kElementBytes<Tag> == 2 || MnMajor == 0, "operands of 8 bits are K-major");
  const tj_model_matrix instruction = {detail::element(tag),
                                       2 * Half,
                                       (MnMajor & kLeftMn) != 0,
                                       (MnMajor & kRightMn) != 0,
                                       accumulate,
                                       d,
                                       nullptr,
                                       a,
                                       b};
  detail::api.matrix_multiply(&instruction);
}
/// A product with a in registers: a[0..3] is the 64x16 fragment of this thread.
template <int MnMajor, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  static_assert((MnMajor & kLeftMn) == 0, "registers have one order");
  static_assert(kElementBytes<Tag> == 2, "operands of 8 bits come from shared memory");
  const tj_model_matrix instruction = {detail::element(tag), 2 * Half, 0, MnMajor == kRightMn, accumulate, d, a, 0, b};
  detail::api.matrix_multiply(&instruction);
}
/// How far a multiplication goes: `Steps` steps of 32 bytes of K; each moves the operands in shared memory on by the
/// bytes given. MnMajor: which operands in shared memory are stored so.
template <int Steps, int LeftBytes, int RightBytes, int MnMajor>
struct MatrixSteps {
  static constexpr int kSteps = Steps, kLeftBytes = LeftBytes, kRightBytes = RightBytes;
  static constexpr int kMnMajor = MnMajor;
};
/// Several steps of either form; a in registers moves on by four a step.
template <class S, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply<S::kMnMajor>(tag, d, operand_advance(a, step * S::kLeftBytes),
                                 operand_advance(b, step * S::kRightBytes), accumulate || step > 0);
}
template <class S, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  for (u32 step = 0; step < S::kSteps; ++step)
    matrix_multiply<S::kMnMajor>(tag, d, a + 4 * step, operand_advance(b, step * S::kRightBytes),
                                 accumulate || step > 0);
}

}  // namespace tj::dev

#include "arch/sm90_copies.cuh"
