// Partial outputs of attention with their log-sum-exps, merged: the bodies of the graph's nodes, for every family.
//
// Decides what a thread does with its columns of a row. A state weighs e^(its log-sum-exp - the largest). A state of
// weight 0 has seen no key: its values are read with the others, and dropped whatever they are. Invariant: states are
// added in their order, so equal calls give equal bits.
#pragma once

#include "ops/columns.cuh"
#include "ops/merge_states/params.cuh"

namespace tj::ops::merge_states {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

/// kWarps units of kUnitColumns columns of a row.
struct Tile {
  int index;
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, (params.count + kAhead - 1) / kAhead};
}

template <class C_>
struct Merger {
  using C = C_;
  const Params& params;
  int batch = 0, head = 0, row = 0;
  int column = 0;  ///< the first; not below `columns` where there is nothing to do
  float largest, sum;
  float output[kThreadColumns];
  TJ_DEVICE Merger(const Params& p, int) : params(p) {}
};

TJ_DEVICE long long place_of(const RowStrides& strides, int batch, int head, int row) {
  return batch * strides.batch + head * strides.head + row * strides.row;
}
/// The log-sum-exps of states from `first` on; -inf behind the last.
template <class C>
TJ_DEVICE void read_lse(const Merger<C>& merger, int first, float (&lse)[kAhead]) {
  const Params& params = merger.params;
  const float* from = params.lse_states + place_of(params.of_lse_states, merger.batch, merger.head, merger.row) +
                      first * params.next_lse;
#pragma unroll
  for (int s = 0; s < kAhead; ++s)
    lse[s] = first + s < params.count ? dev::load_global(from + s * params.next_lse) : dev::minus_infinity();
}

/// The row of a unit, and the largest log-sum-exp of its states.
template <class C>
TJ_DEVICE void begin(Merger<C>& merger, const Tile& tile) {
  const Params& params = merger.params;
  // Units are of 32 lanes, whatever a warp has.
  const int unit = tile.index * kWarps +
                   static_cast<int>(dev::warp_index() * static_cast<u32>(C::kLanes / 32) + dev::lane_index() / 32u);
  const bool inside = unit < params.units;
  const int rows = divided(inside ? unit : 0, params.by_row_units), heads = divided(rows, params.by_rows);
  merger.row = rows - heads * params.rows;
  merger.batch = divided(heads, params.by_heads);
  merger.head = heads - merger.batch * params.heads;
  merger.column = inside ? (unit - rows * params.row_units) * kUnitColumns +
                               static_cast<int>(dev::lane_index() % 32u) * kThreadColumns
                         : params.columns;
  merger.largest = dev::minus_infinity();
  merger.sum = 0.0f;
#pragma unroll
  for (float& output : merger.output) output = 0.0f;
  // The first lane writes the log-sum-exp; it has columns of the row.
  if (merger.column >= params.columns) return;
  // Asked for before the first log-sum-exps, and looked at behind them: one wait for all.
  int from = 0, end = merger.row + 1;
  if (params.bounds != nullptr) {
    from = static_cast<int>(dev::load_global_u32(params.bounds));
    end = static_cast<int>(dev::load_global_u32(params.bounds + params.last_bound));
  }
#pragma unroll 1
  for (int first = 0; first < params.count; first += kAhead) {
    float lse[kAhead];
    read_lse(merger, first, lse);
#pragma unroll
    for (int s = 0; s < kAhead; ++s) merger.largest = dev::maximum(merger.largest, lse[s]);
  }
  if (merger.row < from || merger.row >= end) merger.column = params.columns;
}

/// The next states: all of them are under way before the first is added.
template <class C>
TJ_DEVICE void add_states(Merger<C>& merger, const Tile&, int i) {
  constexpr float kLog2E = 1.44269504088896f;
  const Params& params = merger.params;
  const int left = params.columns - merger.column, first = i * kAhead;
  if (left <= 0) return;
  const float reference = merger.largest == dev::minus_infinity() ? 0.0f : merger.largest;
  float weights[kAhead], values[kAhead][kThreadColumns] = {};
  const long long at = place_of(params.of_states, merger.batch, merger.head, merger.row) + merger.column;
#pragma unroll
  for (int s = 0; s < kAhead; ++s)
    if (first + s < params.count)
      read_columns(typename C::Element{}, params.states, at + (first + s) * params.next_state, left,
                   params.wide_states != 0, values[s]);
  read_lse(merger, first, weights);
#pragma unroll
  for (int s = 0; s < kAhead; ++s) {
    const float weight = dev::exp2_approx((weights[s] - reference) * kLog2E);
    merger.sum += weight;
#pragma unroll
    for (int c = 0; c < kThreadColumns; ++c)
      merger.output[c] = dev::multiply_add(weight, weight != 0.0f ? values[s][c] : 0.0f, merger.output[c]);
  }
}

/// A row without a key in any state gives 0 and -inf.
template <class C>
TJ_DEVICE void finish_rows(Merger<C>& merger, const Tile&) {
  constexpr float kLn2 = 0.693147180559945f;
  const Params& params = merger.params;
  const int left = params.columns - merger.column;
  if (left <= 0) return;
  const bool any = merger.sum != 0.0f;
  const float factor = any ? 1.0f / merger.sum : 0.0f;
#pragma unroll
  for (float& output : merger.output) output *= factor;
  write_columns(typename C::Output{}, params.o,
                place_of(params.of_o, merger.batch, merger.head, merger.row) + merger.column, left, params.wide_o != 0,
                merger.output);
  if (params.lse != nullptr && merger.column == 0)
    dev::store_global(params.lse + place_of(params.of_lse, merger.batch, merger.head, merger.row),
                      any ? merger.largest + kLn2 * dev::log2_approx(merger.sum) : dev::minus_infinity());
}

}  // namespace tj::ops::merge_states
