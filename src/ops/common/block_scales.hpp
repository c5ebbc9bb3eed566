// Scales of blocks that a call writes, as launch parameters see them.
//
// Decides strides alone. Which shapes are legal is each op's to check.
#pragma once

#include "ops/common/tensor_args.hpp"
#include "ops/scales/params.cuh"

namespace tj::ops {

constexpr std::int64_t scale_blocks(std::int64_t columns) { return (columns + kScaleBlock - 1) / kScaleBlock; }
/// Places of a row's scales in memory: i32 has those of four blocks.
constexpr std::int64_t scale_words(std::int64_t columns, DType type) {
  const std::int64_t blocks = scale_blocks(columns);
  return type == DType::i32 ? (blocks + kScalesPacked - 1) / kScalesPacked : blocks;
}

/// Sets the scales of rows of so many columns, member by member: plans compare all bytes of a parameter.
inline void set_block_scales(BlockScales& to, const Tensor& scales, std::int64_t columns, bool powers_of_two) {
  to.data = scales.data;
  to.batch = batch_stride(scales, 3);
  to.row = stride(scales, scales.rank - 2);
  to.block = stride(scales, scales.rank - 1);
  to.blocks = static_cast<int>(scale_blocks(columns));
  to.powers_of_two = powers_of_two;
  to.packed = scales.dtype == DType::i32;
}

}  // namespace tj::ops
