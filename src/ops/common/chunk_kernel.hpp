// The fields of kernels over rows of keys and values in chunks: a type and a width.
//
// Decides the rows of the table that chunk_solve and chunk_wu share.
#pragma once

#include <array>

#include "ops/common/fields.hpp"
#include "ops/gated_delta_rule/rule_fields.hpp"

namespace tj::ops {

struct ChunkKernel {
  DType dtype = DType::bf16;
  int head_dim = 128;
};
inline constexpr std::array<Field<ChunkKernel>, 2> kChunkFields = {
    {gated_delta_rule::dtype_field<ChunkKernel>(), gated_delta_rule::head_dim_field<ChunkKernel>()}};

}  // namespace tj::ops
