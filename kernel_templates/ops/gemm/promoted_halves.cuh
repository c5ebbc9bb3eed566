// The nodes of an iteration of e4m3 by warps or waves: half of the columns, then the others. Included at the end of the
// family's multiply_half and promote_half.
//
// Decides which half a node has, and nothing else.
#pragma once

namespace tj::ops::gemm {

template <class C>
TJ_DEVICE void mma_low(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  multiply_half<0>(consumer, slot);
}
template <class C>
TJ_DEVICE void promote_low(Consumer<C>& consumer, const Tile&, int) {
  promote_half<0>(consumer);
}
template <class C>
TJ_DEVICE void mma_high(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  multiply_half<1>(consumer, slot);
}
template <class C>
TJ_DEVICE void promote_high(Consumer<C>& consumer, const Tile&, int) {
  promote_half<1>(consumer);
}

}  // namespace tj::ops::gemm
