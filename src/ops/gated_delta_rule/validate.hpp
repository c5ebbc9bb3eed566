// The common part of the checks of gated_delta_rule's tensors; internal to validate.cpp and validate_states.cpp.
//
// Decides words alone, and which tensors an output lies apart from.
#pragma once

#include <tilejit/gated_delta_rule.hpp>

#include "ops/common/tensor_checks.hpp"

namespace tj::ops::gated_delta_rule {

inline constexpr const char* kOp = "gated_delta_rule";
inline constexpr const char* kStatesAllowed = "f16, bf16, f32, e4m3";

/// A call's tensors of tokens and heads.
struct Main {
  Named q, k, v, o;
  int first;  ///< the first axis of names: 0 with a batch
  Size sequences;
};

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
inline bool is_state(DType dtype) { return is_half(dtype) || dtype == DType::f32 || dtype == DType::e4m3; }

/// Refuses a type that kernels do not know.
void check_type(const Named& t, bool right, const char* allowed);
/// A list of i32 on the device, contiguous.
void check_list(const Named& t, const Device& device);
/// An output, apart from every other tensor of the call but the one that it may be: states and scales in place.
void check_written(const GatedDeltaRuleArgs& args, const Named& t, const std::optional<Tensor>* may_be = nullptr);
/// Pools, their lists and scales, and states after tokens.
void check_states(const GatedDeltaRuleArgs& args, const Main& main);

}  // namespace tj::ops::gated_delta_rule
