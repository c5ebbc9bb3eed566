// Boxes of rows that end with a sequence or a group, whatever lies behind: how a map and coordinates say so. Written by
// the host (ops/common/tensor_args.hpp), read by the device.
//
// The map has five dimensions: columns, rows of a box, rows of the tensor, kEndRows, and one more of the tensor's. The
// second and the third have the stride of a row. The fourth has 2^36 bytes less a row: its place kEndRows is 2^64 bytes
// less kEndRows rows, so that addresses begin kEndRows rows before the tensor. A box of n rows that end before row e
// begins at row kEndRows - n of e. Its n rows lie where they should. Rows behind them lie outside the second dimension:
// loads find zeros there, and stores do nothing. The map's own address is the tensor's, as hardware looks there: a map
// that began before the tensor failed with an illegal address where nothing was mapped before it (H200, 2026-11-28).
#pragma once

namespace tj {

inline constexpr int kEndRows = 1 << 28;
inline constexpr unsigned long long kEndBytes = 1ull << 36;  ///< times kEndRows it is 2^64

}  // namespace tj
