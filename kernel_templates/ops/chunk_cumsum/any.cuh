// Running sums of gates inside chunks: the bodies of the graph's nodes, for every family.
//
// Decides what a unit of 32 lanes does for a chunk and a head: a lane has two tokens. Invariant: nothing outside of a
// sequence's tokens is written, whatever lists say.
#pragma once

#include "ops/chunk_cumsum/params.cuh"
#include "ops/chunks/places.cuh"
#include "ops/gated_delta_rule/token.cuh"

namespace tj::ops::chunk_cumsum {

using chunks::kChunk;
using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

/// kUnits units; an iteration does all of them.
struct Tile {
  int index;
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, 1};
}

template <class C_>
struct Summer {
  using C = C_;
  const Params& params;
  chunks::Place place = {0, 0, 0};
  int head = 0;
  u32 numbers[2];  ///< gates as they lie in memory
  float a_log = 0;
  u32 bias = 0;
  TJ_DEVICE Summer(const Params& p, int) : params(p) {}
};

TJ_DEVICE int lane_of_unit() { return static_cast<int>(dev::lane_index() % 32u); }

/// The unit's chunk and head. A unit behind the last one has no tokens.
template <class C>
TJ_DEVICE void begin(Summer<C>& summer, const Tile& tile) {
  const Params& params = summer.params;
  const int unit = tile.index * kUnits + static_cast<int>(dev::warp_index()) * (C::kLanes / 32) +
                   static_cast<int>(dev::lane_index() / 32u);
  const int slot = divided(min(unit, params.units - 1), params.by_heads);
  summer.head = min(unit, params.units - 1) - slot * params.rule.heads;
  summer.place = chunks::place_of_slot(params.sequences, slot);
  if (unit >= params.units) summer.place.rows = 0;
}

/// The position of a lane's token; of no token it is the last one's.
template <class C>
TJ_DEVICE gated_delta_rule::Position position_of(const Summer<C>& summer, int token) {
  return {summer.place.batch, summer.place.token + min(token, summer.place.rows - 1), summer.head};
}

/// Asks for the gates of a lane's tokens, and what raw ones need.
template <class C>
TJ_DEVICE void ask_gates(Summer<C>& summer, const Tile&, int) {
  const gated_delta_rule::Params& rule = summer.params.rule;
  if (summer.place.rows <= 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    summer.numbers[half] = gated_delta_rule::load_number(
        gated_delta_rule::number_of_token(rule.gate, position_of(summer, lane_of_unit() + 32 * half)),
        has(rule, gated_delta_rule::kGateHalf));
  if (!has(rule, gated_delta_rule::kGateRaw)) return;
  summer.a_log = dev::load_global(rule.a_log + summer.head);
  if (rule.dt_bias != nullptr) summer.bias = gated_delta_rule::load_bias(rule, summer.head);
}

/// The natural logarithm of a token's decay. A decay of 0 is one that nothing is left of in f32: differences of
/// infinite sums would be NaN.
template <class C>
TJ_DEVICE float log_decay(const Summer<C>& summer, u32 number) {
  constexpr float kNothing = -150.0f * gated_delta_rule::kLn2, kLeast = -3.0e38f;
  const typename C::Element tag{};
  const gated_delta_rule::Params& rule = summer.params.rule;
  float gate = gated_delta_rule::value_of(tag, number, has(rule, gated_delta_rule::kGateHalf));
  if (has(rule, gated_delta_rule::kGateExp))
    gate = dev::log2_approx(gate) * gated_delta_rule::kLn2;
  else if (has(rule, gated_delta_rule::kGateRaw))
    gate = gated_delta_rule::raw_gate(gate, summer.a_log, gated_delta_rule::bias_of(tag, rule, summer.bias));
  return gate < kLeast ? kNothing : gate;
}

/// Sums go to g_cu. All lanes of a warp take part: two units may share a wave.
template <class C>
TJ_DEVICE void put_sums(Summer<C>& summer, const Tile&, int) {
  const int lane = lane_of_unit();
  float sums[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    sums[half] = lane + 32 * half < summer.place.rows ? log_decay(summer, summer.numbers[half]) : 0.0f;
  chunks::add_up(sums, lane, static_cast<int>(dev::lane_index()) - lane);
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (lane + 32 * half < summer.place.rows)
      dev::store_global(reinterpret_cast<float*>(gated_delta_rule::row_of(
                            summer.params.rule.o, position_of(summer, lane + 32 * half), summer.head)),
                        sums[half]);
}

}  // namespace tj::ops::chunk_cumsum
