// The fields that decide a gated_delta_rule kernel: a row for each. The order of the rows is that of requests.
#pragma once

#include <array>

#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "ops/gated_delta_rule/rule_fields.hpp"

namespace tj::ops::gated_delta_rule {

inline constexpr std::array<Field<GatedDeltaRuleKernel>, 6> kFields = {
    {dtype_field<GatedDeltaRuleKernel>(),
     [] {
       auto states = scaled_state_field<GatedDeltaRuleKernel>();
       states.defaults = 2;
       return states;
     }(),
     head_dim_field<GatedDeltaRuleKernel>(), state_transposed_field<GatedDeltaRuleKernel>(),
     walk_field<GatedDeltaRuleKernel>(1), channel_gate_field<GatedDeltaRuleKernel>()}};

}  // namespace tj::ops::gated_delta_rule
