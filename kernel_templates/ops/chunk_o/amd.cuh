// Output of the gated delta rule's chunks on matrix instructions of a wave whose operands are rows with K in order: the
// bodies of the graph's nodes that compute.
//
// Decides what one node computes for one item of work (items.cuh): a chunk and a part of a value head's columns. Order,
// barriers, slots and when loads begin come from the emitted unit.
//   o = scale * (e^g (q h^T) + p v), p = (q k^T) e^(g of the row - g of the column) up to the diagonal
// All products are transposed: keys, and then columns of V, are rows; queries are columns. So a lane has one query of
// its wave's sixteen, and weights go on as an operand where they are. Where a block has more waves than the chunk has
// sixteens, they share its columns, and each makes the scores of its queries. Invariant: a body touches registers of
// its own context and the slots that it is given, and no row of o but those of its tokens.
#pragma once

#include "ops/chunk_o/amd_load.cuh"

namespace tj::ops::chunk_o {

inline constexpr float kLog2E = 1.44269504088896f;

TJ_DEVICE int first_query() { return static_cast<int>(dev::warp_index() % kRowWaves) * kMatrix; }
template <class C>
TJ_DEVICE u32 first_column() {
  return C::kWarps == kRowWaves ? 0u : dev::warp_index() / kRowWaves * kWaveColumns<C>;
}

template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int row;  ///< of the chunk: the lane's query
  Places<C> places;
  Place place;                                 ///< of this item
  float gates[kChunk / dev::kWave];            ///< of tokens lane, lane + kWave and on
  float decay;                                 ///< e^g of the query
  float scores[kChunk / kMatrix][dev::kSums];  ///< then weights
  float output[kWaveColumns<C> / kMatrix][dev::kSums];
  TJ_DEVICE Consumer(const Params& p, int)
      : params(p), row(first_query() + static_cast<int>(dev::operand_row())), places(p) {}
};

/// Loads the place of the item and its gates; weigh() is the first to look at them.
template <class C>
TJ_DEVICE void fetch(Consumer<C>& consumer, const Tile&, int i) {
  const Params& params = consumer.params;
  const Place place = consumer.place = consumer.places.at(params, i);
  if constexpr (C::kGates) {
    const int lane = static_cast<int>(dev::lane_index()), head = piece_at<C>(params, i).head;
#pragma unroll
    for (int n = 0; n < kChunk / static_cast<int>(dev::kWave); ++n) {
      const int token = lane + n * static_cast<int>(dev::kWave);
      consumer.gates[n] = token < place.rows
                              ? dev::load_global(params.gates + (place.token + token) * params.gates_stride + head)
                              : 0.0f;
    }
  }
}

/// The lane's part of a row of a tile with K in order.
TJ_DEVICE u32 lane_place(u32 tile, u32 row, u32 stride) {
  return dev::one_address(tile + (row + dev::operand_row()) * stride + dev::operand_k() * 2);
}
template <int Count>
TJ_DEVICE void clear(float (&sums)[Count][dev::kSums]) {
#pragma unroll
  for (int n = 0; n < Count; ++n) {
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) sums[n][s] = 0.0f;
  }
}

/// scores = k q^T: rows are keys, columns queries.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 tokens) {
  const u32 queries = lane_place(tokens, static_cast<u32>(first_query()), kDepthStride<C>),
            keys = lane_place(tokens + kTokensBytes<C>, 0, kDepthStride<C>);
  clear(consumer.scores);
#pragma unroll
  for (int d = 0; d < kWidth / kMatrix; ++d) {
    u32 right[dev::kOperandWords];
    dev::load_shared(queries + static_cast<u32>(d) * kMatrix * 2, right);
#pragma unroll
    for (int n = 0; n < kChunk / kMatrix; ++n) {
      u32 left[dev::kOperandWords];
      dev::load_shared(keys + static_cast<u32>(n) * kMatrix * kDepthStride<C> + static_cast<u32>(d) * kMatrix * 2,
                       left);
      dev::mma_m16n16k16(dev::Bf16{}, consumer.scores[n], left, right);
    }
    dev::hold_back();
  }
}

/// output = h q^T: rows are columns of V, columns queries.
template <class C>
TJ_DEVICE void qh(Consumer<C>& consumer, const Tile&, int, u32 tokens, u32 h) {
  const u32 queries = lane_place(tokens, static_cast<u32>(first_query()), kDepthStride<C>),
            states = lane_place(h, first_column<C>(), kDepthStride<C>);
  clear(consumer.output);
#pragma unroll
  for (int d = 0; d < kWidth / kMatrix; ++d) {
    u32 right[dev::kOperandWords];
    dev::load_shared(queries + static_cast<u32>(d) * kMatrix * 2, right);
#pragma unroll
    for (int n = 0; n < kWaveColumns<C> / kMatrix; ++n) {
      u32 left[dev::kOperandWords];
      const u32 row = static_cast<u32>(n), block = static_cast<u32>(d);
      if constexpr (C::kStateMn)
        dev::load_shared(block_place<C, kWidth>(states, kDepthStride<C>, row, block), left);
      else
        dev::load_shared(states + row * kMatrix * kDepthStride<C> + block * kMatrix * 2, left);
      dev::mma_m16n16k16(dev::Bf16{}, consumer.output[n], left, right);
    }
    dev::hold_back();
  }
}

/// weights = scores, faded from each token to the query's, of tokens up to the query's, as the right operand of the
/// next product; and e^g of the query. Above the diagonal the fading may be infinite: a choice, not a factor, leaves it
/// out.
template <class C>
TJ_DEVICE void weigh(Consumer<C>& consumer, const Tile&, int) {
  constexpr int kWave = static_cast<int>(dev::kWave);
  float own = 0;
  if constexpr (C::kGates) {
    const int first = first_query();
    own = dev::shuffle_from(kWave == kChunk || first < kWave ? consumer.gates[0] : consumer.gates[kChunk / kWave - 1],
                            consumer.row % kWave);
    consumer.decay = dev::exp2_approx(own * kLog2E);
  }
  const int query = anew(static_cast<u32>(consumer.row)), first_sum = anew(dev::sum_row(0));
#pragma unroll
  for (int n = 0; n < kChunk / kMatrix; ++n) {
    dev::hold_back();
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) {
      const int within = first_sum + static_cast<int>(dev::sum_row(s) - dev::sum_row(0)), token = n * kMatrix + within;
      float weight = consumer.scores[n][s];
      if constexpr (C::kGates) {
        const float gate = dev::shuffle_from(consumer.gates[n * kMatrix / kWave], n * kMatrix % kWave + within);
        weight *= dev::exp2_approx((own - gate) * kLog2E);
      }
      consumer.scores[n][s] = token <= query ? weight : 0.0f;
    }
  }
}

/// Fades what the state before the chunk gives to the query's token.
template <class C>
TJ_DEVICE void fade(Consumer<C>& consumer, const Tile&, int) {
#pragma unroll
  for (int n = 0; n < kWaveColumns<C> / kMatrix; ++n) {
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) consumer.output[n][s] *= consumer.decay;
  }
}

/// output += v^T weights: rows are columns of V, columns queries. Weights are rounded where they are an operand.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  const u32 values = lane_place(v, first_column<C>(), kValueStride<C>);
#pragma unroll
  for (int block = 0; block < kChunk / kMatrix; ++block) {
    u32 right[dev::kOperandWords];
    dev::sums_as_own_operand(dev::Bf16{}, consumer.scores[block], right);
#pragma unroll
    for (int n = 0; n < kWaveColumns<C> / kMatrix; ++n) {
      u32 left[dev::kOperandWords];
      dev::load_shared(block_place<C, kChunk>(values, kValueStride<C>, static_cast<u32>(n), static_cast<u32>(block)),
                       left);
      dev::mma_m16n16k16(dev::Bf16{}, consumer.output[n], left, right);
    }
    dev::hold_back();
  }
}

/// The query's elements, scaled and rounded, to memory. All lanes of the wave trade sums; those of queries that are
/// tokens store.
template <class C>
TJ_DEVICE void write_rows(Consumer<C>& consumer, const Tile&, int i) {
  const Params& params = consumer.params;
  const Piece piece = piece_at<C>(params, i);
  unsigned short* to =
      static_cast<unsigned short*>(params.o_data) + (consumer.place.token + consumer.row) * params.o_stride_token +
      piece.head * params.o_stride_head + piece.column + static_cast<int>(first_column<C>() + dev::own_k());
  // Numbers are made in front of the only branch. The compiler would move products behind it, and keep all of their
  // operands until then.
  u32 words[kWaveColumns<C> / kMatrix][dev::kOwnWords];
#pragma unroll
  for (int n = 0; n < kWaveColumns<C> / kMatrix; ++n) {
    float scaled[dev::kSums];
#pragma unroll
    for (int s = 0; s < dev::kSums; ++s) scaled[s] = consumer.output[n][s] * params.scale;
    u32 whole[dev::kOperandWords];
    dev::sums_as_operand(dev::Bf16{}, scaled, whole);
    dev::own_part(whole, words[n]);
#pragma unroll
    for (u32& word : words[n]) dev::hold(word);
  }
  if (consumer.row >= consumer.place.rows) return;
#pragma unroll
  for (int n = 0; n < kWaveColumns<C> / kMatrix; ++n) {
    if constexpr (dev::kOwnWords == 4)
      dev::store_global(to + n * kMatrix, words[n][0], words[n][1], words[n][2], words[n][3]);
    else
      dev::store_global(to + n * kMatrix, words[n][0], words[n][1]);
  }
}

}  // namespace tj::ops::chunk_o
