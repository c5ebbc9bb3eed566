// Fields that kernels of the gated delta rule have in common, whichever op they belong to.
//
// Decides their words, flags and constants. Kernel is a structure with dtype, state, head_dim and state_transposed.
#pragma once

#include "ops/common/fields.hpp"

namespace tj::ops::gated_delta_rule {

inline constexpr const char* kTypes[] = {"f16", "bf16"};
inline constexpr const char* kStateTypes[] = {"f16", "bf16", "f32"};
inline constexpr DType kStateValues[] = {DType::f16, DType::bf16, DType::f32, DType::e4m3};
inline constexpr const char* kWidths[] = {"64", "128"};
inline constexpr int kWidthValues[] = {64, 128};

template <class Kernel>
constexpr Field<Kernel> dtype_field() {
  return {.name = "dtype",
          .get = [](const Kernel& kernel) { return static_cast<unsigned>(kernel.dtype); },
          .set = [](Kernel& kernel, unsigned value) { kernel.dtype = static_cast<DType>(value); },
          .words = words<kTypes>,
          .bits = 1,
          .flags = {"bf16", "f16"},
          .defaults = 2,
          .tag = "_%",
          .constant = "Element",
          .kind = Constant::element};
}

template <class Kernel>
constexpr Field<Kernel> state_field() {
  return {.name = "state",
          .get = [](const Kernel& kernel) { return place_among<kStateValues>(kernel.state); },
          .set = [](Kernel& kernel, unsigned place) { kernel.state = kStateValues[place]; },
          .words = words<kStateTypes>,
          .bits = 2,
          .flags = {"f32", "bf16", "f16"},
          .tag = "_state_%",
          .constant = "StateElement",
          .kind = Constant::element};
}

/// With elements of e4m3, which have scales.
inline constexpr const char* kScaledStateTypes[] = {"f16", "bf16", "f32", "e4m3"};
template <class Kernel>
constexpr Field<Kernel> scaled_state_field() {
  auto states = state_field<Kernel>();
  states.words = words<kScaledStateTypes>;
  states.flags = {"f32", "bf16", "f16", "e4m3"};
  return states;
}

template <class Kernel>
constexpr Field<Kernel> head_dim_field() {
  return {.name = "head-dim",
          .get = [](const Kernel& kernel) { return place_among<kWidthValues>(kernel.head_dim); },
          .set = [](Kernel& kernel, unsigned place) { kernel.head_dim = kWidthValues[place]; },
          .words = words<kWidths>,
          .bits = 1,
          .flags = {"128", "64"},
          .tag = "_d%",
          .constant = "kHeadDim",
          .kind = Constant::integer};
}

template <class Kernel>
constexpr Field<Kernel> state_transposed_field() {
  return {.name = "state-transposed",
          .get = [](const Kernel& kernel) { return static_cast<unsigned>(kernel.state_transposed); },
          .set = [](Kernel& kernel, unsigned value) { kernel.state_transposed = value != 0; },
          .words = words<kTruth>,
          .bits = 1,
          .flags = {"false", "true", "both"},
          .tag = "_kv",
          .tagged = [](const Kernel& kernel) { return kernel.state_transposed; },
          .constant = "kTransposed",
          .kind = Constant::boolean};
}

template <class Kernel>
constexpr Field<Kernel> channel_gate_field() {
  return {.name = "channel-gate",
          .get = [](const Kernel& kernel) { return static_cast<unsigned>(kernel.channel_gate); },
          .set = [](Kernel& kernel, unsigned value) { kernel.channel_gate = value != 0; },
          .words = words<kTruth>,
          .bits = 1,
          .flags = {"false", "true", "both"},
          .tag = "_channels",
          .tagged = [](const Kernel& kernel) { return kernel.channel_gate; },
          .optional = true,
          .constant = "kChannelGate",
          .kind = Constant::boolean};
}

}  // namespace tj::ops::gated_delta_rule
