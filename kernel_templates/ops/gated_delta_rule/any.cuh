// The gated delta rule token after token: the bodies of the graph's nodes, for every family.
//
// Decides what a unit of 32 lanes does with its rows of a head's state, which stay in registers for all tokens of a
// sequence. Rows need nothing of each other. Invariant: nothing is read or written outside of the call's tensors,
// whatever its lists say; a state's part is read before it is written, by the same lanes.
#pragma once

#include "ops/gated_delta_rule/params.cuh"
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
  const int* const ends = params.cu_seqlens + tile.sequence * params.cu_seqlens_step;
  const int begin = static_cast<int>(dev::load_global_u32(ends)),
            end = static_cast<int>(dev::load_global_u32(ends + params.cu_seqlens_step));
  tile.first = max(0, min(begin, params.tokens));
  tile.trip_count = max(tile.first, min(end, params.tokens)) - tile.first;
  return tile;
}

template <class C_>
struct Recurrence {
  using C = C_;
  const Params& params;
  State<C> state;
  Places<C> places;  ///< of the token that is asked for next; of the results that come next
  Token<C> next;     ///< on its way
  Factors<C> now;    ///< of the token that is next to change the state
  TJ_DEVICE Recurrence(const Params& p, int) : params(p) {}
};

/// The slot of a sequence; -1: none.
TJ_DEVICE int slot_of(const States& states, int sequence) {
  if (states.data == nullptr) return -1;
  const int slot = states.slots == nullptr
                       ? sequence
                       : static_cast<int>(dev::load_global_u32(states.slots + sequence * states.slot_step));
  return slot >= 0 && slot < states.count ? slot : -1;
}
/// The begin of a head's state in a slot.
template <class C>
TJ_DEVICE unsigned char* head_of(const States& states, int slot, int head) {
  return static_cast<unsigned char*>(states.data) +
         (slot * states.slot + head * states.head) * dev::kElementBytes<typename C::StateElement>;
}

/// Asks for the first token, then for the state.
template <class C>
TJ_DEVICE void begin_sequence(Recurrence<C>& recurrence, const Tile& tile) {
  const Params& params = recurrence.params;
  const Place<C> place(params, tile.part);
  if (!place.valid) return;
  const int slot = slot_of(params.initial, tile.sequence);
  recurrence.places.begin(params, place, tile.batch, tile.first);
  if (tile.trip_count > 0) recurrence.next.load(params, recurrence.places);
  if (slot < 0) return recurrence.state.clear();
  Stored<C> stored;
  load_state<C>(place, head_of<C>(params.initial, slot, place.head), params.initial.row, stored);
  unpack_state<C>(stored, recurrence.state);
}

/// The numbers of the token that has come.
template <class C>
TJ_DEVICE void take_token(Recurrence<C>& recurrence, const Tile& tile, int) {
  const Place<C> place(recurrence.params, tile.part);
  if (place.valid) recurrence.now.take(recurrence.params, place.head, recurrence.next);
}

/// Asks for the token behind this one.
template <class C>
TJ_DEVICE void load_next(Recurrence<C>& recurrence, const Tile& tile, int i) {
  const Place<C> place(recurrence.params, tile.part);
  if (!place.valid || i + 1 >= tile.trip_count) return;
  recurrence.places.next(recurrence.params);
  recurrence.next.load(recurrence.params, recurrence.places);
}

/// The results of rows, in q's type.
template <class C>
TJ_DEVICE void store_rows(unsigned char* to, const float (&o)[Layout<C>::kRows]) {
  constexpr int kRows = Layout<C>::kRows;
  const typename C::Element tag{};
  u32 words[kRows / 2];
#pragma unroll
  for (int w = 0; w < kRows / 2; ++w) words[w] = dev::pack(tag, o[2 * w], o[2 * w + 1]);
  if constexpr (kRows == 4)
    dev::store_global(to, words[0], words[1]);
  else
    dev::store_global(to, words[0], words[1], words[2], words[3]);
}

/// What a token does to the state, and what it reads out of the changed state: S q = decay S_before q + d (k q). So
/// both products with the state before it are summed over lanes together.
template <class C>
TJ_DEVICE void update_state(Recurrence<C>& recurrence, const Tile& tile, int i) {
  using L = Layout<C>;
  const Params& params = recurrence.params;
  const Place<C> place(params, tile.part);
  if (!place.valid) return;
  const Factors<C>& now = recurrence.now;
  auto& s = recurrence.state.s;
  float with_k[L::kRows] = {}, with_q[L::kRows] = {}, o[L::kRows];
#pragma unroll
  for (int j = 0; j < L::kDepth; j += 2) {
    float k[2], q[2];
    now.pair(j, k, q);
#pragma unroll
    for (int r = 0; r < L::kRows; ++r)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        with_k[r] = dev::multiply_add(s[r][j + e], k[e], with_k[r]);
        with_q[r] = dev::multiply_add(s[r][j + e], q[e], with_q[r]);
      }
  }
  float added[L::kRows];
#pragma unroll
  for (int r = 0; r < L::kRows; r += 2) {
    float v[2];
    now.v_pair(r, v);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float read = sum_shared<C>(with_q[r + e]) * now.decay,
                  held = sum_shared<C>(with_k[r + e]) * now.decay * now.k_factor,
                  d = now.beta * (params.delta != 0 ? v[e] - held : v[e]);
      added[r + e] = d * now.k_factor;
      o[r + e] = now.q_factor * dev::multiply_add(added[r + e], now.k_with_q, read);
    }
  }
#pragma unroll
  for (int j = 0; j < L::kDepth; j += 2) {
    float k[2], q[2];
    now.pair(j, k, q);
#pragma unroll
    for (int r = 0; r < L::kRows; ++r)
#pragma unroll
      for (int e = 0; e < 2; ++e) s[r][j + e] = dev::multiply_add(added[r], k[e], s[r][j + e] * now.decay);
  }
  if (place.share == 0) store_rows<C>(recurrence.places.o, o);
  recurrence.places.o += params.o.token;
  const TokenStates& each = params.each;
  if (each.data != nullptr && i < each.tokens)
    store_state<C>(place,
                   static_cast<unsigned char*>(each.data) +
                       (tile.sequence * each.sequence + i * each.token + place.head * each.head) *
                           dev::kElementBytes<typename C::StateElement>,
                   each.row, recurrence.state);
}

/// The sequence's last state goes to its slot.
template <class C>
TJ_DEVICE void end_sequence(Recurrence<C>& recurrence, const Tile& tile) {
  const Params& params = recurrence.params;
  const int slot = slot_of(params.final, tile.sequence);
  if (slot < 0) return;
  const Place<C> place(params, tile.part);
  if (!place.valid) return;
  store_state<C>(place, head_of<C>(params.final, slot, place.head), params.final.row, recurrence.state);
}

}  // namespace tj::ops::gated_delta_rule
