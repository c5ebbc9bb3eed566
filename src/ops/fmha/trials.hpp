// Problems by which attention's kernels are checked and timed.
//
// Decides the tensors of a kernel's calls, and the numbers of lists among them. Does not decide sizes (kernel.cpp).
#pragma once

#include "ops/common/trial.hpp"
#include "ops/fmha/fmha.hpp"

namespace tj::ops {

/// usual: as most calls have it, without lse and with the default scale, where the kernel's form takes that.
Trial fmha_trial(const FmhaKernel& config, const Sizes& sizes, bool usual = false);

}  // namespace tj::ops
