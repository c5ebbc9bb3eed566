// Primitives of gfx12 (RDNA 4): those of all AMD GPUs, and the matrix instruction of its waves of 32 lanes.
// The model has the same names.
//
// Decides which builtin multiplies; which lane holds what is matrix_single.cuh's. Source: AMD RDNA 4 ISA reference
// guide, "WMMA instructions". Invariant: all lanes of the wave take part.
#pragma once

namespace tj::dev {

inline constexpr unsigned kWave = 32;
inline constexpr int kGeneration = 12;

}  // namespace tj::dev

#include "arch/amd.cuh"
#include "matrix_single.cuh"

namespace tj::dev {

namespace detail {
typedef _Float16 Halves __attribute__((ext_vector_type(8)));
typedef short Bfloats __attribute__((ext_vector_type(8)));
typedef int Bytes __attribute__((ext_vector_type(2)));
typedef float Sums __attribute__((ext_vector_type(8)));
}  // namespace detail

/// d += a b, sums in f32: 16 rows, 16 columns, 16 of K.
TJ_DEVICE void mma_m16n16k16(F16, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  const detail::Sums sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(
      detail::as<detail::Halves>(a), detail::as<detail::Halves>(b), detail::as<detail::Sums>(d));
  __builtin_memcpy(d, &sums, sizeof(sums));
}
TJ_DEVICE void mma_m16n16k16(Bf16, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  const detail::Sums sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
      detail::as<detail::Bfloats>(a), detail::as<detail::Bfloats>(b), detail::as<detail::Sums>(d));
  __builtin_memcpy(d, &sums, sizeof(sums));
}

/// The same of e4m3, with 32 of K: a word has four elements. An instruction takes 16 of K, a lane's first or last eight
/// bytes of either operand: both have the same of K, whichever that is.
TJ_DEVICE void mma_m16n16k32(E4m3, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  detail::Sums sums = detail::as<detail::Sums>(d);
#pragma unroll
  for (int half = 0; half < kOperandWords; half += 2) {
    const detail::Bytes left = {static_cast<int>(a[half]), static_cast<int>(a[half + 1])},
                        right = {static_cast<int>(b[half]), static_cast<int>(b[half + 1])};
    sums = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(left, right, sums);
  }
  __builtin_memcpy(d, &sums, sizeof(sums));
}

}  // namespace tj::dev
