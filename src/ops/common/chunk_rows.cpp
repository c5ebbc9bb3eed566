// See chunk_rows.hpp.
#include "ops/common/chunk_rows.hpp"

#include "ops/delta_chunks/launches.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace

void check_keys(const ChunkTokens& tokens, const Named& k) {
  if (!is_half(k.tensor.dtype))
    refuse(tokens.op, Code::unsupported, cat("k.dtype is ", to_string(k.tensor.dtype), "; allowed: f16, bf16"));
  const Size width = k.at(k.rank - 1);
  if (width != 64 && width != 128)
    refuse(tokens.op, Code::unsupported, cat("k.shape[", k.rank - 1, "] (K) is ", width, "; allowed: 64, 128"));
  if (tokens.tokens() > delta_chunks::kMostTokens)
    refuse(tokens.op, Code::unsupported,
           cat("k.shape[", tokens.batched() ? 1 : 0, "] (T) is ", tokens.tokens(), "; allowed: at most ",
               delta_chunks::kMostTokens));
  check_rows(k);
}

void check_rows_beside(const ChunkTokens& tokens, const Named& t, Size width, const char* like) {
  check_beside(tokens, t);
  check_dtype(t, tokens.first.dtype, ", as k.dtype");
  check_same(t, t.rank - 1, width, like);
  check_rows(t);
}

void check_heads_divide(const Named& all, const Named& t) {
  const int heads = all.rank - 2;
  if (all.at(heads) % t.at(t.rank - 2) != 0)
    refuse(all.op, Code::invalid_argument,
           cat(all.name, ".shape[", heads, "] (H) is ", all.at(heads), "; allowed: multiples of ", t.name, ".shape[",
               t.rank - 2, "] (", t.axes[t.rank - 2], "), ", t.at(t.rank - 2)));
}

void check_row_config(const char* op, DType dtype, int head_dim) {
  if (!is_half(dtype)) refuse(op, Code::unsupported, cat("dtype is ", to_string(dtype), "; allowed: f16, bf16"));
  if (head_dim != 64 && head_dim != 128)
    refuse(op, Code::unsupported, cat("head_dim is ", head_dim, "; allowed: 64, 128"));
}

}  // namespace tj::ops
