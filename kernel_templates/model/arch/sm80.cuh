// Primitives of sm_80, sm_86 and sm_89 on the CPU: the names, signatures and meanings of the device's file, for the CPU
// model.
//
// Decides nothing: the library's model waits. No op and no schedule. Invariant: a unit that compiles for the device
// compiles here.
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "before_sm90.cuh"

namespace tj::dev {

/// Returns once the phase with this parity has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  detail::api.mbarrier_wait(Site, barrier, parity, TJ_MODEL_PARITY);
}
/// Waits for a phase by its number, counted from 0; the phase before the first has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait_phase(u32 barrier, u32 phase) {
  detail::api.mbarrier_wait(Site, barrier, phase, TJ_MODEL_NUMBER);
}

}  // namespace tj::dev
