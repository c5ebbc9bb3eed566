// Elements of 8 bits with scales of blocks: the bodies of the graph's nodes.
//
// Decides what a warp does with its unit: 128 columns of some rows, of which half a warp has one at a time, 8 elements
// a lane. A block of 128 rows is read twice, first for its largest magnitude. Where q is transposed, a unit has 32
// columns of 128 rows, and is read once. Invariant: nothing outside x is read,
// nothing outside q and scales is written.
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

/// kWarps units.
struct Tile {
  int index;
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, params.tall != 0 ? 2 * kSteps : 1};
}

template <class C_>
struct Quantiser {
  using C = C_;
  const Params& params;
  float largest = 0, inverse = 0;  ///< of a block of 128 rows: of this lane at first, then of all
  TJ_DEVICE Quantiser(const Params& p, int) : params(p) {}
};

/// The place of a warp's unit.
struct Unit {
  bool valid;
  int batch, row, block, column;  ///< the first row; this lane's first column
};
TJ_DEVICE Unit unit_of(const Params& params, const Tile& tile) {
  const int unit = tile.index * kWarps + static_cast<int>(dev::warp_index());
  const int group = divided(unit, params.by_blocks), block = unit - group * params.blocks,
            batch = divided(group, params.by_row_units);
  return {unit < params.units, batch, (group - batch * params.row_units) * (params.tall != 0 ? kBlock : kStepRows),
          block, block * kBlock + static_cast<int>(dev::lane_index()) % 16 * kEach};
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

/// The scale of a block of 128 rows, once all of them have been looked at.
template <class C>
TJ_DEVICE void settle(Quantiser<C>& quantiser, const Unit& unit) {
  const Params& params = quantiser.params;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    quantiser.largest = dev::maximum(quantiser.largest, dev::shuffle_xor(quantiser.largest, mask));
  const float scale = scale_of(params.scales, quantiser.largest);
  quantiser.inverse = dev::divide_approx(1.0f, scale);
  if (dev::lane_index() == 0) write_scale(params.scales, unit.batch, unit.row / kBlock, unit.block, scale);
}

/// All of a unit whose blocks have one row; a step of one that is read twice. The second time goes back from its last
/// rows, as those read last are in a cache the likeliest: all blocks under way have more bytes than L2.
template <class C>
TJ_DEVICE void quantise_rows(Quantiser<C>& quantiser, const Tile& tile, int i) {
  const Params& params = quantiser.params;
  const Unit unit = unit_of(params, tile);
  if (!unit.valid) return;
  const bool tall = params.tall != 0;
  const int half = static_cast<int>(dev::lane_index()) / 16, step = i < kSteps ? i : 2 * kSteps - 1 - i,
            first = unit.row + (tall ? step * kStepRows : 0);
  Rows<C> rows;
  rows.load(params, unit, first);
  if (i == 0) quantiser.largest = 0;
  if (tall && i == kSteps) settle(quantiser, unit);
#pragma unroll
  for (int r = 0; r < kAhead; ++r) {
    float values[kEach];
    rows.values(r, values);
    const int row = first + 2 * r + half;
    if (!tall || i < kSteps) {
      float largest = largest_of(values);
      quantiser.largest = dev::maximum(quantiser.largest, largest);
      if (tall) continue;
#pragma unroll
      for (int mask = 8; mask > 0; mask /= 2) largest = dev::maximum(largest, dev::shuffle_xor(largest, mask));
      const float scale = scale_of(params.scales, largest);
      quantiser.inverse = dev::divide_approx(1.0f, scale);
      if (dev::lane_index() % 16u == 0 && row < params.rows)
        write_scale(params.scales, unit.batch, row, unit.block, scale);
    }
    write_eight(params, unit, row, values, quantiser.inverse);
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
