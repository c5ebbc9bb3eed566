// The gated delta rule token after token, as an op: arguments, request, graph, launch.
//
//   begin_sequence -> take_token -> update_state -> end_sequence    registers of one role; an iteration is a token
//                     take_token -> ask_next                        what the next token needs, on its way under this
//                     one
//   With a gate for each key channel, fade_state changes the state before update_state does.
#pragma once

#include <cstdint>
#include <vector>

#include <tilejit/gated_delta_rule.hpp>

#include "arch/arch.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/gated_delta_rule/params.cuh"
#include "ops/op.hpp"

namespace tj::ops {

/// The fields of a kernel.
struct GatedDeltaRuleKernel {
  DType dtype = DType::bf16, state = DType::f32;
  int head_dim = 128;
  bool state_transposed = false;
  WalkChoice walk = WalkChoice::usual;
  bool channel_gate = false;  ///< a gate for each key channel
};

const Op& gated_delta_rule_op();

/// The descriptor that a tj_gated_delta_rule_args stands for.
GatedDeltaRuleArgs gated_delta_rule_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const GatedDeltaRuleArgs& args, bool on_model);
void validate(const GatedDeltaRuleConfig& config);
/// Reads the lists of validated args, and throws tj::Error(argument) that names the first bad entry.
void check_lists(const GatedDeltaRuleArgs& args, const ReadList& read);

/// Facts of validated args.
std::int64_t gated_delta_rule_sequences(const GatedDeltaRuleArgs& args);
DType gated_delta_rule_state(const GatedDeltaRuleArgs& args);
/// Does the gate have a number for each key channel?
bool gates_channels(const GatedDeltaRuleArgs& args);

/// A call's tensors and options, as every kernel that serves it has them; not how its work is cut.
void set_rule(const GatedDeltaRuleArgs& args, gated_delta_rule::Params& p);
/// The parameters and the blocks of one launch. Allocates nothing.
void gated_delta_rule_plan(const GatedDeltaRuleArgs& args, const Geometry& geometry, LaunchPlan& plan);

/// The problems of a command line for tj-check; its sizes are taken out of the flags.
std::vector<Trial> gated_delta_rule_trials(const Flags& flags);

}  // namespace tj::ops
