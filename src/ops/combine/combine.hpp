// Weighted sums of rows as an op: arguments, request, graph, launch.
//
//   begin -> add_choices -> finish_columns     one role; an iteration adds as many rows as a lane can have under way
#pragma once

#include <tilejit/combine.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& combine_op();

/// The descriptor that a tj_combine_args stands for.
CombineArgs combine_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const CombineArgs& args, bool on_model);
void validate(const CombineConfig& config);

/// Throws tj::Error(argument) naming the first slot that is neither -1 nor a row of y.
void check_slots(const CombineArgs& args, const ReadList& read);

}  // namespace tj::ops
