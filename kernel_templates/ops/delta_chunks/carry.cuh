// States from segment to segment: the bodies of the graph's nodes.
//
// Decides what a block does for eight rows of V of a head's states: S before each segment, S' = S M + N, all in f32
// (state_tile.cuh). Rows need nothing of each other. A warp has two of them, and a lane so many neighbours of K.
// Invariant: the states before the first segment are there already, and stay.
#pragma once

#include "ops/delta_chunks/params.cuh"

namespace tj::ops::delta_chunks {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

inline constexpr int kWarpRows = kCarryRows / kCarryWarps;

/// An iteration is a segment, from the second to the last but one.
struct Tile {
  int index;
  bool valid;
  int trip_count;
  int head, row;  ///< of all sequences; of the states
};
template <class C>
TJ_DEVICE Tile tile_at(const CarryParams& params, int index) {
  const int head = divided(index, params.by_parts);
  return {index, index < params.tiles, params.segments - 2, head, (index - head * params.parts) * kCarryRows};
}

template <class C_>
struct Loader {
  using C = C_;
  const CarryParams& params;
  TJ_DEVICE Loader(const CarryParams& p, int) : params(p) {}
};
/// M of segment i + 1: behind those N that are of all segments but the last.
template <class C>
TJ_DEVICE void load_map(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const int segments = loader.params.segments, unit = tile.head * (2 * segments - 3) + segments - 1 + i;
  dev::copy_box_4d(slot, &loader.params.map_rows, full, 0, unit * C::kHeadDim, 0, 0);
}

template <class C_>
struct Carrier {
  using C = C_;
  static constexpr int kEach = C::kHeadDim / 32;  ///< neighbours of K
  const CarryParams& params;
  float state[kWarpRows][kEach], added[kWarpRows][kEach];
  TJ_DEVICE Carrier(const CarryParams& p, int) : params(p) {}
};
/// The lane's first element of its warp's first row, of a state among others.
template <class C>
TJ_DEVICE long long lane_place(const Carrier<C>&, const Tile& tile, int slot) {
  const int row = tile.row + static_cast<int>(dev::warp_index() % static_cast<u32>(kCarryWarps)) * kWarpRows;
  return (static_cast<long long>(slot) * C::kHeadDim + row) * C::kHeadDim +
         static_cast<int>(dev::lane_index()) * Carrier<C>::kEach;
}
TJ_DEVICE void load_run(const float* from, float (&values)[4]) { dev::load_global(from, values); }
TJ_DEVICE void load_run(const float* from, float (&values)[2]) { dev::load_global(from, values[0], values[1]); }
TJ_DEVICE void store_run(float* to, const float (&values)[4]) {
  dev::store_global(to, {values[0], values[1], values[2], values[3]});
}
TJ_DEVICE void store_run(float* to, const float (&values)[2]) { dev::store_global(to, values[0], values[1]); }
TJ_DEVICE void load_run(u32 from, float (&values)[4]) { dev::load_shared(from, values); }
TJ_DEVICE void load_run(u32 from, float (&values)[2]) {
  values[0] = dev::load_shared<float>(from);
  values[1] = dev::load_shared<float>(from + 4);
}

/// N of a segment, as it lies among what maps the head's segments.
template <class C, int Rows, int Each>
TJ_DEVICE void load_added(const Carrier<C>& carrier, const Tile& tile, int segment, float (&rows)[Rows][Each]) {
  const int units = 2 * carrier.params.segments - 3;
  const float* const from = carrier.params.maps + lane_place(carrier, tile, tile.head * units + segment);
#pragma unroll
  for (int r = 0; r < Rows; ++r) load_run(from + r * C::kHeadDim, rows[r]);
}
/// S before a segment.
template <class C>
TJ_DEVICE void put_before(const Carrier<C>& carrier, const Tile& tile, int segment) {
  float* const to = carrier.params.states + lane_place(carrier, tile, tile.head * carrier.params.segments + segment);
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) store_run(to + r * C::kHeadDim, carrier.state[r]);
}

/// S behind the first segment is N itself, which began with the caller's state.
template <class C>
TJ_DEVICE void begin_rows(Carrier<C>& carrier, const Tile& tile) {
  load_added(carrier, tile, 0, carrier.state);
  put_before(carrier, tile, 1);
}
template <class C>
TJ_DEVICE void ask_rows(Carrier<C>& carrier, const Tile& tile, int i) {
  load_added(carrier, tile, i + 1, carrier.added);
}
/// S = S M + N.
template <class C>
TJ_DEVICE void multiply_map(Carrier<C>& carrier, const Tile&, int, u32 map) {
  constexpr int kEach = Carrier<C>::kEach;
  map += dev::lane_index() * (kEach * 4);
#pragma unroll 2
  for (int lane = 0; lane < 32; ++lane)
#pragma unroll
    for (int e = 0; e < kEach; ++e, map += C::kHeadDim * 4) {
      float row[kEach];
      load_run(map, row);
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r) {
        const float before = dev::shuffle_from(carrier.state[r][e], lane);
#pragma unroll
        for (int c = 0; c < kEach; ++c) carrier.added[r][c] = dev::multiply_add(before, row[c], carrier.added[r][c]);
      }
    }
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r)
#pragma unroll
    for (int c = 0; c < kEach; ++c) carrier.state[r][c] = carrier.added[r][c];
}
template <class C>
TJ_DEVICE void put_rows(Carrier<C>& carrier, const Tile& tile, int i) {
  put_before(carrier, tile, i + 2);
}

}  // namespace tj::ops::delta_chunks
