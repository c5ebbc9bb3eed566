// Places of chunks among tokens, and sums inside a chunk. Included by node bodies, for every family.
//
// Decides which tokens a slot's chunk has. Invariant: whatever lists say, tokens are inside.
#pragma once

#include "ops/chunks/params.cuh"

namespace tj::ops::chunks {

using dev::u32;

/// Tokens of a chunk: so many from `token` on; 0 or fewer: there is no such chunk.
struct Place {
  int batch, token, rows;
};

/// A number of the list, inside the tokens.
TJ_DEVICE int bound_at(const int* ends, int tokens, int index) {
  const int bound = static_cast<int>(dev::load_global_u32(ends + index));
  return max(0, min(bound, tokens));
}
/// The last sequence whose slots begin no later.
TJ_DEVICE int sequence_of(const int* ends, int tokens, int sequences, int slot) {
  int low = 0, high = sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (bound_at(ends, tokens, middle) / kChunk + middle <= slot)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// The chunk of a slot.
TJ_DEVICE Place place_of_slot(const Sequences& of, int slot) {
  if (of.ends == nullptr) {
    const int batch = divided(slot, of.by_chunks), token = (slot - batch * of.chunks) * kChunk;
    return {batch, token, min(kChunk, of.tokens - token)};
  }
  const int sequence = sequence_of(of.ends, of.tokens, of.count, slot), begin = bound_at(of.ends, of.tokens, sequence),
            end = bound_at(of.ends, of.tokens, sequence + 1), number = slot - (begin / kChunk + sequence);
  if (number < 0 || number > (end - begin) / kChunk) return {0, 0, 0};
  return {0, begin + number * kChunk, min(kChunk, end - begin - number * kChunk)};
}

/// Sums of a chunk's numbers up to each token. Of 32 lanes, a lane has tokens `lane` and lane + 32; `first` is the
/// first of these lanes in its warp. Numbers are added by doubling distances.
TJ_DEVICE void add_up(float (&sums)[2], int lane, int first) {
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = dev::shuffle_from(sums[half], first + (lane < apart ? lane : lane - apart));
      sums[half] += lane < apart ? 0.0f : before;
    }
  }
  sums[1] += dev::shuffle_from(sums[0], first + 31);
}

}  // namespace tj::ops::chunks
