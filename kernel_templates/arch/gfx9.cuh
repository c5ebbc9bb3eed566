// Primitives of gfx9 (CDNA 2 to 4: gfx90a, gfx942, gfx950): those of all AMD GPUs, and the matrix instruction of its
// waves of 64 lanes. The model has the same names.
//
// Decides which builtin multiplies; which lane holds what is matrix_single.cuh's. Source: AMD CDNA 2 and 3 ISA
// reference guides, "Matrix arithmetic instructions". Invariant: all lanes of the wave take part.
#pragma once

namespace tj::dev {

inline constexpr unsigned kWave = 64;
inline constexpr int kGeneration = 9;

}  // namespace tj::dev

#include "arch/amd.cuh"
#include "matrix_single.cuh"

namespace tj::dev {

namespace detail {
typedef _Float16 Halves __attribute__((ext_vector_type(4)));
typedef short Bfloats __attribute__((ext_vector_type(4)));
typedef float Sums __attribute__((ext_vector_type(4)));
}  // namespace detail

/// d += a b, sums in f32: 16 rows, 16 columns, 16 of K.
TJ_DEVICE void mma_m16n16k16(F16, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  const detail::Sums sums = __builtin_amdgcn_mfma_f32_16x16x16f16(
      detail::as<detail::Halves>(a), detail::as<detail::Halves>(b), detail::as<detail::Sums>(d), 0, 0, 0);
  __builtin_memcpy(d, &sums, sizeof(sums));
}
TJ_DEVICE void mma_m16n16k16(Bf16, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  const detail::Sums sums = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(
      detail::as<detail::Bfloats>(a), detail::as<detail::Bfloats>(b), detail::as<detail::Sums>(d), 0, 0, 0);
  __builtin_memcpy(d, &sums, sizeof(sums));
}

}  // namespace tj::dev
