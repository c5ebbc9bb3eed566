// Listing the chunks of sequences that follow each other, as an op: what chunk ops walk over.
#pragma once

#include <tilejit/chunk_indices.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& chunk_indices_op();

/// The descriptor that a tj_chunk_indices_args stands for.
ChunkIndicesArgs chunk_indices_from_c(const void* structure);

/// The request of the kernel that serves all calls.
Request chunk_indices_request();

}  // namespace tj::ops
