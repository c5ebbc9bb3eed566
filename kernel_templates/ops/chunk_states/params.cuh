// Parameters of states from chunk to chunk as a stage, by value: written by the host, read by the device.
#pragma once

#include "ops/delta_chunks/params.cuh"

namespace tj::ops::chunk_states {

/// The states' kernel of delta_chunks knows the first member. There w is at the place of q, u at that of v, and v_new
/// at that of o. h stands for states that are kept, by chunks of all sequences. There are no records.
struct Params {
  delta_chunks::StateParams state;
  gated_delta_rule::Numbers sums;  ///< running sums of gates; null: 0
  int values;                      ///< v_new: 0 none, 1 rows of chunks, 2 rows of tokens
  int tiles;
};
inline constexpr int kValuesOfChunks = 1, kValuesOfTokens = 2;

}  // namespace tj::ops::chunk_states
