// Elements of 8 bits with scales of blocks: the bodies of the graph's nodes.
//
// Decides what a warp does with its unit: 128 columns of some rows, of which half a warp has one at a time, 8 elements
// a lane. A block of 128 rows is a tile of its own: each warp holds sixteen rows in registers, until all have said
// their largest magnitude. Where q is transposed, a unit has 32 columns of 128 rows. x is read once. Invariant: nothing
// outside x is read, nothing outside q and scales is written.
#pragma once

#include "ops/activation.cuh"
#include "ops/eight.cuh"
#include "ops/quantise/params.cuh"
#include "ops/scales/make.cuh"

namespace tj::ops::quantise {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

/// kWarps units, or a block of 128 rows.
struct Tile {
  int index;
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, 1};
}

/// The place of a warp's unit.
struct Unit {
  bool valid;
  int batch, row, block, column;  ///< the first row; this lane's first column
};
TJ_DEVICE Unit unit_of(const Params& params, const Tile& tile) {
  const int unit = tile.index * kWarps + static_cast<int>(dev::warp_index());
  const int group = divided(unit, params.by_blocks), block = unit - group * params.blocks,
            batch = divided(group, params.by_row_units);
  return {unit < params.units, batch, (group - batch * params.row_units) * kStepRows, block,
          block * kBlock + static_cast<int>(dev::lane_index()) % 16 * kEach};
}

/// A step's rows of the unit as they lie in memory, with a gate also what it multiplies: of those behind the matrix,
/// and of columns behind it, zeros. All loads of a step that is inside come before anything looks at one: with a branch
/// around each, they would wait for each other.
template <class C>
struct Rows {
  using Element = typename C::Element;
  static constexpr bool kGated = C::kGate != kNone;
  Stored<Element> first[kAhead], second[kGated ? kAhead : 1];

  TJ_DEVICE void load(const Params& params, const Unit& unit, int row) {
    if constexpr (C::kRowIndices) return load_named(params, unit, row);
    const int half = static_cast<int>(dev::lane_index()) / 16;
    const auto* from = static_cast<const typename Stored<Element>::Type*>(params.x) + unit.batch * params.x_batch +
                       (row + half) * params.x_row + unit.column;
    if (params.wide != 0 && row + kStepRows <= params.rows && unit.column + kEach <= params.columns) {
#pragma unroll
      for (int r = 0; r < kAhead; ++r, from += 2 * params.x_row) {
        load_eight(from, first[r]);
        if constexpr (kGated) load_eight(from + params.columns, second[r]);
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < kAhead; ++r, from += 2 * params.x_row) {
      const int left = row + 2 * r + half < params.rows ? params.columns - unit.column : 0;
      load_some(from, left, first[r]);
      if constexpr (kGated) load_some(from + params.columns, left, second[r]);
    }
  }
  /// Rows that the list names, zeros for those that it does not: all of their numbers come before the first row.
  TJ_DEVICE void load_named(const Params& params, const Unit& unit, int row) {
    const int first_row = row + static_cast<int>(dev::lane_index()) / 16, left = params.columns - unit.column;
    const auto* x = static_cast<const typename Stored<Element>::Type*>(params.x) + unit.column;
    int from[kAhead];
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      const int to = first_row + 2 * r;
      from[r] = to < params.rows ? static_cast<int>(dev::load_global_u32(params.row_indices + to)) : -1;
      if (from[r] >= params.x_rows) from[r] = -1;
    }
    if (params.wide != 0 && left >= kEach) {
#pragma unroll
      for (int r = 0; r < kAhead; ++r) {
        first[r] = {};
        if constexpr (kGated) second[r] = {};
        if (from[r] < 0) continue;
        load_eight(x + from[r] * params.x_row, first[r]);
        if constexpr (kGated) load_eight(x + from[r] * params.x_row + params.columns, second[r]);
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      const int there = from[r] < 0 ? 0 : left;
      load_some(x + from[r] * params.x_row, there, first[r]);
      if constexpr (kGated) load_some(x + from[r] * params.x_row + params.columns, there, second[r]);
    }
  }
  TJ_DEVICE void values(int r, float (&out)[kEach]) const {
    const Element tag{};
    values_of(tag, first[r], out);
    if constexpr (kGated) {
      float factors[kEach];
      values_of(tag, second[r], factors);
#pragma unroll
      for (int e = 0; e < kEach; ++e) out[e] = activate<C::kGate>(out[e]) * factors[e];
    }
  }
};

template <class C_>
struct Quantiser {
  using C = C_;
  const Params& params;
  TJ_DEVICE Quantiser(const Params& p, int) : params(p) {}
};

/// Sixteen rows of a block of 128.
template <class C_>
struct Holder {
  using C = C_;
  const Params& params;
  Rows<C> rows[kHeld];
  TJ_DEVICE Holder(const Params& p, int) : params(p) {}
};

TJ_DEVICE float largest_of(const float (&values)[kEach]) {
  float largest = dev::magnitude(values[0]);
#pragma unroll
  for (int e = 1; e < kEach; ++e) largest = dev::maximum(largest, dev::magnitude(values[e]));
  return largest;
}

TJ_DEVICE void write_eight(const Params& params, const Unit& unit, int row, const float (&values)[kEach],
                           float inverse) {
  const int left = row < params.rows ? params.columns - unit.column : 0;
  unsigned char* to = params.q + unit.batch * params.q_batch + row * params.q_row + unit.column;
  u32 words[2];
#pragma unroll
  for (int w = 0; w < 2; ++w)
    words[w] = dev::pack_e4m3(values[4 * w] * inverse, values[4 * w + 1] * inverse) |
               dev::pack_e4m3(values[4 * w + 2] * inverse, values[4 * w + 3] * inverse) << 16;
  if (params.wide != 0 && left >= kEach) return dev::store_global(to, words[0], words[1]);
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    if (e < left) dev::store_global_u8(to + e, words[e / 4] >> e % 4 * 8 & 0xffu);
}

/// Rows of a unit whose blocks have one.
template <class C>
TJ_DEVICE void quantise_rows(Quantiser<C>& quantiser, const Tile& tile, int) {
  const Params& params = quantiser.params;
  const Unit unit = unit_of(params, tile);
  if (!unit.valid) return;
  const int half = static_cast<int>(dev::lane_index()) / 16;
  Rows<C> rows;
  rows.load(params, unit, unit.row);
#pragma unroll
  for (int r = 0; r < kAhead; ++r) {
    float values[kEach];
    rows.values(r, values);
    const int row = unit.row + 2 * r + half;
    float largest = largest_of(values);
#pragma unroll
    for (int mask = 8; mask > 0; mask /= 2) largest = dev::maximum(largest, dev::shuffle_xor(largest, mask));
    const float scale = scale_of(params.scales, largest);
    if (dev::lane_index() % 16u == 0 && row < params.rows)
      write_scale(params.scales, unit.batch, row, unit.block, scale);
    write_eight(params, unit, row, values, dev::divide_approx(1.0f, scale));
  }
}

/// A block of 128 rows, and the first of this warp's.
TJ_DEVICE Unit block_of(const Params& params, const Tile& tile) {
  const int group = divided(tile.index, params.by_blocks), block = tile.index - group * params.blocks,
            batch = divided(group, params.by_row_units);
  return {true, batch, (group - batch * params.row_units) * kBlock, block,
          block * kBlock + static_cast<int>(dev::lane_index()) % 16 * kEach};
}
TJ_DEVICE int first_held(u32 warp) { return static_cast<int>(warp) * kHeld * kStepRows; }

/// Loads a block, and leaves the largest magnitude of each warp's rows.
template <class C>
TJ_DEVICE void hold_rows(Holder<C>& holder, const Tile& tile, int, u32 slot) {
  const Params& params = holder.params;
  const Unit unit = block_of(params, tile);
  const u32 warp = dev::warp_index();
  const int first = unit.row + first_held(warp);
#pragma unroll
  for (int h = 0; h < kHeld; ++h) holder.rows[h].load(params, unit, first + h * kStepRows);
  float largest = 0;
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      float values[kEach];
      holder.rows[h].values(r, values);
      largest = dev::maximum(largest, largest_of(values));
    }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) largest = dev::maximum(largest, dev::shuffle_xor(largest, mask));
  if (dev::lane_index() == 0) dev::store_shared(slot + 4 * warp, largest);
}

/// Quantises what hold_rows() has loaded, by the largest magnitude of all warps.
template <class C>
TJ_DEVICE void quantise_held(Holder<C>& holder, const Tile& tile, int, u32 slot) {
  const Params& params = holder.params;
  const Unit unit = block_of(params, tile);
  float largest = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w += 4) {
    float of[4];
    dev::load_shared(slot + 4 * static_cast<u32>(w), of);
#pragma unroll
    for (int i = 0; i < 4; ++i) largest = dev::maximum(largest, of[i]);
  }
  const float scale = scale_of(params.scales, largest), inverse = dev::divide_approx(1.0f, scale);
  const u32 warp = dev::warp_index();
  if (warp == 0 && dev::lane_index() == 0) write_scale(params.scales, unit.batch, unit.row / kBlock, unit.block, scale);
  const int first = unit.row + first_held(warp) + static_cast<int>(dev::lane_index()) / 16;
#pragma unroll
  for (int h = 0; h < kHeld; ++h)
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      float values[kEach];
      holder.rows[h].values(r, values);
      write_eight(params, unit, first + h * kStepRows + 2 * r, values, inverse);
    }
}

/// A unit whose q is transposed: eight lanes have the rows of eight columns.
template <class C>
TJ_DEVICE void quantise_columns(Quantiser<C>& quantiser, const Tile& tile, int) {
  using Element = typename C::Element;
  const Params& params = quantiser.params;
  const int unit = tile.index * kWarps + static_cast<int>(dev::warp_index());
  if (unit >= params.units) return;
  const int group = divided(unit, params.by_blocks), batch = divided(group, params.by_row_units),
            block = group - batch * params.row_units, part = static_cast<int>(dev::lane_index()) / 4;
  const int row = block * kBlock + part * kLaneRows,
            column = (unit - group * params.blocks) * kUnitColumns + static_cast<int>(dev::lane_index()) % 4 * kEach;
  const auto* from = static_cast<const typename Stored<Element>::Type*>(params.x) + batch * params.x_batch +
                     row * params.x_row + column;
  Stored<Element> rows[kLaneRows];
  if (params.wide != 0 && row + kLaneRows <= params.rows && column + kEach <= params.columns) {
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) load_eight(from + r * params.x_row, rows[r]);
  } else {
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r)
      load_some(from + r * params.x_row, row + r < params.rows ? params.columns - column : 0, rows[r]);
  }
  float largest[kEach] = {};
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    float values[kEach];
    values_of(Element{}, rows[r], values);
#pragma unroll
    for (int e = 0; e < kEach; ++e) largest[e] = dev::maximum(largest[e], dev::magnitude(values[e]));
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) largest[e] = dev::maximum(largest[e], dev::shuffle_xor(largest[e], mask));
    const float scale = scale_of(params.scales, largest[e]);
    if (part == e && column + e < params.columns) write_scale(params.scales, batch, column + e, block, scale);
    largest[e] = dev::divide_approx(1.0f, scale);
  }
#pragma unroll
  for (int pair = 0; pair < kEach; pair += 2) {
    u32 words[2][4] = {};
#pragma unroll
    for (int r = 0; r < kLaneRows; r += 2) {
      float low[2], high[2];
      dev::unpack(Element{}, rows[r].words[pair / 2], low[0], high[0]);
      dev::unpack(Element{}, rows[r + 1].words[pair / 2], low[1], high[1]);
      words[0][r / 4] |= dev::pack_e4m3(low[0] * largest[pair], low[1] * largest[pair]) << r % 4 * 8;
      words[1][r / 4] |= dev::pack_e4m3(high[0] * largest[pair + 1], high[1] * largest[pair + 1]) << r % 4 * 8;
    }
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (column + pair + e < params.columns)
        write_sixteen(params.q + batch * params.q_batch + (column + pair + e) * params.q_row + row, words[e],
                      params.rows - row, params.wide_q != 0);
  }
}

}  // namespace tj::ops::quantise
