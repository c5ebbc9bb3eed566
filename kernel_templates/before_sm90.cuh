// Stand-ins of archs before sm_90 for what came with it, beside those of no_copy_engine.cuh: one primitive by ordinary
// stores, and two that are refused in words.
//
// Decides no instruction: the same text serves the device and the model. Included by arch/sm80.cuh. Invariant: every
// name of arch/sm80_tma.cuh is declared here or in the files beside it, so that node bodies may choose by kBulkCopies.
#pragma once

#include "no_copy_engine.cuh"

namespace tj::dev {

/// Four 8x8 matrices of 16-bit elements: the fragments of a matrix instruction. Lane l gives the address of row l % 8
/// of matrix l / 8. It holds, in words[m], elements 2(l % 4) and on of row l / 4 of matrix m. Rows are 16 bytes.
TJ_DEVICE void store_matrices(u32 address, const u32 (&words)[4]) {
#pragma unroll
  for (u32 m = 0; m < 4; ++m) {
    const u32 row = shuffle_from(address, static_cast<int>(8 * m + lane_index() / 4));
    store_shared(row + lane_index() % 4 * 4, words[m]);
  }
}

/// Copies by threads report to a barrier by copy_async_arrive.
template <int Site>
TJ_DEVICE void mbarrier_expect(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "barriers count bytes from sm_90 on; copies by threads arrive on theirs");
}
template <class... Arguments>
TJ_DEVICE void copy_box_4d(Arguments...) {
  static_assert(detail::kHere<Arguments...>,
                "boxes of tensors are copied from sm_90 on; here threads copy, by copy_async");
}
template <class... Arguments>
TJ_DEVICE void copy_box_5d(Arguments...) {
  static_assert(detail::kHere<Arguments...>,
                "boxes of tensors are copied from sm_90 on; here threads copy, by copy_async");
}

}  // namespace tj::dev
