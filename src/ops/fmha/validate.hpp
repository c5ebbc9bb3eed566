// The rules that an fmha request must satisfy before anything is looked up or launched.
//
// Decides which requests are legal and which this version supports; the docstring of tj::FmhaArgs is the rule.
// Does not decide which kernel serves a request. Invariant: a request that passes needs no further check before its
// tensor maps are built, and passing allocates nothing (it is on the hot path).
#pragma once

#include <tilejit/fmha.hpp>

namespace tj::ops {

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// on_model: the request runs on the CPU model, so its tensors must live in host memory; else on a GPU.
/// Strides of dimensions of size 1 are never looked at: they carry no meaning, and callers replace them.
/// Reads no tensor memory. Thread safe.
void validate(const FmhaArgs& args, bool on_model);

/// Checks a kernel that is prepared ahead by the same rules: dtype and head dim. Throws as above.
void validate(const FmhaConfig& config);

}  // namespace tj::ops
