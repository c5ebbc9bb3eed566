// Quantising to elements of 8 bits as an op: arguments, request, graph, launch.
//
//   quantise_rows                one role of 8 warps; a warp has a unit of 8 rows
//   hold_rows -> quantise_held   of blocks of 128 rows: a warp has 16 of them
#pragma once

#include <tilejit/quantise.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& quantise_op();

/// The descriptor that a tj_quantise_args stands for.
QuantiseArgs quantise_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const QuantiseArgs& args, bool on_model);
void validate(const QuantiseConfig& config);

/// Throws tj::Error(argument) naming the first of row_indices that is neither -1 nor a row of x.
void check_rows(const QuantiseArgs& args, const ReadList& read);

/// Do scales serve blocks of 128 rows? Validated arguments say so by the scales' shape; a matrix of one row does not.
bool quantise_tall(const QuantiseArgs& args);

}  // namespace tj::ops
