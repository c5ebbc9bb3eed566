// Scores of a call on the host: scale, softcap, ALiBi and sinks, what they decide of its kernel and what the device is
// told.
//
// Decides which members of FmhaArgs and FmhaConfig are the scores', and which form of the kernel serves a scale. Does
// not decide the arithmetic (kernel_templates/ops/fmha/score.cuh).
#pragma once

#include <tilejit/fmha.hpp>

#include "ops/fmha/params.cuh"

namespace tj::ops {

/// The scale that a call means: its own, else D^-1/2.
float fmha_scale(const FmhaArgs& args);

/// Does a call need the general form of the kernel? The fast form folds the scale into one multiply-add. That takes a
/// scale of 1e-6 to 1; behind a softcap, one of 1e-6 to 1024.
bool fmha_needs_general_scale(const FmhaArgs& args);

/// Sets the fields of a kernel that the scores of a call ask for.
void set_scores(FmhaConfig& config, const FmhaArgs& args);
/// Gives a call a scale and a softcap that the kernel serves: the usual ones, or those that a check is sharpest with.
void set_scores(FmhaArgs& args, const FmhaConfig& config, bool usual);
/// Sets the members of the kernel's parameter that describe the scores.
void set_scores(fmha::Params& params, const FmhaArgs& args);

}  // namespace tj::ops
