// Merging partial outputs of attention as an op: arguments, request, graph, launch. fmha takes it as a step, too.
//
//   begin -> add_states -> finish_rows     one role; an iteration adds as many states as a thread can have under way
#pragma once

#include <tilejit/merge_states.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& merge_states_op();

/// The descriptor that a tj_merge_states_args stands for.
MergeStatesArgs merge_states_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const MergeStatesArgs& args, bool on_model);
void validate(const MergeStatesConfig& config);
/// Reads the list of a valid call, and throws tj::Error(argument) for the first number that it may not have.
void check_sequences(const MergeStatesArgs& args, const ReadList& read);

/// The kernel of such types. draws: its blocks draw their tiles.
std::uint64_t merge_states_small_key(const MergeStatesConfig& config, bool draws = false);

}  // namespace tj::ops
