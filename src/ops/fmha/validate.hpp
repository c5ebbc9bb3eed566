// The rules that an fmha request must satisfy before anything is looked up or launched.
//
// Decides which requests are legal and which this version supports; the docstring of tj::FmhaArgs is the rule.
// Does not decide which kernel serves a request. Invariant: a request that passes needs no further check before its
// tensor maps are built, and passing allocates nothing (it is on the hot path).
#pragma once

#include <tilejit/fmha.hpp>

#include "ops/common/tensor_checks.hpp"

namespace tj::ops {

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// on_model: the request runs on the CPU model, so its tensors must live in host memory; else on a GPU.
/// Strides of dimensions of size 1 are never looked at: they carry no meaning, and callers replace them.
/// Reads no tensor memory. Thread safe.
void validate(const FmhaArgs& args, bool on_model);

// What calls with lists and those without check alike; the form of tensors is checked before.

/// Heads of queries are as many for each of keys.
void check_fmha_groups(const char* of_queries, Size heads, const char* of_keys, Size key_heads);
/// Types, head dims and devices.
void check_fmha_types(const Named& q, const Named& k, const Named& v, const Named& o, bool on_model);
/// Where the tensors lie.
struct FmhaOutputs {
  Range q, k, v, o;
};
/// Strides, alignment and overlap.
FmhaOutputs check_fmha_places(const Named& q, const Named& k, const Named& v, const Named& o);
void check_fmha_numbers(const FmhaArgs& args);
/// Tensors that go with the others, and their places.
struct FmhaBeside {
  const Named &q, &k, &v, &o;
  const Named* lse;  ///< null without; its form and shape were checked
  const FmhaOutputs& outputs;
  const char* batch_like = "B of cu_seqlens_q";
};
/// lse, slopes, sinks, texts and what goes with them.
void check_fmha_beside(const FmhaArgs& args, const FmhaBeside& of, Size batch, Size heads);

/// Checks a kernel that is prepared ahead by the same rules: dtype, head dim and texts. Throws as above.
void validate(const FmhaConfig& config);

}  // namespace tj::ops
