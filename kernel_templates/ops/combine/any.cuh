// Weighted sums of rows that a list names: the bodies of the graph's nodes, for every family.
//
// Decides what a lane does with its kColumns columns of a row of d. Invariant: rows are added in the order of the list,
// in f32; a slot outside of y is skipped; nothing outside of d is written.
#pragma once

#include "ops/combine/params.cuh"
#include "ops/eight.cuh"

namespace tj::ops::combine {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

static_assert(kColumns == kEach, "a lane has eight columns");

template <class C>
inline constexpr int kAhead = rows_ahead(static_cast<int>(sizeof(typename Stored<typename C::Element>::Type)));

/// kWarps units.
struct Tile {
  int index;
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, (params.choices + kAhead<C> - 1) / kAhead<C>};
}

template <class C_>
struct Combiner {
  using C = C_;
  const Params& params;
  int row = 0;     ///< of d
  int column = 0;  ///< the first; not below the number of columns where there is nothing to do
  float sums[kEach];
  TJ_DEVICE Combiner(const Params& p, int) : params(p) {}
};

template <class C>
TJ_DEVICE void begin(Combiner<C>& combiner, const Tile& tile) {
  const Params& params = combiner.params;
  // Units are of 32 lanes, whatever a warp has.
  const int unit = tile.index * kWarps +
                   static_cast<int>(dev::warp_index() * static_cast<u32>(C::kLanes / 32) + dev::lane_index() / 32u);
  combiner.row = divided(unit, params.by_row_units);
  combiner.column =
      (unit - combiner.row * params.row_units) * kUnitColumns + static_cast<int>(dev::lane_index() % 32u) * kColumns;
  if (unit >= params.units) combiner.column = params.columns;
#pragma unroll
  for (float& sum : combiner.sums) sum = 0.0f;
}

/// The next choices. Their slots and weights come first, then all of their rows are under way before one is added.
template <class C>
TJ_DEVICE void add_choices(Combiner<C>& combiner, const Tile&, int i) {
  using Element = typename C::Element;
  const Params& params = combiner.params;
  const int left = params.columns - combiner.column, first = i * kAhead<C>;
  if (left <= 0) return;
  const int* slots = params.slots + combiner.row * params.slots_row + first;
  const float* weights = params.weights + combiner.row * params.weights_row + first;
  const auto* columns = static_cast<const typename Stored<Element>::Type*>(params.y) + combiner.column;
  int slot[kAhead<C>];
  float weight[kAhead<C>];
  Stored<Element> rows[kAhead<C>];
#pragma unroll
  for (int j = 0; j < kAhead<C>; ++j) {
    slot[j] = first + j < params.choices ? static_cast<int>(dev::load_global_u32(slots + j)) : -1;
    weight[j] = first + j < params.choices && params.weights != nullptr ? dev::load_global(weights + j) : 1.0f;
    if (slot[j] >= params.rows) slot[j] = -1;
  }
  if (params.wide_y != 0 && left >= kEach) {
#pragma unroll
    for (int j = 0; j < kAhead<C>; ++j)
      if (slot[j] >= 0) load_eight(columns + slot[j] * params.y_row, rows[j]);
  } else {
#pragma unroll
    for (int j = 0; j < kAhead<C>; ++j)
      if (slot[j] >= 0) load_some(columns + slot[j] * params.y_row, left, rows[j]);
  }
#pragma unroll
  for (int j = 0; j < kAhead<C>; ++j) {
    if (slot[j] < 0) continue;
    float values[kEach];
    values_of(Element{}, rows[j], values);
#pragma unroll
    for (int e = 0; e < kEach; ++e) combiner.sums[e] = dev::multiply_add(weight[j], values[e], combiner.sums[e]);
  }
}

template <class C>
TJ_DEVICE void finish_columns(Combiner<C>& combiner, const Tile&) {
  using Output = typename C::Output;
  using Type = typename Stored<Output>::Type;
  const Params& params = combiner.params;
  const int left = params.columns - combiner.column;
  if (left <= 0) return;
  if (params.residual != nullptr) {
    const Type* from = static_cast<const Type*>(params.residual) + combiner.row * params.residual_row + combiner.column;
    Stored<Output> eight;
    if (params.wide_residual != 0 && left >= kEach)
      load_eight(from, eight);
    else
      load_some(from, left, eight);
    float values[kEach];
    values_of(Output{}, eight, values);
#pragma unroll
    for (int e = 0; e < kEach; ++e) combiner.sums[e] += values[e];
  }
  Type* to = static_cast<Type*>(params.d) + combiner.row * params.d_row + combiner.column;
  store_eight(Output{}, to, combiner.sums, left, params.wide_d != 0);
}

}  // namespace tj::ops::combine
