// The list of all chunks of sequences that follow each other.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct ChunkIndicesConfig;

/// Tokens of a chunk in every op over chunks.
inline constexpr int kChunkTokens = 64;

/// The list of all chunks of N sequences that follow each other; ops over chunks walk along it. The device makes it:
/// nothing waits for the host, and the call may stand in a graph capture.
///
/// Sequence s is tokens cu_seqlens[s] to cu_seqlens[s + 1] - 1. It has one chunk for each kChunkTokens tokens begun,
/// and none when its end is not behind its beginning. Chunks are listed in the order of their tokens, a row each: the
/// sequence, and which chunk of it (from 0). T tokens have at most T / kChunkTokens + N chunks. total_chunks is the
/// number of chunks, whether or not chunk_indices has room for them. Chunks from row C on are left out: nothing is
/// written behind the tensor. Rows behind the last chunk keep what they held. N may be 0. All are i32 on one device;
/// cu_seqlens is contiguous, rows of chunk_indices begin at multiples of 8 bytes. Legal values of cu_seqlens are 0 to
/// T, none below the one before it. With other values, still no memory but these tensors' is read or written. Chunks
/// are then listed as the numbers say, and total_chunks is at most 2^32 - 1 (as bits, without a sign).
/// TJ_CHECK=1 refuses the call where a number is below 0, below the one before it or above 2^30, and names the first.
struct ChunkIndicesArgs {
  static constexpr const char* kOp = "chunk_indices";
  using Config = ChunkIndicesConfig;
  Tensor cu_seqlens;     ///< [N + 1], N of 0 to 2^30 - 1
  Tensor chunk_indices;  ///< [C, 2], written
  Tensor total_chunks;   ///< [1], written
  /// Multiprocessors that the call's launches may fill: their blocks are at most those that fit on so many at once. 0,
  /// or as many as the device has: all.
  int max_sms = 0;
};

/// One kernel serves all chunk_indices calls: for prepare() and warm().
struct ChunkIndicesConfig {
  using Args = ChunkIndicesArgs;
};

/// Runs the call on Runtime::instance().
inline void chunk_indices(const ChunkIndicesArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
