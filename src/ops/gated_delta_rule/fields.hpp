// The fields that decide a gated_delta_rule kernel: a row for each. The order of the rows is that of requests.
#pragma once

#include <array>

#include "ops/common/fields.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"

namespace tj::ops::gated_delta_rule {

inline constexpr const char* kTypes[] = {"f16", "bf16"};
inline constexpr const char* kStateTypes[] = {"f16", "bf16", "f32"};
inline constexpr const char* kWidths[] = {"64", "128"};
inline constexpr int kWidthValues[] = {64, 128};

inline constexpr std::array<Field<GatedDeltaRuleKernel>, 5> kFields = {
    {{.name = "dtype",
      .get = [](const GatedDeltaRuleKernel& kernel) { return static_cast<unsigned>(kernel.dtype); },
      .set = [](GatedDeltaRuleKernel& kernel, unsigned value) { kernel.dtype = static_cast<DType>(value); },
      .words = words<kTypes>,
      .bits = 1,
      .flags = {"bf16", "f16"},
      .defaults = 2,
      .tag = "_%",
      .constant = "Element",
      .kind = Constant::element},
     {.name = "state",
      .get = [](const GatedDeltaRuleKernel& kernel) { return static_cast<unsigned>(kernel.state); },
      .set = [](GatedDeltaRuleKernel& kernel, unsigned value) { kernel.state = static_cast<DType>(value); },
      .words = words<kStateTypes>,
      .bits = 2,
      .flags = {"f32", "bf16", "f16"},
      .defaults = 2,
      .tag = "_state_%",
      .constant = "StateElement",
      .kind = Constant::element},
     {.name = "head-dim",
      .get = [](const GatedDeltaRuleKernel& kernel) { return place_among<kWidthValues>(kernel.head_dim); },
      .set = [](GatedDeltaRuleKernel& kernel, unsigned place) { kernel.head_dim = kWidthValues[place]; },
      .words = words<kWidths>,
      .bits = 1,
      .flags = {"128", "64"},
      .tag = "_d%",
      .constant = "kHeadDim",
      .kind = Constant::integer},
     {.name = "state-transposed",
      .get = [](const GatedDeltaRuleKernel& kernel) { return static_cast<unsigned>(kernel.state_transposed); },
      .set = [](GatedDeltaRuleKernel& kernel, unsigned value) { kernel.state_transposed = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_kv",
      .tagged = [](const GatedDeltaRuleKernel& kernel) { return kernel.state_transposed; },
      .constant = "kTransposed",
      .kind = Constant::boolean},
     walk_field<GatedDeltaRuleKernel>(1)}};

}  // namespace tj::ops::gated_delta_rule
