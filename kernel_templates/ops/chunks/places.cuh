// Places of chunks among tokens, and sums inside a chunk. Included by node bodies, for every family.
//
// Decides which tokens a slot's chunk has. Invariant: whatever lists say, tokens are inside, and all launches take the
// same for a sequence.
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
/// Tokens from begin to end - 1. Bounds that fall are moved: the one in the list's middle stays, those of either half
/// are moved to its side, and so on in each half. Those of a list that rises stay. The two functions below go through
/// the same halves.
struct Span {
  int begin, end;
};
TJ_DEVICE int moved_into(const Span& span, int bound) { return max(span.begin, min(bound, span.end)); }
/// Bounds of the sequence itself, inside of what the halves have left.
TJ_DEVICE void end_search(Span& span, int begin, int end) {
  span.begin = moved_into(span, begin);
  span.end = moved_into(span, end);
}
/// The tokens of a sequence. It is known which half comes next, so four numbers are asked for at once.
TJ_DEVICE Span tokens_of(const int* ends, int tokens, int sequences, int sequence) {
  constexpr int kAtOnce = 4;
  Span span{0, tokens};
  const int begin = bound_at(ends, tokens, sequence), end = bound_at(ends, tokens, sequence + 1);
  for (int low = 0, high = sequences - 1; low < high;) {
    int bounds[kAtOnce];
    bool before[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {  // at the end the sequence's own begin once more, which changes nothing
      const int middle = (low + high + 1) / 2;
      before[i] = middle <= sequence;
      bounds[i] = bound_at(ends, tokens, middle);
      if (before[i])
        low = middle;
      else
        high = middle - 1;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int bound = moved_into(span, bounds[i]);
      span.begin = before[i] ? bound : span.begin;
      span.end = before[i] ? span.end : bound;
    }
  }
  end_search(span, begin, end);
  return span;
}
/// The last sequence whose slots begin no later, and its tokens.
TJ_DEVICE int sequence_of(const int* ends, int tokens, int sequences, int slot, Span& span) {
  int low = 0, high = sequences - 1;
  span = {0, tokens};
  while (low < high) {
    const int middle = (low + high + 1) / 2, bound = moved_into(span, bound_at(ends, tokens, middle));
    if (bound / kChunk + middle <= slot) {
      low = middle;
      span.begin = bound;
    } else {
      high = middle - 1;
      span.end = bound;
    }
  }
  end_search(span, bound_at(ends, tokens, low), bound_at(ends, tokens, low + 1));
  return low;
}

/// The chunk of a slot.
TJ_DEVICE Place place_of_slot(const Sequences& of, int slot) {
  if (of.ends == nullptr) {
    const int batch = divided(slot, of.by_chunks), token = (slot - batch * of.chunks) * kChunk;
    return {batch, token, min(kChunk, of.tokens - token)};
  }
  Span span;
  const int sequence = sequence_of(of.ends, of.tokens, of.count, slot, span),
            number = slot - (span.begin / kChunk + sequence);
  if (number < 0 || number > (span.end - span.begin) / kChunk) return {0, 0, 0};
  return {0, span.begin + number * kChunk, min(kChunk, span.end - span.begin - number * kChunk)};
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
