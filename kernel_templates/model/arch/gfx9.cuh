// Primitives of gfx9 on the CPU (CDNA 2 to 4: gfx90a, gfx942, gfx950), for the CPU model: the device's names,
// signatures and meanings.
//
// Decides nothing: the library's model multiplies. gfx90a.cuh, which includes this, says that subnormal elements count
// as 0. Invariant: a unit that compiles for the device compiles here.
#pragma once

#ifndef TJ_MATRIX_FLUSHES_SUBNORMALS
#define TJ_MATRIX_FLUSHES_SUBNORMALS 0
#endif

namespace tj::dev {

inline constexpr unsigned kWave = 64;

}  // namespace tj::dev

#include "arch/amd.cuh"
#include "matrix_single.cuh"

namespace tj::dev {

/// d += a b, sums in f32: 16 rows, 16 columns, 16 of K.
template <class Tag>
TJ_DEVICE void mma_m16n16k16(Tag tag, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  detail::multiply(tag, TJ_MODEL_GFX9, d, a, b, TJ_MATRIX_FLUSHES_SUBNORMALS);
}

}  // namespace tj::dev
