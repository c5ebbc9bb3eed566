// Launch parameters of chunk_states; see chunk_states.hpp. On the hot path: allocates nothing.
#include <cstddef>
#include <new>

#include "ops/chunk_states/chunk_states.hpp"
#include "ops/chunk_states/params.cuh"
#include "ops/common/chunk_tokens.hpp"
#include "ops/common/empty.hpp"
#include "ops/delta_chunks/launches.hpp"
#include "ops/gated_delta_rule/tensors.hpp"
#include "support/index.hpp"

namespace tj::ops {

using support::at;

namespace {

/// Maps need rows also where there are no tokens, and nobody reads or writes any.
ChunkStatesArgs with_rows(const ChunkStatesArgs& given) {
  ChunkStatesArgs args = given;
  if (!is_empty(given.k)) return args;
  for (Tensor* const each : {&args.k, &args.w, &args.u}) *each = stand_in(*each, *given.final_state);
  if (given.v_new) args.v_new = stand_in(*given.v_new, *given.final_state);
  return args;
}

}  // namespace

void chunk_states_plan(const ChunkStatesArgs& given, LaunchPlan& plan) {
  using chunk_states::Params;
  using delta_chunks::StateParams;
  using namespace gated_delta_rule;
  static_assert(sizeof(Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) Params{};
  plan.params_bytes = sizeof(Params);
  const ChunkStatesArgs args = with_rows(given);
  const bool listed = args.cu_seqlens.has_value();
  const auto map_of = [](std::size_t member, const support::TensorMapDesc& desc) {
    return LaunchPlan::Map{offsetof(Params, state) + member, desc};
  };
  plan.maps[0] = map_of(offsetof(StateParams, q), delta_chunks::token_map(args.w, listed));
  plan.maps[1] = map_of(offsetof(StateParams, k), delta_chunks::token_map(args.k, listed));
  plan.maps[2] = map_of(offsetof(StateParams, v), delta_chunks::token_map(args.u, listed));
  plan.map_count = 3;
  if (args.v_new) {
    plan.maps[3] =
        map_of(offsetof(StateParams, o), delta_chunks::token_map(*args.v_new, listed && args.values_by_tokens));
    plan.map_count = 4;
    p.values = args.values_by_tokens ? chunk_states::kValuesOfTokens : chunk_states::kValuesOfChunks;
  }
  const ChunkTokens tokens{"chunk_states", "k", given.k, 3, given.cu_seqlens};
  const chunks::Sequences sequences = sequences_of(tokens);
  const auto heads = static_cast<int>(args.w.shape[at(args.w.rank - 2)]),
             width = static_cast<int>(args.k.shape[at(args.k.rank - 1)]);
  delta_chunks::StateRule& rule = p.state.rule;
  rule.initial = states_of(args.initial_state);
  rule.final = states_of(args.final_state);
  rule.each.data = args.h.data;
  rule.each.token = bytes_apart(args.h, 0);
  rule.each.head = bytes_apart(args.h, 1);
  rule.each.row = bytes_apart(args.h, 2);
  rule.each.tokens = static_cast<int>(args.h.shape[0]);
  rule.cu_seqlens = sequences.ends;
  rule.tokens = sequences.tokens;
  rule.by_k = divisor_of(heads / static_cast<int>(args.k.shape[at(args.k.rank - 2)]));
  delta_chunks::Records& records = p.state.records;
  records.heads = heads;
  records.sequences = sequences.count;
  records.chunks = sequences.chunks;
  records.parts = width / delta_chunks::kSwizzleColumns;
  records.segments = records.units = 1;
  records.by_heads = divisor_of(heads);
  records.by_parts = divisor_of(records.parts);
  records.by_units = divisor_of(1);
  p.sums = numbers_of(args.g_cu, 0);
  p.tiles = p.state.tiles = sequences.count * heads * records.parts;
  delta_chunks::walk_chunks(p.tiles, args.max_sms, plan);
}

}  // namespace tj::ops
