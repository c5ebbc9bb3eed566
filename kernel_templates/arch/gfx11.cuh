// Primitives of gfx11 (RDNA 3 and 3.5): those of all AMD GPUs, and the matrix instruction of its waves of 32 lanes.
// The model has the same names.
//
// Decides which builtin multiplies; which lane holds what is matrix_gfx11.cuh's. Source: AMD RDNA 3 ISA reference
// guide, "WMMA instructions". Invariant: all lanes of the wave take part, and lanes l and l + 16 hold the same of both
// operands.
#pragma once

namespace tj::dev {

inline constexpr unsigned kWave = 32;
inline constexpr int kGeneration = 11;

}  // namespace tj::dev

#include "arch/amd.cuh"
#include "matrix_gfx11.cuh"

namespace tj::dev {

namespace detail {
typedef _Float16 Halves __attribute__((ext_vector_type(16)));
typedef short Bfloats __attribute__((ext_vector_type(16)));
typedef float Sums __attribute__((ext_vector_type(8)));
}  // namespace detail

/// d += a b, sums in f32: 16 rows, 16 columns, 16 of K.
TJ_DEVICE void mma_m16n16k16(F16, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  const detail::Sums sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(
      detail::as<detail::Halves>(a), detail::as<detail::Halves>(b), detail::as<detail::Sums>(d));
  __builtin_memcpy(d, &sums, sizeof(sums));
}
TJ_DEVICE void mma_m16n16k16(Bf16, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  const detail::Sums sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(
      detail::as<detail::Bfloats>(a), detail::as<detail::Bfloats>(b), detail::as<detail::Sums>(d));
  __builtin_memcpy(d, &sums, sizeof(sums));
}

}  // namespace tj::dev
