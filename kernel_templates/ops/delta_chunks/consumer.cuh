// The state that a consumer of 64 rows of V holds, and its ways from memory and back: bodies of the states' kernel.
//
// Decides how states are read and written: the caller's, in slots or kept after chunks, those of f32 between launches,
// and what a segment is mapped by. States of e4m3 have a scale for each row of V (gated_delta_rule/scaled.cuh).
// Invariant: nothing but a tile's rows of its head's states is written.
#pragma once

#include "ops/delta_chunks/state_tile.cuh"
#include "ops/delta_chunks/stored.cuh"
#include "ops/delta_chunks/terms.cuh"

namespace tj::ops::delta_chunks {

constexpr bool loses_bits(dev::F16) { return false; }
constexpr bool loses_bits(dev::Bf16) { return true; }
/// keep D has two terms. Rounding it once is the largest error of states in bf16 where nothing fades (the op's README
/// has numbers). Gates of key channels round k once more, in f16 as well.
template <class C>
inline constexpr bool kTwoTerms = C::kChannelGate || loses_bits(typename C::Element{});

/// Some of an operand's words.
template <int First, int Words, int All>
TJ_DEVICE u32 (&words_of(u32 (&words)[All]))[Words] {
  static_assert(First + Words <= All);
  return *reinterpret_cast<u32(*)[Words]>(words + First);
}

/// A thread holds rows row0 and row0 + 8; of a product columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const StateParams& params;
  const int copy;
  float state[C::kHeadDim / 2];
  u32 before[C::kHeadDim / 4];  ///< S, rounded
  float change[kChunk / 2];     ///< R, then D
  float values[kChunk / 2];     ///< beta V^T
  float fade[kChunk / 4];       ///< of the thread's tokens
  u32 asked[kChunk / 4];        ///< X, rounded
  u32 kept[kChunk / 4];         ///< keep D, rounded
  u32 rest[kChunk / 4];         ///< what keep D loses so; with kTwoTerms
  float keep[4 * kFirstPairs];  ///< of the thread's first tokens
  float output[kChunk / 2];
  TJ_DEVICE Consumer(const StateParams& p, int which) : params(p), copy(which) {}
};

/// Two numbers of keep D, rounded, and what is lost so.
template <class C>
TJ_DEVICE void keep_pair(Consumer<C>& consumer, int word, float low, float high) {
  const typename C::Element tag{};
  if constexpr (kTwoTerms<C>)
    split_pair(tag, low, high, consumer.kept[word], consumer.rest[word]);
  else
    consumer.kept[word] = dev::pack(tag, low, high);
}

template <class Tag, int Numbers>
TJ_DEVICE void round_rows(Tag tag, const float (&values)[Numbers], u32 (&words)[Numbers / 2]) {
#pragma unroll
  for (int w = 0; w < Numbers / 2; ++w) words[w] = dev::pack(tag, values[2 * w], values[2 * w + 1]);
}
/// The thread's first row of V.
template <class C>
TJ_DEVICE int first_row(const Consumer<C>& consumer, const Tile& tile) {
  return first_column<C>(tile) + consumer.copy * kRows + group_warp() * 16 + static_cast<int>(dev::lane_index() / 4u);
}

/// The state of the sequence's slot, or zeros.
template <class C>
TJ_DEVICE void load_state(Consumer<C>& consumer, const Tile& tile) {
  const gated_delta_rule::States& states = consumer.params.rule.initial;
  const int slot = gated_delta_rule::slot_of(states, tile.sequence);
#pragma unroll
  for (float& value : consumer.state) value = 0.0f;
  if (slot < 0) return;
  const StatePlace<C> place(states, slot, tile.head, first_row(consumer, tile));
  const typename C::StateElement tag{};
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& low = consumer.state[4 * j + 2 * half];
      float& high = consumer.state[4 * j + 2 * half + 1];
      if constexpr (C::kTransposed) {
        low = load_one(tag, place.at(j, half, 0));
        high = load_one(tag, place.at(j, half, 1));
      } else {
        load_pair(tag, place.at(j, half, 0), low, high);
      }
    }
  if constexpr (gated_delta_rule::kScaled<typename C::StateElement>) {
    const float* const scales = gated_delta_rule::scales_of(states, slot, tile.head) + first_row(consumer, tile);
    const float of_rows[2] = {dev::load_global(scales), dev::load_global(scales + 8)};
#pragma unroll
    for (int at = 0; at < C::kHeadDim / 2; ++at) consumer.state[at] *= of_rows[at / 2 % 2];
  }
}

/// The thread's first element of a state of f32 between launches: rows of V, or of what a segment is mapped by.
template <class C>
TJ_DEVICE float* state_between(float* states, int slot, const Consumer<C>& consumer, const Tile& tile) {
  const long long row = static_cast<long long>(slot) * C::kHeadDim + first_row(consumer, tile);
  return states + row * C::kHeadDim + 2 * static_cast<int>(dev::lane_index() % 4u);
}
template <class C>
TJ_DEVICE void load_between(Consumer<C>& consumer, const Tile& tile) {
  const float* const from = state_between(consumer.params.states, tile.from, consumer, tile);
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      dev::load_global(from + half * 8 * C::kHeadDim + 8 * j, consumer.state[4 * j + 2 * half],
                       consumer.state[4 * j + 2 * half + 1]);
}
template <class C>
TJ_DEVICE void store_between(float* states, int slot, const Consumer<C>& consumer, const Tile& tile) {
  float* const to = state_between(states, slot, consumer, tile);
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      dev::store_global(to + half * 8 * C::kHeadDim + 8 * j, consumer.state[4 * j + 2 * half],
                        consumer.state[4 * j + 2 * half + 1]);
}
/// Ones where a row's number is the column's, else zeros.
template <class C>
TJ_DEVICE void begin_map(Consumer<C>& consumer, const Tile& tile) {
  const int row = first_row(consumer, tile), column = 2 * static_cast<int>(dev::lane_index() % 4u);
#pragma unroll
  for (int i = 0; i < C::kHeadDim / 2; ++i)
    consumer.state[i] = tile.from == kIdentity && row + 8 * (i / 2 % 2) == 8 * (i / 4) + column + i % 2 ? 1.0f : 0.0f;
}

/// S as the next products read it.
template <class C>
TJ_DEVICE void round_state(Consumer<C>& consumer) {
  round_rows(typename C::Element{}, consumer.state, consumer.before);
}
template <class C>
TJ_DEVICE void round_state(Consumer<C>& consumer, const Tile&, int) {
  round_state(consumer);
}

/// The state before the tile's first chunk is taken. Segments need the caller's once more later, when the last of them
/// may have overwritten it.
template <class C>
TJ_DEVICE void begin_state(Consumer<C>& consumer, const Tile& tile) {
  if (tile.from == kNowhere) return;
  if (tile.from >= 0)
    load_between(consumer, tile);
  else if (tile.from == kOfCaller)
    load_state(consumer, tile);
  else
    begin_map(consumer, tile);
  if constexpr (C::kMaps)
    if (tile.from == kOfCaller) {
      const Records& records = consumer.params.records;
      const int head = tile.sequence * records.heads + tile.head;
      store_between(consumer.params.states, head * records.segments, consumer, tile);
    }
  round_state(consumer);
}

/// Factors of elements of the thread's two rows that are stored. A row's scale follows from its largest element, and
/// goes to memory. Four lanes share the rows.
template <class C>
TJ_DEVICE void scale_rows(const Consumer<C>& consumer, float* scales, float (&factors)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = gated_delta_rule::kLeastRow;
#pragma unroll
    for (int at = 0; at < C::kHeadDim / 4; ++at)
      most = dev::maximum_or_nan(most, dev::magnitude(consumer.state[at / 2 * 4 + 2 * half + at % 2]));
    most = dev::maximum_or_nan(most, dev::shuffle_xor(most, 1));
    most = dev::maximum_or_nan(most, dev::shuffle_xor(most, 2));
    if (dev::lane_index() % 4 == 0)
      dev::store_global(scales + 8 * half, most * (1.0f / gated_delta_rule::kLargestElement));
    factors[half] = dev::divide_approx(gated_delta_rule::kLargestElement, most);
  }
}

/// The state goes to a stored one. `scales`: of the thread's first row, with elements of e4m3.
template <class C>
TJ_DEVICE void put_at(const Consumer<C>& consumer, const StatePlace<C>& place, float* scales) {
  constexpr bool kScaled = gated_delta_rule::kScaled<typename C::StateElement>;
  const typename C::StateElement tag{};
  float factors[2];
  if constexpr (kScaled) scale_rows(consumer, scales, factors);
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float low = consumer.state[4 * j + 2 * half], high = consumer.state[4 * j + 2 * half + 1];
      if constexpr (kScaled) low *= factors[half], high *= factors[half];
      if constexpr (C::kTransposed) {
        store_one(tag, place.at(j, half, 0), low);
        store_one(tag, place.at(j, half, 1), high);
      } else {
        store_pair(tag, place.at(j, half, 0), low, high);
      }
    }
}

/// The sequence's last state goes to its slot.
template <class C>
TJ_DEVICE void put_state(const Consumer<C>& consumer, const Tile& tile) {
  const gated_delta_rule::States& states = consumer.params.rule.final;
  const int slot = gated_delta_rule::slot_of(states, tile.sequence);
  if (slot < 0) return;
  const int row = first_row(consumer, tile);
  put_at(consumer, StatePlace<C>(states, slot, tile.head, row),
         gated_delta_rule::scales_of(states, slot, tile.head) + row);
}

/// The state after a whole chunk goes to the caller's, where it is one of those that are kept.
template <class C>
TJ_DEVICE void keep_state(Consumer<C>& consumer, const Tile& tile, int i) {
  const gated_delta_rule::TokenStates& each = consumer.params.rule.each;
  const int kept =
      i >= tile.ahead && place_of(tile, i).rows == kChunk ? gated_delta_rule::kept_place(each, tile.chunk + i + 1) : -1;
  if (kept < 0) return;
  const int row = first_row(consumer, tile);
  put_at(consumer, StatePlace<C>(gated_delta_rule::head_of(each, tile.sequence, kept, tile.head), each.row, row),
         gated_delta_rule::scales_of(each, tile.sequence, kept, tile.head) + row);
}

template <class C>
TJ_DEVICE void end_state(Consumer<C>& consumer, const Tile& tile) {
  if (tile.to == kNowhere) return;
  if (tile.to >= 0)
    store_between(C::kMaps ? consumer.params.maps : consumer.params.states, tile.to, consumer, tile);
  else
    put_state(consumer, tile);
}

}  // namespace tj::ops::delta_chunks
