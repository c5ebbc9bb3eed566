// Checks of keys, values and what is made of them in ops over chunks: rows of K or V elements of 16 bits.
//
// Decides words that chunk_solve, chunk_wu and chunk_states share.
#pragma once

#include "ops/common/chunk_tokens.hpp"

namespace tj::ops {

/// k, the first tensor: f16 or bf16, K of 64 or 128.
void check_keys(const ChunkTokens& tokens, const Named& k);
/// A tensor of rows beside k: its type, width and alignment.
void check_rows_beside(const ChunkTokens& tokens, const Named& t, Size width, const char* like);
/// Heads of `all`, which those of t divide.
void check_heads_divide(const Named& all, const Named& t);
/// Types and widths of configurations.
void check_row_config(const char* op, DType dtype, int head_dim);

}  // namespace tj::ops
