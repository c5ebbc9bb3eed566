// y = a x + b: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. A tile is kRows rows; iteration i handles column block
// trip_count-1-i, so that the block which may be incomplete comes first.
// Invariant: a body touches its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/affine/params.cuh"

namespace tj::ops::affine {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

struct Tile {
  int index;
  bool valid;
  int row;
  int trip_count;
};

template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile;
  tile.index = index;
  tile.row = index * C::kRows;
  tile.valid = tile.row < params.rows;
  tile.trip_count = (params.columns + C::kColumns - 1) / C::kColumns;
  return tile;
}

template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) { dev::prefetch_map(&p.x); }
};

template <class C_>
struct Worker {
  using C = C_;
  const Params& params;
  const int thread;  ///< of its role
  TJ_DEVICE Worker(const Params& p, int)
      : params(p), thread(static_cast<int>(dev::warp_index() % C::kWorkerWarps * 32u + dev::lane_index())) {}
};

template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  const int thread;
  TJ_DEVICE Writer(const Params& p, int)
      : params(p), thread(static_cast<int>(dev::warp_index() % C::kWriterWarps * 32u + dev::lane_index())) {}
};

/// Iterations before this one have elements outside.
template <class C>
TJ_DEVICE int fast_begin(const Writer<C>& writer, const Tile& tile) {
  if (tile.row + C::kRows > writer.params.rows) return tile.trip_count;
  return writer.params.columns % C::kColumns != 0 ? 1 : 0;
}

template <class C>
TJ_DEVICE int first_column(const Tile& tile, int i) {
  return (tile.trip_count - 1 - i) * C::kColumns;
}

template <class C>
TJ_DEVICE void load_x(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.x, full, first_column<C>(tile, i), tile.row, 0, 0);
}

/// From one ring's slot into the other's, four elements at a time.
template <class C>
TJ_DEVICE void transform(Worker<C>& worker, const Tile&, int, u32 x, u32 y) {
#pragma unroll
  for (int at = worker.thread * 4; at < C::kRows * C::kColumns; at += C::kWorkerWarps * 32 * 4) {
    float values[4];
    dev::load_shared(x + static_cast<u32>(at) * 4u, values);
    for (float& value : values) value = dev::multiply_add(worker.params.a, value, worker.params.b);
    dev::store_shared(y + static_cast<u32>(at) * 4u, values);
  }
}

/// One row a time for each warp.
template <class C, class Variant>
TJ_DEVICE void write(Writer<C>& writer, const Tile& tile, int i, u32 y, Variant) {
  const Params& params = writer.params;
  const int column = first_column<C>(tile, i) + writer.thread % C::kColumns;
  for (int row = writer.thread / C::kColumns; row < C::kRows; row += C::kWriterWarps) {
    if (!Variant::kFast && (tile.row + row >= params.rows || column >= params.columns)) continue;
    const float value =
        dev::load_shared<float>(y + static_cast<u32>(row * C::kColumns + writer.thread % C::kColumns) * 4u);
    dev::store_global(params.y + (tile.row + row) * params.y_stride_row + column, value);
  }
}

}  // namespace tj::ops::affine
