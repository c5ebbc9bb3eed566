// The gated delta rule token after token: the bodies of the graph's nodes, for every family.
//
// Decides what a unit of 32 lanes does with its rows of a head's state, which stay in registers for all tokens of a
// sequence. Rows need nothing of each other. Invariant: nothing is read or written outside of the call's tensors,
// whatever its lists say; a state's part is read before it is written, by the same lanes.
#pragma once

#include "ops/gated_delta_rule/channels.cuh"
#include "ops/gated_delta_rule/params.cuh"
#include "ops/gated_delta_rule/scaled.cuh"
#include "ops/gated_delta_rule/slots.cuh"
#include "ops/gated_delta_rule/state.cuh"
#include "ops/gated_delta_rule/token.cuh"

namespace tj::ops::gated_delta_rule {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;

/// kUnits units of one sequence; an iteration is a token.
struct Tile {
  int index;
  bool valid;
  int sequence, batch, first;  ///< of its tokens
  int part;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile{index, index < params.tiles, 0, 0, 0, 0, 0};
  if (!tile.valid) return tile;
  tile.sequence = divided(index, params.by_parts);
  tile.part = index - tile.sequence * params.parts;
  if (params.cu_seqlens == nullptr) {
    tile.batch = tile.sequence;
    tile.trip_count = params.tokens;
    return tile;
  }
  const int* const ends = params.cu_seqlens + tile.sequence;
  const int begin = dev::uniform(static_cast<int>(dev::load_global_u32(ends))),
            end = dev::uniform(static_cast<int>(dev::load_global_u32(ends + 1)));
  tile.first = max(0, min(begin, params.tokens));
  tile.trip_count = max(tile.first, min(end, params.tokens)) - tile.first;
  return tile;
}

TJ_DEVICE Position position_of(const Tile& tile, int i, int head) { return {tile.batch, tile.first + i, head}; }

template <class C_>
struct Recurrence {
  using C = C_;
  const Params& params;
  const int unit;  ///< of the block's
  State<C> state;
  Token<C> token;
  TJ_DEVICE Recurrence(const Params& p, int)
      : params(p),
        unit(static_cast<int>(dev::warp_index()) * (C::kLanes / 32) + static_cast<int>(dev::lane_index()) / 32) {}
};

/// Asks for a head's state in a slot.
template <class C>
TJ_DEVICE void ask_state(const Place<C>& place, const States& states, int slot, Stored<C>& stored) {
  load_state<C>(place, head_of(states, slot, place.head), states.row, stored);
  if constexpr (kScaled<typename C::StateElement>)
    load_scales<C>(place, scales_of(states, slot, place.head), stored.scales);
}
template <class C>
TJ_DEVICE void take_state(const Stored<C>& stored, State<C>& state) {
  if constexpr (kScaled<typename C::StateElement>)
    unpack_scaled<C>(stored, state);
  else
    unpack_state<C>(stored, state);
}
/// `scales`: the begin of the head's, looked at with elements of e4m3 alone.
template <class C>
TJ_DEVICE void put_state(const Place<C>& place, unsigned char* head, long long row_bytes, float* scales,
                         State<C>& state) {
  if constexpr (kScaled<typename C::StateElement>)
    store_scaled<C>(place, head, row_bytes, scales, state);
  else
    store_state<C>(place, head, row_bytes, state);
}

/// Asks for the state, and takes the first token while it comes.
template <class C>
TJ_DEVICE void begin_sequence(Recurrence<C>& recurrence, const Tile& tile) {
  const Params& params = recurrence.params;
  const Place<C> place(params, tile.part, recurrence.unit);
  if (!place.valid) return;
  if (tile.trip_count > 0) prefetch_token(params, place, position_of(tile, 0, place.head));
  const int slot = slot_of(params.initial, tile.sequence);
  Stored<C> stored;
  if (slot >= 0)
    ask_state<C>(place, params.initial, slot, stored);
  else
    clear_state<C>(stored);
  if (tile.trip_count > 0) recurrence.token.take(params, place, position_of(tile, 0, place.head));
  take_state<C>(stored, recurrence.state);
}

/// Asks for the token behind this one.
template <class C>
TJ_DEVICE void ask_next(Recurrence<C>& recurrence, const Tile& tile, int i) {
  const Place<C> place(recurrence.params, tile.part, recurrence.unit);
  if (place.valid && i + 1 < tile.trip_count)
    prefetch_token(recurrence.params, place, position_of(tile, i + 1, place.head));
}

/// The numbers of a token, which has been asked for. The first one's are there already.
template <class C>
TJ_DEVICE void take_token(Recurrence<C>& recurrence, const Tile& tile, int i) {
  const Place<C> place(recurrence.params, tile.part, recurrence.unit);
  if (place.valid && i > 0) recurrence.token.take(recurrence.params, place, position_of(tile, i, place.head));
}

/// The state fades by the gates of key channels.
template <class C>
TJ_DEVICE void fade_state(Recurrence<C>& recurrence, const Tile& tile, int i) {
  using L = Layout<C>;
  const Place<C> place(recurrence.params, tile.part, recurrence.unit);
  if (!place.valid) return;
#pragma unroll
  for (int j = 0; j < L::kDepth; j += 4) {  // four at a time: more would take too many registers
    float decays[4];
    channel_decays<C>(recurrence.params, position_of(tile, i, place.head), place.run(j / L::kRun) + j % L::kRun,
                      decays);
#pragma unroll
    for (int row = 0; row < L::kRows; ++row)
#pragma unroll
      for (int e = 0; e < 4; ++e) recurrence.state.s[row][j + e] *= decays[e];
  }
}

/// The results of rows, packed.
TJ_DEVICE void store_rows(unsigned char* to, const u32 (&words)[2]) { dev::store_global(to, words[0], words[1]); }
TJ_DEVICE void store_rows(unsigned char* to, const u32 (&words)[4]) {
  dev::store_global(to, words[0], words[1], words[2], words[3]);
}
TJ_DEVICE void store_rows(unsigned char* to, const u32 (&words)[8]) {
  dev::store_global(to, words[0], words[1], words[2], words[3]);
  dev::store_global(to + 16, words[4], words[5], words[6], words[7]);
}

/// Rows `first` to first + 3 of a lane: a token adds `added` times k to them, and their results are `words`. Results
/// read the changed state: S q = decay S_before q + d (k q). So both products with the state before it are summed over
/// lanes together.
template <class C>
TJ_DEVICE void read_rows(const Recurrence<C>& recurrence, int first, float (&added)[4], u32 (&words)[2]) {
  using L = Layout<C>;
  const Token<C>& token = recurrence.token;
  const auto& s = recurrence.state.s;
  float with_k[4] = {}, with_q[4] = {}, v[4];
#pragma unroll
  for (int j = 0; j < L::kDepth; j += 2) {
    float k[2], q[2];
    token.pair(j, k, q);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        with_k[r] = dev::multiply_add(s[first + r][j + e], k[e], with_k[r]);
        with_q[r] = dev::multiply_add(s[first + r][j + e], q[e], with_q[r]);
      }
  }
  token.rows(first, v);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float held = sum_shared<C>(with_k[r]) * token.decay * token.k_factor;
    added[r] = token.beta * (has(recurrence.params, kWithoutDelta) ? v[r] : v[r] - held) * token.k_factor;
    with_q[r] = token.q_factor * dev::multiply_add(added[r], token.k_with_q, sum_shared<C>(with_q[r]) * token.decay);
  }
  const typename C::Element tag{};
  words[0] = dev::pack(tag, with_q[0], with_q[1]);
  words[1] = dev::pack(tag, with_q[2], with_q[3]);
}

/// A token changes the state, and its results are stored.
template <class C>
TJ_DEVICE void update_state(Recurrence<C>& recurrence, const Tile& tile, int i) {
  using L = Layout<C>;
  const Params& params = recurrence.params;
  const Place<C> place(params, tile.part, recurrence.unit);
  if (!place.valid) return;
  const Token<C>& token = recurrence.token;
  auto& s = recurrence.state.s;
  u32 words[L::kRows / 2];
#pragma unroll
  for (int first = 0; first < L::kRows; first += 4) {
    float added[4];
    u32 two[2];
    read_rows<C>(recurrence, first, added, two);
    words[first / 2] = two[0];
    words[first / 2 + 1] = two[1];
#pragma unroll
    for (int j = 0; j < L::kDepth; j += 2) {
      float k[2], q[2];
      token.pair(j, k, q);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          s[first + r][j + e] = dev::multiply_add(added[r], k[e], s[first + r][j + e] * token.decay);
    }
  }
  if (place.share == 0)
    store_rows(row_of(params.o, position_of(tile, i, place.head), place.head) + 2 * place.row, words);
  const TokenStates& each = params.each;
  const int kept = kept_place(each, i + 1);
  if (kept >= 0)
    put_state<C>(place, head_of(each, tile.sequence, kept, place.head), each.row,
                 scales_of(each, tile.sequence, kept, place.head), recurrence.state);
}

/// The sequence's last state goes to its slot.
template <class C>
TJ_DEVICE void end_sequence(Recurrence<C>& recurrence, const Tile& tile) {
  const Params& params = recurrence.params;
  const int slot = slot_of(params.final, tile.sequence);
  if (slot < 0) return;
  const Place<C> place(params, tile.part, recurrence.unit);
  if (!place.valid) return;
  put_state<C>(place, head_of(params.final, slot, place.head), params.final.row,
               scales_of(params.final, slot, place.head), recurrence.state);
}

}  // namespace tj::ops::gated_delta_rule
