// A matrix product's sums over parts of K, added and finished: the bodies of the graph's nodes, for every family.
//
// Decides what a thread does with its kColumns columns of a row. The epilogue of a call is looked at here, not in
// Config: memory bounds the time anyway, and few kernels are made ahead more easily than many. Invariant: parts are
// added in their order; nothing outside d is written, nothing outside c and bias is read.
#pragma once

#include "ops/columns.cuh"
#include "ops/own_end.cuh"
#include "ops/sum_parts/params.cuh"

namespace tj::ops::sum_parts {

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
  return {index, index < params.tiles, (params.parts + kPartsAhead - 1) / kPartsAhead};
}

template <class C_>
struct Adder {
  using C = C_;
  const Params& params;
  int row = 0;     ///< of all of the batch
  int column = 0;  ///< the first; not below n where there is nothing to do
  float sums[kColumns];
  TJ_DEVICE Adder(const Params& p, int) : params(p) {}
};

template <class C>
TJ_DEVICE void begin(Adder<C>& adder, const Tile& tile) {
  const Params& params = adder.params;
  // Units are of 32 lanes, whatever a warp has.
  const int unit = tile.index * kWarps +
                   static_cast<int>(dev::warp_index() * static_cast<u32>(C::kLanes / 32) + dev::lane_index() / 32u);
  adder.row = unit / params.row_units;
  adder.column =
      (unit - adder.row * params.row_units) * kUnitColumns + static_cast<int>(dev::lane_index() % 32u) * kColumns;
  if (unit >= params.units) adder.column = params.n;
#pragma unroll
  for (float& sum : adder.sums) sum = 0.0f;
}

/// The next parts: all of them are under way before the first is added.
template <class C>
TJ_DEVICE void add_parts(Adder<C>& adder, const Tile&, int i) {
  const Params& params = adder.params;
  if (adder.column >= params.n) return;
  const int first = i * kPartsAhead;
  const float* from = params.sums + first * params.part_pitch + adder.row * params.row_pitch + adder.column;
  float ahead[kPartsAhead][kColumns] = {};
  if (adder.column + kColumns <= params.n) {
#pragma unroll
    for (int p = 0; p < kPartsAhead; ++p)
      if (first + p < params.parts) dev::load_global(from + p * params.part_pitch, ahead[p]);
  } else {  // the end of a row: what lies behind was never written
#pragma unroll
    for (int p = 0; p < kPartsAhead; ++p) {
#pragma unroll
      for (int c = 0; c < kColumns - 1; ++c)
        if (first + p < params.parts && adder.column + c < params.n)
          ahead[p][c] = dev::load_global(from + p * params.part_pitch + c);
    }
  }
#pragma unroll
  for (int p = 0; p < kPartsAhead; ++p) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) adder.sums[c] += ahead[p][c];
  }
}

TJ_DEVICE float activated(int kind, float x) {
  if (kind == kRelu) return activate<kRelu>(x);
  if (kind == kGelu) return activate<kGelu>(x);
  if (kind == kSilu) return activate<kSilu>(x);
  if (kind == kGeluTanh) return activate<kGeluTanh>(x);
  return x;
}

/// The finished columns, in the order of own_end.cuh. A text is compiled in; activations are looked at here.
template <class C>
TJ_DEVICE void finish_columns(Adder<C>& adder, const Tile&) {
  const typename C::Output tag{};
  const Params& params = adder.params;
  const int left = params.n - adder.column;
  if (left <= 0) return;
  const int batch = adder.row / params.m, row = adder.row - batch * params.m;
  float factor = params.alpha;
  if (params.parts > 0 && params.scale_a != nullptr) factor *= dev::load_global(params.scale_a);
  if (params.parts > 0 && params.scale_b != nullptr) factor *= dev::load_global(params.scale_b);
  float added[kColumns] = {}, bias[kColumns] = {}, values[kColumns];
  const long long of_c = batch * params.c_stride_batch + row * params.c_stride_row + adder.column;
  if (params.c != nullptr && params.c_f32 != 0)
    read_columns(dev::F32{}, params.c, of_c, left, params.wide_c != 0, added);
  else if (params.c != nullptr)
    read_columns(tag, params.c, of_c, left, params.wide_c != 0, added);
  if (params.bias != nullptr)
    read_columns(tag, params.bias, batch * params.bias_stride_batch + adder.column, left, params.wide_bias != 0, bias);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    float value = factor * adder.sums[c];
    if constexpr (kOwnEnd<C>) value = own_end<C>(params, value + bias[c], {row, adder.column + c, batch});
    if (params.c != nullptr) value = dev::multiply_add(params.beta, added[c], value);
    values[c] = kOwnEnd<C> ? value : activated(params.activation, value + bias[c]);
  }
  write_columns(tag, params.d, batch * params.d_stride_batch + row * params.d_stride_row + adder.column, left,
                params.wide_d != 0, values);
}

}  // namespace tj::ops::sum_parts
