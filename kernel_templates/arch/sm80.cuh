// Primitives of sm_80, sm_86 and sm_89: those of all NVIDIA GPUs, matrix instructions of a warp and copies by threads.
// There are no bulk copies and no clusters, and barriers count arrivals alone. The model has the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Every synchronising primitive takes a site
// id first, so that the model can switch it off; here it is unused. Source of the encodings: PTX ISA 8.7, "mbarrier".
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "before_sm90.cuh"

namespace tj::dev {

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
/// Waits for a phase by its number, counted from 0; the phase before the first has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait_phase(u32 barrier, u32 phase) {
  mbarrier_wait<Site>(barrier, phase & 1u);
}

}  // namespace tj::dev
