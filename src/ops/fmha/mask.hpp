// The mask of a call on the host: what it decides of its kernel, what the device is told, which keys its rows see.
//
// Decides which members of FmhaArgs and FmhaConfig are a mask's, and which masks are the same kernel's. Does not decide
// which keys a row sees: the device's rule is the host's (kernel_templates/ops/fmha/mask.cuh). Invariant: equal
// configurations have equal masks but for what stands in Params.
#pragma once

#include <cstdint>

#include <tilejit/fmha.hpp>

#include "ops/fmha/params.cuh"

namespace tj::ops {

/// Sets the fields of a kernel that the mask of a call asks for. A window that says no more than a causal or a full
/// mask takes the kernel of these.
void set_mask(FmhaConfig& config, const FmhaArgs& args);
/// Gives a call, whose tensors are there, a mask that the kernel serves.
void set_mask(FmhaArgs& args, const FmhaConfig& config);
/// Sets the members of the kernel's parameter that describe the mask.
void set_mask(fmha::Params& params, const FmhaArgs& args);

/// The mask of a call.
fmha::Mask mask_of(const FmhaArgs& args);
/// The mask of a kernel's calls, windows as set_mask() gives them; without sizes, for what holds at all of
/// them.
fmha::Mask mask_of(const FmhaConfig& config, std::int64_t queries = 0, std::int64_t keys = 0);

/// Keys that the queries of one head see, all together.
double visible_keys(const fmha::Mask& mask);

}  // namespace tj::ops
