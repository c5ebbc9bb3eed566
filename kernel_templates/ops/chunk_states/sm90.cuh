// The states of a head from chunk to chunk as a stage: the bodies of the graph's nodes, on warpgroup matrix
// instructions.
//
// Decides what differs from the states' kernel of delta_chunks. w takes the place of keys in the first product, and u
// that of solved values. There are no results, and the state before each chunk goes to h.
//   R = S W^T; D = U^T - R; S = total S + (keep D) K
// Invariant: a body touches registers of its own context and the slots that it is given. Nothing is written outside of
// h, v_new and last states, whatever lists say.
#pragma once

#include "ops/chunk_states/params.cuh"
#include "ops/delta_chunks/state.cuh"

namespace tj::ops::chunk_states {

using delta_chunks::kBlockBytes;
using delta_chunks::kChunk;
using delta_chunks::kRows;
using delta_chunks::Place;
using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

/// Numbers of chunks from these on have no row: h has at most 2^30 matrices, v_new as many rows.
inline constexpr u32 kNoMatrix = 1u << 30, kNoRows = kNoMatrix / kChunk;

/// A tile of delta_chunks' states, and the number of its first chunk among those of all sequences. A list that falls
/// may have lengths of any sum: it stops where no number has a row.
struct Tile : delta_chunks::Tile {
  u32 before;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile{delta_chunks::tile_at<C>(params.state, index), 0};
  if (!tile.valid) return tile;
  const delta_chunks::StateRule& rule = params.state.rule;
  if (rule.cu_seqlens == nullptr) {
    tile.before = static_cast<u32>(tile.sequence) * static_cast<u32>(params.state.records.chunks);
    return tile;
  }
  int end = delta_chunks::bound_at(rule, 0);
#pragma unroll 4
  for (int n = 0; n < tile.sequence; ++n) {
    const int begin = end;
    end = delta_chunks::bound_at(rule, n + 1);
    tile.before = min(tile.before + static_cast<u32>(max(0, end - begin) + kChunk - 1) / kChunk, kNoMatrix);
  }
  return tile;
}

template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {}
};
/// A chunk's slot: rows of k, of w, of u.
template <class C>
struct Slot {
  static constexpr u32 kKeys = delta_chunks::Slot<C>::kTokenBytes, kValues = 2 * kKeys;
};
template <class C>
TJ_DEVICE void load_chunk(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  const delta_chunks::StateParams& params = loader.params.state;
  const Place place = delta_chunks::place_of(tile, i);
  delta_chunks::copy_chunk(params, &params.k, place, divided(tile.head, params.rule.by_k), 0, C::kHeadDim, slot, full);
  delta_chunks::copy_chunk(params, &params.q, place, tile.head, 0, C::kHeadDim, slot + Slot<C>::kKeys, full);
  delta_chunks::copy_chunk(params, &params.v, place, tile.head, delta_chunks::first_column<C>(tile), kRows,
                           slot + Slot<C>::kValues, full);
}

/// A consumer of delta_chunks with 64 rows of V; of each token the thread has the sum of gates.
template <class C_>
struct Stager : delta_chunks::Consumer<C_> {
  using C = C_;
  const Params& stage;
  float sums[kChunk / 4], last;  ///< of the thread's tokens in the order of its columns; of the chunk
  u32 wanted[kChunk / 4];        ///< u
  u32 added[kChunk / 4];         ///< D, rounded
  TJ_DEVICE Stager(const Params& p, int which) : delta_chunks::Consumer<C_>(p.state, which), stage(p) {}
};

/// The token of a thread's column.
TJ_DEVICE int token_of(int pair, int at) {
  return 16 * pair + at / 2 * 8 + 2 * static_cast<int>(dev::lane_index() % 4u) + at % 2;
}
/// Sums come from near: those of the next chunk are asked for with these.
template <class C>
TJ_DEVICE void ask_sums(Stager<C>& stager, const Tile& tile, int i) {
  const gated_delta_rule::Numbers& sums = stager.stage.sums;
  const Place place = delta_chunks::place_of(tile, i);
  const auto sum_of = [&](int token) {
    const gated_delta_rule::Position at{place.batch, place.token + min(token, place.rows - 1), tile.head};
    return dev::load_global(reinterpret_cast<const float*>(gated_delta_rule::number_of_token(sums, at)));
  };
  const bool given = sums.data != nullptr;
  const int ahead = kChunk + delta_chunks::group_warp() * 16 + static_cast<int>(dev::lane_index() % 16u);
  if (given && place.token + ahead < tile.end)
    dev::prefetch_near(gated_delta_rule::number_of_token(sums, {place.batch, place.token + ahead, tile.head}));
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair)
#pragma unroll
    for (int at = 0; at < 4; ++at) stager.sums[4 * pair + at] = given ? sum_of(token_of(pair, at)) : 0.0f;
  stager.last = given ? sum_of(kChunk - 1) : 0.0f;
}

/// States as products take them.
template <class C>
struct Rounded {
  using StateElement = typename C::Element;
  static constexpr bool kTransposed = C::kTransposed;
};
/// The state before a chunk goes to h, rounded as products take it.
template <class C>
TJ_DEVICE void keep_before(Stager<C>& stager, const Tile& tile, int i) {
  const gated_delta_rule::TokenStates& h = stager.params.rule.each;
  const u32 chunk = tile.before + static_cast<u32>(i);
  if (chunk >= static_cast<u32>(h.tokens)) return;
  const delta_chunks::StatePlace<Rounded<C>> place(gated_delta_rule::head_of(h, 0, static_cast<int>(chunk), tile.head),
                                                   h.row, delta_chunks::first_row(stager, tile));
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 pair = stager.before[2 * j + half];
      if constexpr (C::kTransposed) {
        dev::store_global_u16(place.at(j, half, 0), pair & 0xffffu);
        dev::store_global_u16(place.at(j, half, 1), pair >> 16);
      } else {
        dev::store_global(place.at(j, half, 0), pair);
      }
    }
}

/// R = S W^T.
template <class C>
TJ_DEVICE void read_w(Stager<C>& stager, const Tile&, int, u32 chunk) {
  delta_chunks::multiply_state(stager, stager.change, chunk + Slot<C>::kKeys);
}
template <class C>
TJ_DEVICE void read_w_done(Stager<C>& stager) {
  delta_chunks::read_keys_done(stager);
}

/// U^T, under the product with w.
template <class C>
TJ_DEVICE void take_values(Stager<C>& stager, const Tile&, int, u32 chunk) {
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair) {
    u32 words[4];
    dev::load_matrices_transposed(delta_chunks::token_place(chunk + Slot<C>::kValues, pair), words);
#pragma unroll
    for (int w = 0; w < 4; ++w) stager.wanted[4 * pair + w] = words[w];
  }
}

/// S fades as the whole chunk says.
template <class C>
TJ_DEVICE void fade_all(Stager<C>& stager, const Tile&, int) {
  const float total = gated_delta_rule::exponential(stager.last);
#pragma unroll
  for (float& value : stager.state) value *= total;
}

/// D = U^T - R, also rounded.
template <class C>
TJ_DEVICE void correct_w(Stager<C>& stager, const Tile&, int) {
  const typename C::Element tag{};
#pragma unroll
  for (int word = 0; word < kChunk / 4; ++word) {
    float low, high;
    dev::unpack(tag, stager.wanted[word], low, high);
    stager.change[2 * word] = low - stager.change[2 * word];
    stager.change[2 * word + 1] = high - stager.change[2 * word + 1];
    stager.added[word] = dev::pack(tag, stager.change[2 * word], stager.change[2 * word + 1]);
  }
}

/// keep D. Tokens behind the sequence's end have no D.
template <class C>
TJ_DEVICE void weigh_w(Stager<C>& stager, const Tile&, int) {
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair) {
    float keep[4];
#pragma unroll
    for (int at = 0; at < 4; ++at) keep[at] = gated_delta_rule::exponential(stager.last - stager.sums[4 * pair + at]);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float low = stager.change[8 * pair + 2 * w], high = stager.change[8 * pair + 2 * w + 1];
      delta_chunks::keep_pair<C>(stager, 4 * pair + w, low * keep[w / 2 * 2], high * keep[w / 2 * 2 + 1]);
    }
  }
}

/// D by tokens, as the copy engine wants it.
template <class C>
TJ_DEVICE void stage_values(Stager<C>& stager, const Tile&, int, u32 slot) {
#pragma unroll
  for (int pair = 0; pair < kChunk / 16; ++pair) {
    const u32* const d = &stager.added[4 * pair];
    dev::store_matrices_transposed(delta_chunks::token_place(slot, pair), {d[0], d[1], d[2], d[3]});
  }
}

/// Brings v_new from shared memory to where the call wants it.
template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  TJ_DEVICE Writer(const Params& p, int) : params(p) {}
};
template <class C>
TJ_DEVICE void put_values(Writer<C>& writer, const Tile& tile, int i, u32 slot) {
  const delta_chunks::StateParams& params = writer.params.state;
  const int column = delta_chunks::first_column<C>(tile);
  const Place place = delta_chunks::place_of(tile, i);
  if (writer.params.values == kValuesOfChunks) {
    const int row = static_cast<int>(min(tile.before + static_cast<u32>(i), kNoRows) * kChunk);
    dev::store_box_4d(&params.o, slot, column, row, tile.head, 0);
  } else if (writer.params.values == kValuesOfTokens) {
    delta_chunks::store_rows(params.rule.cu_seqlens != nullptr, &params.o, place, tile.head, column, slot);
  }
}

}  // namespace tj::ops::chunk_states
