// Primitives of sm_80, sm_86 and sm_89: no bulk copies, clusters or grids that overlap, and barriers that count arrivals alone. The
// model has the same names.
//
// Decides which instruction serves which primitive, what costs nothing here because there is nothing to do, and what does not compile;
// no op and no schedule. Every synchronising primitive takes a site id first, so that the model can switch it off; here it is unused.
// Invariant: a name of arch/sm80_tma.cuh is declared here too, so that node bodies may choose between them by kBulkCopies.
// Source of the encodings: PTX ISA 8.7, "mbarrier".
#pragma once

#include "arch/nvidia.cuh"

namespace tj::dev {

/// Whether there is a copy engine that fills shared memory with boxes of tensors.
inline constexpr bool kBulkCopies = false;

/// True in exactly one lane of a converged warp.
TJ_DEVICE bool elect_one() { return lane_index() == 0; }

// ---- grids of one stream run one after the other ----------------------------------------------------------------------
TJ_DEVICE void next_grid_may_start() {}
TJ_DEVICE void wait_for_grids_before() {}

// ---- mbarriers ------------------------------------------------------------------------------------------------------
/// After all inits, before the block_sync that publishes them: there is no copy engine that would have to see them.
TJ_DEVICE void mbarrier_init_done() {}
/// Returns once the phase with this parity has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nTJ_WAIT_%=:\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra TJ_WAIT_%=;\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// Shared memory has one kind of reader: ordinary writes need no fence.
template <int Site>
TJ_DEVICE void proxy_fence() {}

// ---- a cluster is one block ------------------------------------------------------------------------------------------
TJ_DEVICE u32 cluster_rank() { return 0; }

}  // namespace tj::dev

#include "no_copy_engine.cuh"
#include "arch/sm80_mma.cuh"

namespace tj::dev {

// ---- matrices to shared memory --------------------------------------------------------------------------------------
/// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8 and holds, in words[m], elements
/// 2(l % 4) and on of row l / 4 of matrix m: the fragments of a matrix instruction. Rows are 16 bytes.
TJ_DEVICE void store_matrices(u32 address, const u32 (&words)[4]) {
#pragma unroll
  for (u32 m = 0; m < 4; ++m) {
    const u32 row = shuffle_from(address, static_cast<int>(8 * m + lane_index() / 4));
    store_shared(row + lane_index() % 4 * 4, words[m]);
  }
}

}  // namespace tj::dev
