// Parameters of products with solved matrices, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "ops/chunks/params.cuh"
#include "ops/gated_delta_rule/params.cuh"
#include "types.cuh"

namespace tj::ops::chunk_wu {

inline constexpr int kUnits = 4;                       ///< of a tile, each of 32 lanes
inline constexpr int kRows = chunks::kChunk / kUnits;  ///< of a unit: every fourth one of the chunk
inline constexpr int kAhead = 8;                       ///< tokens of an iteration

struct Params {
  gated_delta_rule::Tokens k, v, a, w, u;
  gated_delta_rule::Numbers beta, sums;  ///< sums: running sums of gates
  chunks::Sequences sequences;
  int half_beta;  ///< beta is of k's type
  int heads, tiles;
  Divisor by_heads, by_k, by_v;
};

/// Parameters of the text on warpgroup matrix instructions, whose tiles are items. Maps of tokens have rank 4: column,
/// token, head, batch; with lists rank 5, boxes end with a sequence (types.cuh).
struct MatrixParams {
  TensorMap k, v, a, w, u;
  gated_delta_rule::Numbers beta, sums;
  chunks::Sequences sequences;
  int half_beta;
  int heads, items;
  Divisor by_heads, by_k, by_v;
};

}  // namespace tj::ops::chunk_wu
