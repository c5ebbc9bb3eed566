// Products of each chunk's solved matrix as an op: arguments, request, graph, launch.
//
//   begin -> add_tokens -> put_rows     registers of one role; an iteration is eight tokens of a chunk
#pragma once

#include <tilejit/chunk_wu.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& chunk_wu_op();

/// The descriptor that a tj_chunk_wu_args stands for.
ChunkWuArgs chunk_wu_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const ChunkWuArgs& args, bool on_model);
void validate(const ChunkWuConfig& config);

}  // namespace tj::ops
