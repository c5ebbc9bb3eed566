// Types that device code and the host that launches it share. No standard headers: device code compiles in
// milliseconds.
//
// Decides the layout of parameters that travel by value in a launch. Invariant: plain data, same layout for every
// compiler.
#pragma once

// <tilejit/custom.hpp> declares the same for host programs, under the same guard.
#ifndef TJ_TENSOR_MAP
#define TJ_TENSOR_MAP
namespace tj {

/// Input of the copy engine: opaque, encoded by the launching backend, passed as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

}  // namespace tj
#endif

namespace tj {

// Boxes of rows that end with a sequence or a group, whatever lies behind: how a map and coordinates say so.
//
// The map has five dimensions: columns, rows of a box, rows of the tensor, kEndRows, and one more of the tensor's. The
// second and the third have the stride of a row. The fourth has 2^36 bytes less a row: its place kEndRows is 2^64 bytes
// less kEndRows rows, so that addresses begin kEndRows rows before the tensor. A box of n rows that end before row e
// begins at row kEndRows - n of e. Its n rows lie where they should. Rows behind them lie outside the second dimension:
// loads find zeros there, and stores do nothing. The map's own address is the tensor's, as hardware looks there: a map
// that began before the tensor failed with an illegal address where nothing was mapped before it (H200, 2026-11-28).
inline constexpr int kEndRows = 1 << 28;
inline constexpr unsigned long long kEndBytes = 1ull << 36;  ///< times kEndRows it is 2^64

}  // namespace tj

namespace tj::dev {

/// L2 is told of the lines that a bulk copy reads: nothing, to let go of them first, or last. The unit tells the body
/// of a node with a cache hint, as its last argument.
struct NoHint {};
struct EvictFirst {};
struct EvictLast {};

}  // namespace tj::dev
