// Rows that begin anywhere, brought to where the copy engine can read them: the bodies of the graph's nodes, for every
// family.
//
// Decides what one warp does for one row and iteration. Invariant: nothing outside a row is read; of the destination
// whole 16 bytes are written, the last of a row with zeros behind what belongs to it.
#pragma once

#include "ops/copy_rows/params.cuh"

namespace tj::ops::copy_rows {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;
using dev::u64;

inline constexpr int kChunkBytes = 16;  ///< that a lane moves at a time
inline constexpr int kAhead = 4;        ///< chunks that each lane has under way

/// Part of kWarps rows.
struct Tile {
  int index;
  bool valid;
  int trip_count;
  int rows, part;  ///< which rows, and which part of them
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  const int rows = index / params.parts;
  return {index, index < params.tiles, 1, rows, index - rows * params.parts};
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

/// The end of a row, less than a chunk of it.
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

/// A part of each of the block's rows, by 32 lanes, whatever a warp has. All loads are under way before the first
/// store: few rows give few warps.
template <class C>
TJ_DEVICE void move_row(Mover<C>& mover, const Tile& tile, int) {
  const Params& params = mover.params;
  const int row = tile.rows * C::kWarps +
                  static_cast<int>(dev::warp_index() * static_cast<u32>(C::kLanes / 32) + dev::lane_index() / 32u);
  if (row >= params.all_rows) return;
  const int batch = row / params.rows;
  const char* from = static_cast<const char*>(params.source) + batch * params.source_batch_bytes +
                     (row - batch * params.rows) * params.source_row_bytes;
  char* to = static_cast<char*>(params.destination) + row * params.row_pitch;
  const long long first = (static_cast<long long>(tile.part) * kAhead * 32 + dev::lane_index() % 32u) * kChunkBytes;
  u32 words[kAhead][4];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const long long at = first + i * 32 * kChunkBytes;
    if (at + kChunkBytes + 4 <= params.row_bytes) load_between(from + at, words[i]);
  }
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const long long at = first + i * 32 * kChunkBytes;
    if (at >= params.row_bytes) return;
    if (at + kChunkBytes + 4 > params.row_bytes)
      load_end(from + at, static_cast<int>(params.row_bytes - at < kChunkBytes ? params.row_bytes - at : kChunkBytes),
               words[i]);
    dev::store_global(to + at, words[i][0], words[i][1], words[i][2], words[i][3]);
  }
}

}  // namespace tj::ops::copy_rows
