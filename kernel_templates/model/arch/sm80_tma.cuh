// Primitives of sm_90 without its suffix, sm_120a and sm_121a on the CPU: the names, signatures and meanings of the
// device's file, for the CPU model.
//
// Decides which files make these archs; no op and no schedule. Invariant: a unit that compiles for the device compiles
// here.
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "arch/sm90_copies.cuh"
#include "arch/sm90_sync.cuh"

namespace tj::dev {

/// Whether there is a copy engine that fills shared memory with boxes of tensors.
inline constexpr bool kBulkCopies = true;

}  // namespace tj::dev
