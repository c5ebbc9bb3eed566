// Scales of blocks as they lie in memory, for threads that read them by themselves.
//
// Decides where a scale is. Included after tile.cuh. Invariant: a caller names a row or column inside the matrix.
#pragma once

namespace tj::ops::gemm {

/// The scale of block `block` of K of a row of scales.
template <class C>
TJ_DEVICE float memory_scale(const float* scales, const ScaleStrides& strides, int batch, int row, int block) {
  const long long place =
      batch * strides.batch + row * strides.row + (kPacked<C> ? block / kPackedBlocks : block) * strides.block;
  if constexpr (kPacked<C>)
    return packed_scale(dev::load_global_u32(scales + place), block);
  else
    return dev::load_global(scales + place);
}

}  // namespace tj::ops::gemm
