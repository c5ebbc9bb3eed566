// The fields of kernels over rows of keys and values in chunks: a type and a width.
//
// Decides the rows of the table that chunk_solve and chunk_states share, and what follows from them alone.
#pragma once

#include <array>
#include <vector>

#include "ops/common/fields.hpp"
#include "ops/gated_delta_rule/rule_fields.hpp"
#include "ops/op.hpp"

namespace tj::ops {

struct ChunkKernel {
  DType dtype = DType::bf16;
  int head_dim = 128;
};
inline constexpr std::array<Field<ChunkKernel>, 2> kChunkFields = {
    {gated_delta_rule::dtype_field<ChunkKernel>(), gated_delta_rule::head_dim_field<ChunkKernel>()}};

/// One request for each kernel of a table that flags name.
template <const auto& kFields, class Kernel>
std::vector<Request> requests_of_flags(std::string_view op, const Flags& flags) {
  std::vector<Request> list;
  for (const Kernel& kernel : kernels_of_flags<kFields, Kernel>(op, flags, choices_of_fields<kFields>()))
    list.push_back(request_of_fields<kFields>(op, kernel));
  return list;
}

}  // namespace tj::ops
