// Primitives of sm_100a: those of all NVIDIA GPUs, barriers and bulk copies as on sm_90, tensor memory and its matrix
// instruction. The model has the same names.
//
// Decides which files make this arch; no op and no schedule.
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
