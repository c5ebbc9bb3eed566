// Primitives of gfx12 (RDNA 4) on the CPU: the names, signatures and meanings of the device's file, for the CPU model.
//
// Decides nothing: the library's model multiplies. Invariant: a unit that compiles for the device compiles here.
#pragma once

namespace tj::dev {

inline constexpr unsigned kWave = 32;

}  // namespace tj::dev

#include "arch/amd.cuh"
#include "matrix_single.cuh"

namespace tj::dev {

/// d += a b, sums in f32: 16 rows, 16 columns, 16 of K.
template <class Tag>
TJ_DEVICE void mma_m16n16k16(Tag tag, float (&d)[kSums], const u32 (&a)[kOperandWords], const u32 (&b)[kOperandWords]) {
  detail::multiply(tag, TJ_MODEL_GFX12, d, a, b);
}

/// The same of e4m3, with 32 of K.
TJ_DEVICE void mma_m16n16k32(E4m3 tag, float (&d)[kSums], const u32 (&a)[kOperandWords],
                             const u32 (&b)[kOperandWords]) {
  detail::multiply(tag, TJ_MODEL_GFX12, d, a, b);
}

}  // namespace tj::dev
