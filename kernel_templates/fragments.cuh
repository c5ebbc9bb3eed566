// Rearrangements of the registers that matrix instructions leave, in terms of primitives. Included by node bodies.
//
// Decides only which lane holds what. Invariant: every lane of a warp takes part.
#pragma once

namespace tj::dev {

/// 4x4 transpose of words between the four lanes of a quad: lane q ends with word q of every lane, in lane order.
TJ_DEVICE void transpose_quad(u32 (&words)[4]) {
  trade<1>(words[0], words[1]);
  trade<1>(words[2], words[3]);
  trade<2>(words[0], words[2]);
  trade<2>(words[1], words[3]);
}

}  // namespace tj::dev
