// Running sums of gates inside chunks as an op: arguments, request, graph, launch.
//
//   begin -> ask_gates -> put_sums     registers of one role; an iteration does a chunk and a head for each unit
#pragma once

#include <tilejit/chunk_cumsum.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& chunk_cumsum_op();

/// The descriptor that a tj_chunk_cumsum_args stands for.
ChunkCumsumArgs chunk_cumsum_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const ChunkCumsumArgs& args, bool on_model);
void validate(const ChunkCumsumConfig& config);

}  // namespace tj::ops
