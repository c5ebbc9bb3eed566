// The checks behind ops::validate(ChunkWuArgs); the words of those that every op makes are tensor_checks.hpp's.
#include "ops/chunk_wu/chunk_wu.hpp"
#include "ops/common/chunk_rows.hpp"

namespace tj::ops {
namespace {

constexpr const char* kOp = "chunk_wu";
constexpr const char *kKeys[] = {"B", "T", "Hk", "K"}, *kValues[] = {"B", "T", "Hv", "V"},
                     *kMatrices[] = {"B", "T", "H", "64"}, *kOfKeys[] = {"B", "T", "H", "K"},
                     *kOfValues[] = {"B", "T", "H", "V"}, *kEach[] = {"B", "T", "H"};

}  // namespace

void validate(const ChunkWuConfig& config) { check_row_config(kOp, config.dtype, config.head_dim); }

void validate(const ChunkWuArgs& args, bool on_model) {
  const ChunkTokens tokens{kOp, "k", args.k, 3, args.cu_seqlens};
  const Named k{
      kOp, "k", args.k, kKeys + tokens.first_axis(), tokens.batched() ? 4 : 3, "[T, Hk, K], or [B, T, Hk, K]"},
      v = named_of(tokens, "v", args.v, kValues, 3, "[B, T, Hv, V], as k", "[T, Hv, V], as k"),
      a = named_of(tokens, "a", args.a, kMatrices, 3, "[B, T, H, 64], as k", "[T, H, 64], as k"),
      w = named_of(tokens, "w", args.w, kOfKeys, 3, "[B, T, H, K], as k", "[T, H, K], as k"),
      u = named_of(tokens, "u", args.u, kOfValues, 3, "[B, T, H, V], as k", "[T, H, V], as k");
  check_tokens(tokens, k, on_model);
  check_keys(tokens, k);
  const Size width = k.at(k.rank - 1);
  check_rows_beside(tokens, a, chunks::kChunk, "tokens of a chunk");
  for (const Named* t : {&v, &w, &u}) check_rows_beside(tokens, *t, width, "k's K (V and K are equal)");
  const Size heads = a.at(a.rank - 2);
  for (const Named* t : {&w, &u}) check_same(*t, t->rank - 2, heads, "a's H");
  for (const Named* t : {&k, &v}) check_heads_divide(a, *t);
  check_chunk_units(tokens, heads, 2);
  std::optional<Named> beta, g_cu;
  if (args.beta) {
    beta.emplace(named_of(tokens, "beta", *args.beta, kEach, 2, "[B, T, H]", "[T, H]"));
    check_token_numbers(tokens, *beta, heads, "a's H", args.k.dtype);
  }
  if (args.g_cu) {
    g_cu.emplace(named_of(tokens, "g_cu", *args.g_cu, kEach, 2, "[B, T, H]", "[T, H]"));
    check_token_numbers(tokens, *g_cu, heads, "a's H", {});
  }
  check_written({&w, &u}, {&k, &v, &a, beta ? &*beta : nullptr, g_cu ? &*g_cu : nullptr}, args.cu_seqlens);
  check_max_sms(kOp, args.max_sms);
}

}  // namespace tj::ops
