// Launch parameters of the gated delta rule in chunks; see delta_chunks.hpp. On the hot path: allocates nothing.
#include <algorithm>
#include <new>
#include <type_traits>

#include "ops/common/tensor_args.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/delta_chunks/launches.hpp"
#include "ops/delta_chunks/params.cuh"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using delta_chunks::kChunk;
using delta_chunks::kMostTokens;
using delta_chunks::token_map;
using delta_chunks::walk_chunks;
using support::at;

constexpr std::int64_t kMostRecordRows = std::int64_t{1} << 31;  // a copy's coordinate

std::int64_t width_of(const GatedDeltaRuleArgs& call) { return call.q.shape[at(call.q.rank - 1)]; }
int record_rows(const GatedDeltaRuleArgs& call) {
  return delta_chunks::record_rows(static_cast<int>(width_of(call)), gates_channels(call), call.delta);
}
std::int64_t heads_of(const GatedDeltaRuleArgs& call) { return call.o.shape[at(call.o.rank - 2)]; }
/// A copy's box has so many rows.
support::TensorMapDesc record_map(const DeltaChunksArgs& args, int rows) {
  const std::int64_t count = delta_chunks_records(args.call) * heads_of(args.call);
  support::TensorMapDesc desc;
  desc.base = args.memory.records;
  desc.dtype = args.call.q.dtype;
  desc.rank = 4;
  desc.dims = {64, static_cast<std::uint64_t>(count * record_rows(args.call)), 1, 1};
  desc.stride_bytes = {2, delta_chunks::kRowBytes, kMapAlignment, kMapAlignment};
  desc.box = {64, static_cast<std::uint32_t>(rows), 1, 1, 0};
  return desc;
}

std::int64_t tokens_of(const GatedDeltaRuleArgs& call) { return call.q.shape[at(call.q.rank - 3)]; }

delta_chunks::Records records_of(const DeltaChunksArgs& args, int parts, int units = 1) {
  const GatedDeltaRuleArgs& call = args.call;
  delta_chunks::Records records{};
  records.data = static_cast<unsigned char*>(args.memory.records);
  records.heads = static_cast<int>(heads_of(call));
  records.sequences = static_cast<int>(gated_delta_rule_sequences(call));
  records.chunks = static_cast<int>((tokens_of(call) + kChunk - 1) / kChunk);
  records.first = args.range.first;
  records.count = args.range.count;
  records.parts = parts;
  records.segments = args.segments;
  records.units = units;
  records.by_units = divisor_of(units);
  records.by_heads = divisor_of(records.heads);
  records.by_parts = divisor_of(parts);
  return records;
}

/// The number of states and maps of a sequence's segments: states behind all but the last one, maps of those between
/// the first and the last.
int units_of(int segments) { return 2 * segments - 3; }

std::int64_t states_of(const GatedDeltaRuleArgs& call) { return gated_delta_rule_sequences(call) * heads_of(call); }

std::size_t records_bytes(const GatedDeltaRuleArgs& call) {
  return static_cast<std::size_t>(delta_chunks_records(call) * heads_of(call) * record_rows(call)) *
         delta_chunks::kRowBytes;
}

void plan_solve(const DeltaChunksArgs& args, LaunchPlan& plan) {
  using Params = delta_chunks::SolveParams;
  static_assert(sizeof(Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) Params{};
  plan.params_bytes = sizeof(Params);
  const GatedDeltaRuleArgs& call = args.call;
  const bool listed = call.cu_seqlens.has_value();
  plan.maps[0] = {offsetof(Params, q), token_map(call.q, listed)};
  plan.maps[1] = {offsetof(Params, k), token_map(call.k, listed)};
  plan.map_count = 2;
  if (args.memory.records != nullptr) {
    plan.maps[2] = {offsetof(Params, record_rows), record_map(args, kChunk)};
    plan.map_count = 3;
  }
  set_rule(call, p.rule);
  p.records = records_of(args, 1);
  if (!delta_chunks_in_ranges(call))
    p.records.count = 0;
  else if (p.records.count == 0)
    p.records.count = p.records.chunks;
  p.records.by_count = divisor_of(std::max(1, p.records.count));
  const std::int64_t chunks =
      p.records.count == 0 ? delta_chunks_records(call) : std::int64_t{p.records.count} * p.records.sequences;
  p.tiles = static_cast<int>(chunks * heads_of(call));
  walk_chunks(p.tiles, call.max_sms, plan);
}

void plan_state(const DeltaChunksArgs& args, DeltaStep step, LaunchPlan& plan) {
  using Params = delta_chunks::StateParams;
  static_assert(sizeof(Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) Params{};
  plan.params_bytes = sizeof(Params);
  const GatedDeltaRuleArgs& call = args.call;
  const bool listed = call.cu_seqlens.has_value();
  plan.maps[0] = {offsetof(Params, q), token_map(call.q, listed)};
  plan.maps[1] = {offsetof(Params, k), token_map(call.k, listed)};
  plan.maps[2] = {offsetof(Params, v), token_map(call.v, listed)};
  plan.maps[3] = {offsetof(Params, o), token_map(call.o, listed)};
  const int copied = delta_chunks::copied_rows(static_cast<int>(width_of(call)), gates_channels(call), call.delta,
                                               step == DeltaStep::map);
  plan.maps[4] = {offsetof(Params, record_rows), record_map(args, copied / delta_chunks::boxes_of(copied))};
  plan.map_count = 5;
  gated_delta_rule::Params rule{};
  set_rule(call, rule);
  static_assert(std::has_unique_object_representations_v<delta_chunks::StateRule>);  // plans compare every byte
  p.rule = {rule.initial, rule.final, rule.each, rule.cu_seqlens, rule.tokens, 0, rule.by_q, rule.by_k, rule.by_v};
  if (call.token_states) {
    p.rule.each.every /= kChunk;
    p.rule.each.by_every = divisor_of(p.rule.each.every);
  }
  const int units = step == DeltaStep::map ? units_of(args.segments) : args.segments;
  p.records = records_of(args, static_cast<int>(width_of(call)) / (step == DeltaStep::wide_state ? 128 : 64), units);
  p.states = args.memory.states;
  p.maps = args.memory.maps;
  p.negligible = step == DeltaStep::map || args.segments == 1 ? 0.0f : call.negligible;
  p.tiles = static_cast<int>(states_of(call)) * p.records.parts * units;
  walk_chunks(p.tiles, call.max_sms, plan);
}

void plan_carry(const DeltaChunksArgs& args, LaunchPlan& plan) {
  using Params = delta_chunks::CarryParams;
  static_assert(sizeof(Params) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) Params{};
  plan.params_bytes = sizeof(Params);
  const std::int64_t width = width_of(args.call), states = states_of(args.call);
  const auto size = static_cast<std::uint64_t>(width),
             maps = static_cast<std::uint64_t>(states * units_of(args.segments));
  support::TensorMapDesc desc;
  desc.base = args.memory.maps;
  desc.dtype = DType::f32;
  desc.rank = 4;
  desc.dims = {size, maps * size, 1, 1};
  desc.stride_bytes = {4, 4 * size, kMapAlignment, kMapAlignment};
  desc.box = {static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(size), 1, 1, 0};
  desc.swizzle_bytes = 0;
  plan.maps[0] = {offsetof(Params, map_rows), desc};
  plan.map_count = 1;
  p.states = args.memory.states;
  p.maps = args.memory.maps;
  p.segments = args.segments;
  p.parts = static_cast<int>(width) / delta_chunks::kCarryRows;
  p.by_parts = divisor_of(p.parts);
  p.tiles = static_cast<int>(states) * p.parts;
  walk_chunks(p.tiles, args.call.max_sms, plan);
}

/// Segments that have states between launches. Those that forget have none but the caller's.
int copied_segments(const GatedDeltaRuleArgs& call, const ChunkCut& cut) {
  if (cut.segments == 1 || call.negligible == 0) return cut.segments;
  return call.initial_state ? delta_chunks::kCopiedStates : 1;
}

}  // namespace

/// Chunk c of a listed sequence has place begin / 64 + its number + c (chunks.cuh).
std::int64_t delta_chunks_records(const GatedDeltaRuleArgs& call) {
  const std::int64_t tokens = tokens_of(call), sequences = gated_delta_rule_sequences(call);
  return call.cu_seqlens ? tokens / kChunk + sequences : (tokens + kChunk - 1) / kChunk * sequences;
}

int delta_chunks_most(const GatedDeltaRuleArgs& call) {
  return static_cast<int>((tokens_of(call) + kChunk - 1) / kChunk);
}
bool delta_chunks_in_ranges(const GatedDeltaRuleArgs& call) {
  return !call.cu_seqlens || gated_delta_rule_sequences(call) == 1;
}

std::size_t delta_chunks_bytes(const GatedDeltaRuleArgs& call, const ChunkCut& cut) {
  std::int64_t slots = 0;
  const int segments = copied_segments(call, cut);
  if (segments > 1)
    slots = segments + units_of(segments);
  else if (cut.ranges > 1)
    slots = 1;
  const auto state = static_cast<std::size_t>(states_of(call) * width_of(call) * width_of(call)) * sizeof(float);
  return records_bytes(call) + static_cast<std::size_t>(slots) * state;
}
ChunkMemory delta_chunks_memory(const GatedDeltaRuleArgs& call, const ChunkCut& cut, void* workspace) {
  auto* const states = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + records_bytes(call));
  return {workspace, states, states + copied_segments(call, cut) * states_of(call) * width_of(call) * width_of(call)};
}

bool delta_chunks_serve(const GatedDeltaRuleArgs& call) {
  return (!call.token_states || call.token_every % kChunk == 0) && tokens_of(call) <= kMostTokens &&
         delta_chunks_records(call) * heads_of(call) * record_rows(call) < kMostRecordRows;
}

void delta_chunks_plan(const DeltaChunksArgs& args, DeltaStep step, LaunchPlan& plan) {
  if (solves(step)) return plan_solve(args, plan);
  if (step == DeltaStep::carry) return plan_carry(args, plan);
  plan_state(args, step, plan);
}

}  // namespace tj::ops
