// A consumer's columns in two pieces: the bodies mma_low, mma_high, promote_low and promote_high.
//
// Decides nothing: each is a piece of the body without the suffix. The matrix unit multiplies for one half while the
// other half's sums are added. Included after the family's node bodies.
#pragma once

namespace tj::ops::gemm {

template <class C>
TJ_DEVICE void mma_low(Consumer<C>& consumer, const Tile&, int, u32 a, u32 b) {
  multiply_piece<0>(consumer, a, b);
}
template <class C>
TJ_DEVICE void mma_high(Consumer<C>& consumer, const Tile&, int, u32 a, u32 b) {
  multiply_piece<1>(consumer, a, b);
}
template <class C>
TJ_DEVICE void mma_low_done(Consumer<C>& consumer) {
  piece_done<0>(consumer);
}
template <class C>
TJ_DEVICE void mma_high_done(Consumer<C>& consumer) {
  piece_done<1>(consumer);
}
template <class C>
TJ_DEVICE void promote_low(Consumer<C>& consumer, const Tile&, int) {
  promote_piece<0>(consumer);
}
template <class C>
TJ_DEVICE void promote_high(Consumer<C>& consumer, const Tile&, int) {
  promote_piece<1>(consumer);
}

}  // namespace tj::ops::gemm
