// Primitives of sm_100a on the CPU: the names, signatures and meanings of the device's file, for the CPU model.
//
// Decides which files make this arch; no op and no schedule. Invariant: a unit that compiles for the device compiles
// here.
#pragma once

#include "arch/nvidia.cuh"
#include "arch/sm80_mma.cuh"
#include "arch/sm90_copies.cuh"
#include "arch/sm90_sync.cuh"
#include "matrix_sm100.cuh"

// Each block uses names of the blocks above it, so the blank lines keep formatting from sorting them together.
#include "arch/sm100_tensor.cuh"

#include "arch/sm100_matrix.cuh"

namespace tj::dev {

/// Whether there is a copy engine that fills shared memory with boxes of tensors.
inline constexpr bool kBulkCopies = true;

}  // namespace tj::dev
