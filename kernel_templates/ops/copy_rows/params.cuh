// Parameters of copying rows, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::copy_rows {

inline constexpr int kChunkBytes = 16;  ///< that a lane moves at a time
inline constexpr int kAhead = 4;        ///< chunks that each lane has under way
inline constexpr int kPartBytes = kAhead * 32 * kChunkBytes;

struct Params {
  const void* source;
  void* destination;                               ///< at a multiple of 16 bytes, as is every row of it
  long long source_batch_bytes, source_row_bytes;  ///< from one to the next
  long long row_pitch;                             ///< of the destination, whose matrices follow each other
  long long row_bytes;                             ///< to be copied of each row
  int rows, all_rows;                              ///< of a matrix, of the batch
  int tiles;                                       ///< row blocks times the tiles of each
  int row_tiles;                                   ///< of one row block
  int tile_parts;                                  ///< parts of kPartBytes of each row that a tile has, but the last
  int row_parts;                                   ///< of a row
};

}  // namespace tj::ops::copy_rows
