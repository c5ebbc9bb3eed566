// Chunks of sequences, as launch parameters have them: written by the host, read by the device.
#pragma once

#include "divisor.cuh"

namespace tj::ops::chunks {

inline constexpr int kChunk = 64;  ///< tokens of a chunk

/// The sequences of a call, and how their chunks are numbered. Without a list, chunk c of a batch's sequence b has slot
/// b * chunks + c. With one, chunk c of sequence n, which begins at token b, has slot b / 64 + n + c. No two chunks
/// share a slot, nobody need count chunks, and some slots have no chunk.
struct Sequences {
  const int* ends;  ///< null: sequences of all tokens
  int tokens;       ///< of a sequence without a list, or of all
  int count;
  int chunks;  ///< of a sequence without a list
  Divisor by_chunks;
  int unused;  ///< 0: no byte of a parameter is left to chance, as plans compare them
};

}  // namespace tj::ops::chunks
