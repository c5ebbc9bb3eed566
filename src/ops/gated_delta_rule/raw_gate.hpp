// Checks of gates' forms and of the numbers of each head that raw gates come with; every op with gates makes them.
//
// Decides words alone. Which types a bias may have is the op's to check, as is a bias of each key channel.
#pragma once

#include <optional>

#include <tilejit/gated_delta_rule.hpp>

#include "ops/common/tensor_checks.hpp"

namespace tj::ops::gated_delta_rule {

/// The heads of a call's gates, and the device of its tensors, as errors call them.
struct GateHeads {
  const char* op;
  Size count;
  const char* like;  ///< what has so many: "o's H"
  const Device& device;
  const char* beside;  ///< a tensor on that device: "q"
};

void check_gate_form(const char* op, GateForm form);
/// One number of each head, [H].
Named head_numbers(const char* op, const char* name, const Tensor& tensor);
void check_head_numbers(const Named& t, const GateHeads& heads);
/// a_log and dt_bias are there for raw gates alone. Checks all of a_log, and no more of dt_bias.
void check_raw_gate(GateForm form, const std::optional<Tensor>& a_log, const std::optional<Tensor>& dt_bias,
                    const GateHeads& heads);

}  // namespace tj::ops::gated_delta_rule
