// The solved matrix of each chunk as an op: arguments, request, launch. Its graph and node bodies are delta_chunks'.
//
// Decides which calls are served, and their parameters. Does not decide how a matrix is solved (delta_chunks).
#pragma once

#include <tilejit/chunk_solve.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& chunk_solve_op();

/// The descriptor that a tj_chunk_solve_args stands for.
ChunkSolveArgs chunk_solve_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const ChunkSolveArgs& args, bool on_model);
void validate(const ChunkSolveConfig& config);

}  // namespace tj::ops
