// Rearrangements of what matrix instructions leave in registers, in terms of primitives. Included by node bodies.
//
// Decides only which lane holds what. Invariant: every lane of a warp takes part.
#pragma once

namespace tj::dev {

/// 4x4 transpose of words between the four lanes of a quad: lane q ends with word q of every lane, in lane order.
TJ_DEVICE void transpose_quad(u32 (&words)[4]) {
  const u32 lane = lane_index() & 3u;
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
    const bool high = (lane & static_cast<u32>(bit)) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      const u32 got = shuffle_xor(high ? words[i] : words[i | bit], bit);
      if (high) words[i] = got;
      else words[i | bit] = got;
    }
  }
}

}  // namespace tj::dev
