// Maps of tokens and a persistent walk, for launches over chunks.
//
// Decides how boxes of a chunk's rows end with a sequence. On the hot path: allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/common/tensor_args.hpp"
#include "ops/delta_chunks/params.cuh"
#include "ops/op.hpp"

namespace tj::ops::delta_chunks {

inline constexpr std::int64_t kMostTokens = kEndRows - kChunk;  ///< of lists: boxes end with a sequence

/// Column, token, head, batch; of lists so that boxes end with a sequence.
inline support::TensorMapDesc token_map(const Tensor& tensor, bool listed) {
  const int last = tensor.rank - 1;
  support::TensorMapDesc desc =
      tensor_map(tensor, {last, last - 2, last - 1, last == 3 ? 0 : kNoDimension}, {kSwizzleColumns, kChunk});
  if (listed) end_with_rows(desc);
  return desc;
}

inline void walk_chunks(int tiles, int max_sms, LaunchPlan& plan) {
  plan.limit_sms(max_sms);
  const auto all = static_cast<unsigned>(tiles);
  plan.blocks = plan.sm_count == 0 ? all : std::min(all, plan.resident_blocks());
}

}  // namespace tj::ops::delta_chunks
