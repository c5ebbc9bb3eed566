// Listing the chunks of sequences that follow each other, as an op: what chunk ops walk over.
#pragma once

#include <tilejit/ops.hpp>

#include "ops/op.hpp"

namespace tj::ops {

const Op& chunk_indices_op();

/// One kernel serves all.
Request chunk_indices_request();

}  // namespace tj::ops
