// A warpgroup's tile asks early for its part of c. This file is included by the family's node bodies, behind the
// consumer.
//
// Decides which lines of c are asked for. Invariant: none outside c.
#pragma once

#include "ops/gemm/store.cuh"

namespace tj::ops::gemm {

/// Asks for the consumer's part of c: it comes to L2 while the loop runs, so that the tile's end does not wait for
/// memory.
template <class C>
TJ_DEVICE void prefetch_addends(Consumer<C>& consumer, const Tile& tile) {
  constexpr int kLine = kSwizzleRowBytes / dev::kElementBytes<Addend<C>>, kThreads = 4 * kLanes;
  constexpr int kRows = kSwapped<C> ? C::kBlockM : C::kBlockM < kRowsPerConsumer ? C::kBlockM : kRowsPerConsumer;
  constexpr int kAcross = ((kSwapped<C> ? kConsumerRows<C> : C::kBlockN) + kLine - 1) / kLine;
  const Params& params = consumer.params;
  const int first = tile.row + (kSwapped<C> ? 0 : consumer.copy * kRowsPerConsumer),
            first_column = tile.column + (kSwapped<C> ? consumer.copy * kConsumerRows<C> : 0);
#pragma unroll 1
  for (int line = static_cast<int>(dev::warp_index() & 3u) * kLanes + consumer.lane; line < kRows * kAcross;
       line += kThreads) {
    const int row = first + line / kAcross, column = first_column + line % kAcross * kLine;
    if (row < params.m && column < params.n)
      dev::prefetch_global(
          row_begin(Addend<C>{}, params.c, tile.batch * params.c_stride_batch + row * params.c_stride_row + column));
  }
}

}  // namespace tj::ops::gemm
