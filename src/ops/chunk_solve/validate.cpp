// The checks behind ops::validate(ChunkSolveArgs); the words of those that every op makes are tensor_checks.hpp's.
#include "ops/chunk_solve/chunk_solve.hpp"
#include "ops/common/chunk_rows.hpp"

namespace tj::ops {
namespace {

constexpr const char* kOp = "chunk_solve";
constexpr const char *kKeys[] = {"B", "T", "Hk", "K"}, *kMatrices[] = {"B", "T", "H", "64"}, *kEach[] = {"B", "T", "H"};

}  // namespace

void validate(const ChunkSolveConfig& config) { check_row_config(kOp, config.dtype, config.head_dim); }

void validate(const ChunkSolveArgs& args, bool on_model) {
  const ChunkTokens tokens{kOp, "k", args.k, 3, args.cu_seqlens};
  const Named k{
      kOp, "k", args.k, kKeys + tokens.first_axis(), tokens.batched() ? 4 : 3, "[T, Hk, K], or [B, T, Hk, K]"},
      a = named_of(tokens, "a", args.a, kMatrices, 3, "[B, T, H, 64], as k", "[T, H, 64], as k");
  check_tokens(tokens, k, on_model);
  check_keys(tokens, k);
  check_rows_beside(tokens, a, chunks::kChunk, "tokens of a chunk");
  check_heads_divide(a, k);
  const Size heads = a.at(a.rank - 2);
  check_chunk_units(tokens, heads, 1);
  std::optional<Named> beta, g_cu;
  if (args.beta) {
    beta.emplace(named_of(tokens, "beta", *args.beta, kEach, 2, "[B, T, H]", "[T, H]"));
    check_token_numbers(tokens, *beta, heads, "a's H", args.k.dtype);
  }
  if (args.g_cu) {
    g_cu.emplace(named_of(tokens, "g_cu", *args.g_cu, kEach, 2, "[B, T, H]", "[T, H]"));
    check_token_numbers(tokens, *g_cu, heads, "a's H", {});
  }
  check_written({&a}, {&k, beta ? &*beta : nullptr, g_cu ? &*g_cu : nullptr}, args.cu_seqlens);
  check_max_sms(kOp, args.max_sms);
}

}  // namespace tj::ops
