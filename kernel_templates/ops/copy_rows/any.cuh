// Rows that begin anywhere, brought to where the copy engine can read them: the bodies of the graph's nodes, for every
// family.
//
// Decides what one warp does for a part of one row. Invariant: nothing outside a row is read; of the destination
// whole 16 bytes are written, the last of a row with zeros behind what belongs to it.
#pragma once

#include "ops/copy_rows/params.cuh"

namespace tj::ops::copy_rows {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;
using dev::u64;

/// Some parts of kWarps rows.
struct Tile {
  int index;
  bool valid;
  int trip_count;
  int rows;   ///< the block of rows
  int first;  ///< of the parts
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  const int rows = index / params.row_tiles, first = (index - rows * params.row_tiles) * params.tile_parts;
  return {index, index < params.tiles, min(params.tile_parts, params.row_parts - first), rows, first};
}

template <class C_>
struct Mover {
  using C = C_;
  const Params& params;
  TJ_DEVICE Mover(const Params& p, int) : params(p) {}
};

/// 16 bytes from any address, by aligned words: the 4 bytes behind them are read as well.
TJ_DEVICE void load_between(const char* from, u32 (&words)[4]) {
  const u64 address = reinterpret_cast<u64>(from);
  const u32 shift = static_cast<u32>(address & 3u) * 8u;
  const u32* aligned = reinterpret_cast<const u32*>(address & ~u64{3});
  u32 low = dev::load_global_u32(aligned);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 high = dev::load_global_u32(aligned + i + 1);
    words[i] = static_cast<u32>((u64{high} << 32 | low) >> shift);
    low = high;
  }
}

/// A row's last chunk or the one before it, of at most 16 bytes, behind which no word may be read.
TJ_DEVICE void load_end(const char* from, int count, u32 (&words)[4]) {
  words[0] = words[1] = words[2] = words[3] = 0;
#pragma unroll 1
  for (int e = count - 1; e >= 0; --e) {
    words[3] = words[3] << 8 | words[2] >> 24;
    words[2] = words[2] << 8 | words[1] >> 24;
    words[1] = words[1] << 8 | words[0] >> 24;
    words[0] = words[0] << 8 | dev::load_global_u8(from + e);
  }
}

/// A part of each of the block's rows, by 32 lanes, whatever a warp has. All whole loads come before the first store:
/// few rows give few warps, which would wait for memory.
template <class C>
TJ_DEVICE void move_row(Mover<C>& mover, const Tile& tile, int i) {
  const Params& params = mover.params;
  const int row = tile.rows * C::kWarps +
                  static_cast<int>(dev::warp_index() * static_cast<u32>(C::kLanes / 32) + dev::lane_index() / 32u);
  if (row >= params.all_rows) return;
  const int batch = row / params.rows;
  const char* from = static_cast<const char*>(params.source) + batch * params.source_batch_bytes +
                     (row - batch * params.rows) * params.source_row_bytes;
  char* to = static_cast<char*>(params.destination) + row * params.row_pitch;
  const long long first =
      (static_cast<long long>(tile.first + i) * kAhead * 32 + dev::lane_index() % 32u) * kChunkBytes;
  u32 words[kAhead][4];
#pragma unroll
  for (int c = 0; c < kAhead; ++c) {
    const long long at = first + c * 32 * kChunkBytes;
    if (at + kChunkBytes + 4 <= params.row_bytes) load_between(from + at, words[c]);
  }
#pragma unroll
  for (int c = 0; c < kAhead; ++c) {
    const long long at = first + c * 32 * kChunkBytes;
    if (at >= params.row_bytes) return;
    if (at + kChunkBytes + 4 > params.row_bytes)
      load_end(from + at, static_cast<int>(params.row_bytes - at < kChunkBytes ? params.row_bytes - at : kChunkBytes),
               words[c]);
    dev::store_global(to + at, words[c][0], words[c][1], words[c][2], words[c][3]);
  }
}

}  // namespace tj::ops::copy_rows
