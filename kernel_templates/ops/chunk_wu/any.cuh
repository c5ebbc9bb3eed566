// Products of a chunk's solved matrix with keys or values: the bodies of the graph's nodes, for every family.
//
// Decides what a unit of 32 lanes does with its rows of w, or of u: sums of f32, on no matrix instruction. A is lower,
// so half of a product's work is left out, and rows of 16 bits bound the time about as much as arithmetic does.
// Invariant: nothing outside of a sequence's tokens is written, whatever lists say; elements of A above the diagonal
// count as zeros.
#pragma once

#include "ops/chunk_wu/params.cuh"
#include "ops/chunks/places.cuh"
#include "ops/gated_delta_rule/token.cuh"

namespace tj::ops::chunk_wu {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;
using gated_delta_rule::Position;
using gated_delta_rule::row_of;

/// A chunk, a head, and w or u; an iteration is kAhead tokens.
struct Tile {
  int index;
  bool valid;
  int trip_count;
  chunks::Place place;
  int head;
  bool values;  ///< u of values, else w of keys
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile{index, index < params.tiles, 0, {0, 0, 0}, 0, index % 2 != 0};
  if (!tile.valid) return tile;
  const int slot = divided(index / 2, params.by_heads);
  tile.head = index / 2 - slot * params.heads;
  tile.place = chunks::place_of_slot(params.sequences, slot);
  tile.trip_count = tile.place.rows > 0 ? (tile.place.rows + kAhead - 1) / kAhead : 0;
  return tile;
}

/// A lane has kEach neighbouring columns of kRows rows: unit, unit + kUnits, and so on.
template <class C_>
struct Multiplier {
  using C = C_;
  static constexpr int kEach = C::kHeadDim / 32;
  const Params& params;
  const int unit;
  float sums[kRows][kEach];
  TJ_DEVICE Multiplier(const Params& p, int)
      : params(p),
        unit(static_cast<int>(dev::warp_index()) * (C::kLanes / 32) + static_cast<int>(dev::lane_index()) / 32) {}
};

template <class C>
TJ_DEVICE void begin(Multiplier<C>& multiplier, const Tile&) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (float& sum : multiplier.sums[r]) sum = 0.0f;
}

/// Elements of a lane, as they lie in memory.
TJ_DEVICE void load_columns(const unsigned char* from, u32 (&words)[1]) { words[0] = dev::load_global_u32(from); }
TJ_DEVICE void load_columns(const unsigned char* from, u32 (&words)[2]) { dev::load_global(from, words); }
TJ_DEVICE void store_columns(unsigned char* to, const u32 (&words)[1]) { dev::store_global(to, words[0]); }
TJ_DEVICE void store_columns(unsigned char* to, const u32 (&words)[2]) { dev::store_global(to, words[0], words[1]); }
TJ_DEVICE int first_column(int each) { return static_cast<int>(dev::lane_index() % 32u) * each; }

/// The number that a token's key, or value, counts times; 0 behind the chunk's end.
template <class C>
TJ_DEVICE float weight_of(const Params& params, const Tile& tile, int token) {
  const typename C::Element tag{};
  if (token >= tile.place.rows) return 0.0f;
  const Position at{tile.place.batch, tile.place.token + token, tile.head};
  float weight = 1.0f;
  if (params.beta.data != nullptr) {
    const bool half = params.half_beta != 0;
    weight = gated_delta_rule::value_of(
        tag, gated_delta_rule::load_number(gated_delta_rule::number_of_token(params.beta, at), half), half);
  }
  if (!tile.values && params.sums.data != nullptr)
    weight *= gated_delta_rule::exponential(
        dev::load_global(reinterpret_cast<const float*>(gated_delta_rule::number_of_token(params.sums, at))));
  return weight;
}

/// Rows of the next kAhead tokens, times their weights.
template <class C>
TJ_DEVICE void load_rows(const Multiplier<C>& multiplier, const Tile& tile, int first,
                         float (&rows)[kAhead][Multiplier<C>::kEach]) {
  constexpr int kEach = Multiplier<C>::kEach;
  const Params& params = multiplier.params;
  const typename C::Element tag{};
  const gated_delta_rule::Tokens& of = tile.values ? params.v : params.k;
  const int head = divided(tile.head, tile.values ? params.by_v : params.by_k);
  u32 words[kAhead][kEach / 2];
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    load_columns(
        row_of(of, {tile.place.batch, tile.place.token + min(first + j, tile.place.rows - 1), tile.head}, head) +
            2 * first_column(kEach),
        words[j]);
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    const float weight = weight_of<C>(params, tile, first + j);
    const bool there = first + j < tile.place.rows;
#pragma unroll
    for (int w = 0; w < kEach / 2; ++w) {
      float pair[2];
      dev::unpack(tag, words[j][w], pair[0], pair[1]);
#pragma unroll
      for (int e = 0; e < 2; ++e) rows[j][2 * w + e] = there ? pair[e] * weight : 0.0f;
    }
  }
}

/// sums += A rows, for kAhead tokens. A row before them has nothing of them.
template <class C>
TJ_DEVICE void add_tokens(Multiplier<C>& multiplier, const Tile& tile, int i) {
  constexpr int kEach = Multiplier<C>::kEach;
  const Params& params = multiplier.params;
  const typename C::Element tag{};
  const int first = i * kAhead;
  float rows[kAhead][kEach];
  load_rows(multiplier, tile, first, rows);
  int from = first;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r % 4 == 0) dev::hold(from);  // elements of A of more rows than four would take too many registers
    const int row = r * kUnits + multiplier.unit;
    if (r * kUnits + kUnits <= first || row >= tile.place.rows) continue;
    u32 words[kAhead / 2];
    dev::load_global(row_of(params.a, {tile.place.batch, tile.place.token + row, tile.head}, tile.head) + 2 * from,
                     words);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      float pair[2];
      dev::unpack(tag, words[j / 2], pair[0], pair[1]);
      const float element = first + j <= row ? pair[j % 2] : 0.0f;
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        multiplier.sums[r][e] = dev::multiply_add(element, rows[j][e], multiplier.sums[r][e]);
    }
  }
}

template <class C>
TJ_DEVICE void put_rows(Multiplier<C>& multiplier, const Tile& tile) {
  constexpr int kEach = Multiplier<C>::kEach;
  const typename C::Element tag{};
  const gated_delta_rule::Tokens& to = tile.values ? multiplier.params.u : multiplier.params.w;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = r * kUnits + multiplier.unit;
    if (row >= tile.place.rows) continue;
    u32 words[kEach / 2];
#pragma unroll
    for (int w = 0; w < kEach / 2; ++w)
      words[w] = dev::pack(tag, multiplier.sums[r][2 * w], multiplier.sums[r][2 * w + 1]);
    store_columns(
        row_of(to, {tile.place.batch, tile.place.token + row, tile.head}, tile.head) + 2 * first_column(kEach), words);
  }
}

}  // namespace tj::ops::chunk_wu
