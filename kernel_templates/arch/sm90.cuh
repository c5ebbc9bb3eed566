// Primitives of sm_90a: those of all NVIDIA GPUs, of sm_90, bulk copies, warpgroup matrix instructions. The model has
// the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Every synchronising primitive takes a site
// id first, so that the model can switch it off; here it is unused. Source of the encodings: PTX ISA 8.7, "Asynchronous
// Warpgroup Level Matrix Instructions".
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "arch/sm90_sync.cuh"

namespace tj::dev {

// ---- warpgroup matrix instructions ----------------------------------------------------------------------------------
template <int Site>
TJ_DEVICE void matrix_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int Site>
TJ_DEVICE void matrix_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Returns once at most `Pending` of the newest committed groups are unfinished.
template <int Site, int Pending>
TJ_DEVICE void matrix_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
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

}  // namespace tj::dev

#include "arch/sm90_copies.cuh"
#include "arch/sm90_wgmma.cuh"
