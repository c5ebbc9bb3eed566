// Primitives of sm_90 without its suffix, sm_120a and sm_121a. Their matrix instruction is a warp's, as on sm_80; their
// copies are the copy engine's, as on sm_90. The model has the same names.
//
// Decides which files make these archs; no op and no schedule. Invariant: nothing here needs a target with a suffix but
// the registers of a role, which sm_90 has not.
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "arch/sm90_copies.cuh"
#include "arch/sm90_sync.cuh"

namespace tj::dev {

/// Whether there is a copy engine that fills shared memory with boxes of tensors.
inline constexpr bool kBulkCopies = true;

}  // namespace tj::dev
