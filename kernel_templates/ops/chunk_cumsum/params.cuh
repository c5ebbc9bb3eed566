// Parameters of running sums of gates, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "ops/chunks/params.cuh"
#include "ops/gated_delta_rule/params.cuh"

namespace tj::ops::chunk_cumsum {

inline constexpr int kUnits = 8;  ///< of a tile, each of 32 lanes: neighbouring heads share what memory brings

/// The rule has the gate and what its numbers mean; g_cu stands at the place of o.
struct Params {
  gated_delta_rule::Params rule;
  chunks::Sequences sequences;
  int units, tiles;  ///< units: a chunk's slot and a head, heads first
  Divisor by_heads;
};

}  // namespace tj::ops::chunk_cumsum
