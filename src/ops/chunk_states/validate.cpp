// The checks behind ops::validate(ChunkStatesArgs); the words of those that every op makes are tensor_checks.hpp's.
#include "ops/chunk_states/chunk_states.hpp"
#include "ops/common/chunk_rows.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "chunk_states";
constexpr const char *kKeys[] = {"B", "T", "Hk", "K"}, *kOfKeys[] = {"B", "T", "H", "K"},
                     *kOfValues[] = {"B", "T", "H", "V"}, *kEach[] = {"B", "T", "H"}, *kRows[] = {"R", "H", "V"},
                     *kBefore[] = {"C", "H", "V", "K"}, *kBeforeTransposed[] = {"C", "H", "K", "V"},
                     *kStates[] = {"N", "H", "V", "K"}, *kStatesTransposed[] = {"N", "H", "K", "V"};

bool is_state(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

/// Rows of chunks and of sequences may be none only where there are no tokens or no sequences.
unsigned may_be_none(const ChunkTokens& tokens) { return tokens.nothing() ? axis_bits({0}) : 0; }

/// Matrices of all heads, of states or of h.
void check_matrices(const ChunkTokens& tokens, const Named& t, Size heads, Size width) {
  check_form(t, may_be_none(tokens));
  check_device(t, tokens.first.device, "k");
  check_same(t, 1, heads, "w's H");
  for (const int axis : {2, 3}) check_same(t, axis, width, "k's K (V and K are equal)");
  check_rows(t);
}

void check_states(const ChunkStatesArgs& args, const ChunkTokens& tokens, const Named& t, Size heads, Size width) {
  const DType dtype = chunk_states_type(args);
  if (!is_state(dtype))
    refuse(kOp, Code::unsupported, cat(t.name, ".dtype is ", to_string(dtype), "; allowed: f16, bf16, f32"));
  check_matrices(tokens, t, heads, width);
  check_dtype(t, dtype, args.initial_state ? ", as initial_state.dtype" : "");
  check_same(t, 0, tokens.sequences(), "the number of sequences");
}

Named h_of(const ChunkStatesArgs& args) {
  return {kOp,    "h",
          args.h, args.state_transposed ? kBeforeTransposed : kBefore,
          4,      args.state_transposed ? "[C, H, K, V]" : "[C, H, V, K]"};
}
Named state_of(const ChunkStatesArgs& args, const char* name, const Tensor& tensor) {
  return {kOp,    name,
          tensor, args.state_transposed ? kStatesTransposed : kStates,
          4,      args.state_transposed ? "[N, H, K, V]" : "[N, H, V, K]"};
}
Named values_of(const ChunkStatesArgs& args, const ChunkTokens& tokens) {
  if (args.values_by_tokens)
    return named_of(tokens, "v_new", *args.v_new, kOfValues, 3, "[B, T, H, V], as u", "[T, H, V], as u");
  return {kOp, "v_new", *args.v_new, kRows, 3, "[R, H, V], 64 rows for each chunk"};
}

void check_values(const ChunkStatesArgs& args, const ChunkTokens& tokens, const Named& v_new, Size heads, Size width) {
  if (args.values_by_tokens) return check_rows_beside(tokens, v_new, width, "k's K (V and K are equal)");
  check_form(v_new, may_be_none(tokens));
  check_device(v_new, args.k.device, "k");
  check_dtype(v_new, args.k.dtype, ", as k.dtype");
  check_same(v_new, 1, heads, "w's H");
  check_same(v_new, 2, width, "k's K (V and K are equal)");
  check_rows(v_new);
}

}  // namespace

DType chunk_states_type(const ChunkStatesArgs& args) {
  return args.initial_state ? args.initial_state->dtype : args.final_state ? args.final_state->dtype : DType::f32;
}

void validate(const ChunkStatesConfig& config) {
  check_row_config(kOp, config.dtype, config.head_dim);
  if (!is_state(config.state_dtype))
    refuse(kOp, Code::unsupported, cat("state_dtype is ", to_string(config.state_dtype), "; allowed: f16, bf16, f32"));
}

void validate(const ChunkStatesArgs& args, bool on_model) {
  const ChunkTokens tokens{kOp, "k", args.k, 3, args.cu_seqlens};
  const Named k{
      kOp, "k", args.k, kKeys + tokens.first_axis(), tokens.batched() ? 4 : 3, "[T, Hk, K], or [B, T, Hk, K]"},
      w = named_of(tokens, "w", args.w, kOfKeys, 3, "[B, T, H, K], as k", "[T, H, K], as k"),
      u = named_of(tokens, "u", args.u, kOfValues, 3, "[B, T, H, V], as k", "[T, H, V], as k"), h = h_of(args);
  check_tokens(tokens, k, on_model);
  check_keys(tokens, k);
  const Size width = k.at(k.rank - 1);
  for (const Named* t : {&w, &u}) check_rows_beside(tokens, *t, width, "k's K (V and K are equal)");
  const Size heads = w.at(w.rank - 2);
  check_same(u, u.rank - 2, heads, "w's H");
  check_heads_divide(w, k);
  check_chunk_units(tokens, heads, 2);
  check_matrices(tokens, h, heads, width);
  check_dtype(h, args.k.dtype, ", as k.dtype");
  if (!args.cu_seqlens) check_same(h, 0, slots_of(tokens), "the chunks of all sequences");
  std::optional<Named> g_cu, v_new, initial, final;
  if (args.g_cu) {
    g_cu.emplace(named_of(tokens, "g_cu", *args.g_cu, kEach, 2, "[B, T, H]", "[T, H]"));
    check_token_numbers(tokens, *g_cu, heads, "w's H", {});
  }
  if (args.v_new) check_values(args, tokens, v_new.emplace(values_of(args, tokens)), heads, width);
  if (args.initial_state)
    check_states(args, tokens, initial.emplace(state_of(args, "initial_state", *args.initial_state)), heads, width);
  if (args.final_state)
    check_states(args, tokens, final.emplace(state_of(args, "final_state", *args.final_state)), heads, width);
  if (v_new && args.values_by_tokens) check_same(*v_new, v_new->rank - 2, heads, "w's H");
  const auto given = [](const std::optional<Named>& t) { return t ? &*t : nullptr; };
  check_written({&h, given(v_new), given(final)}, {&k, &w, &u, given(g_cu), given(initial)}, args.cu_seqlens);
  check_max_sms(kOp, args.max_sms);
}

}  // namespace tj::ops
