// Few queries: heads of a group as rows of one tile, and keys split into parts, each for blocks of its own.
//
// Decides which calls take such kernels, how many parts there are, and the launches that serve them: attention of the
// parts, then merge_states. Does not decide which keys a part has: the device does
// (kernel_templates/ops/fmha/tile.cuh), so that lists may change. Invariant: the number of parts follows from sizes of
// tensors alone.
#pragma once

#include "ops/fmha/fmha.hpp"

namespace tj::ops {

/// The power of two that query heads for each of keys are rounded up to.
int fmha_group_shift(const FmhaArgs& args);

/// Has the arch kernels that pack heads?
bool has_packed_kernels(const arch::Arch& arch);

/// 0: the call takes a kernel that packs no heads. Else the parts of the keys, as predicted.
int choose_fmha_parts(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, const arch::Arch& arch);

/// Outputs in f32 and log-sum-exps of all parts: parts * rows * heads * (Dv + 1) * 4 bytes; 0 for one part.
std::size_t fmha_scratch_bytes(const FmhaArgs& args, int parts);
void fmha_steps(const FmhaArgs& args, const Kernel& kernel, void* scratch, const EachStep& each);

}  // namespace tj::ops
