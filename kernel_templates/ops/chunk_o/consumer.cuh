// A consumer of a value head, between its products and behind them: bodies that families share whose warps have sums as
// a matrix instruction's fragment.
//
// Decides what one node computes for one item of work (items.cuh), a consumer for each of its value heads. Order,
// waits, slots and roles come from the emitted unit.
//   o = scale * (e^g (q h^T) + p v), p = (q k^T) e^(g of the row - g of the column) up to the diagonal
// Invariant: a body touches registers of its own context and the slots that it is given, and no row of o but those of
// its tokens.
#pragma once

#include "ops/chunk_o/rows.cuh"

namespace tj::ops::chunk_o {

// ---- one consumer's chain -------------------------------------------------------------------------------------------
/// A value head. A thread holds rows row0 and row0 + 8, columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int copy;           ///< which of the item's value heads
  const int row0, column0;  ///< of this thread's fragments, inside the chunk and 8 columns
  Places<C> places;
  Place place;     ///< of this item
  float gates[2];  ///< of tokens lane and lane + 32
  float decay[2];  ///< e^g of this thread's rows
  float scores[kChunk / 2];
  u32 weights[kChunk / 4];
  float output[kWidth / 2];
  TJ_DEVICE Consumer(const Params& p, int which)
      : params(p), copy(which), row0(first_row()), column0(first_column()), places(p) {}
};

/// Loads the place of the item and its gates; weigh() is the first to look at them.
template <class C>
TJ_DEVICE void fetch(Consumer<C>& consumer, const Tile&, int i) {
  const Params& params = consumer.params;
  const Place place = consumer.place = consumer.places.at(params, i);
  if constexpr (C::kGates) {
    load_gates<C>(params, place, item_at<C>(params, i).head + consumer.copy, consumer.gates);
  }
}

/// See weigh_scores; and e^g of the rows.
template <class C>
TJ_DEVICE void weigh(Consumer<C>& consumer, const Tile&, int) {
  float of_row[2] = {};
  if constexpr (C::kGates) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      of_row[half] = gate_of_row(consumer.gates, consumer.row0, half);
      consumer.decay[half] = dev::exp2_approx(of_row[half] * kLog2E);
    }
  }
  weigh_scores<C>(consumer.scores, consumer.gates, of_row, consumer.row0, consumer.column0, consumer.weights);
}

/// Fades what the state before the chunk gives to each row's token.
template <class C>
TJ_DEVICE void fade(Consumer<C>& consumer, const Tile&, int) {
#pragma unroll
  for (int j = 0; j < kWidth / 2; ++j) consumer.output[j] *= consumer.decay[j / 2 % 2];
}

// ---- the result -----------------------------------------------------------------------------------------------------
/// The item's rows, scaled and rounded.
template <class C>
TJ_DEVICE void round_rows(const Consumer<C>& consumer, u32 (&words)[2][kWidth / 8]) {
  const float scale = consumer.params.scale;
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      words[half][j] = dev::pack(dev::Bf16{}, consumer.output[4 * j + 2 * half] * scale,
                                 consumer.output[4 * j + 2 * half + 1] * scale);
  }
}
/// To where store_rows brings them.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile&, int i, u32 slot) {
  const Params& params = consumer.params;
  u32 words[2][kWidth / 8];
  round_rows(consumer, words);
  store_rows(params, consumer.place, item_at<C>(params, i).head + consumer.copy, 0, words, slot);
}
/// Straight to memory, where no copy engine stores.
template <class C>
TJ_DEVICE void write_rows(Consumer<C>& consumer, const Tile&, int i) {
  const Params& params = consumer.params;
  u32 words[2][kWidth / 8];
  round_rows(consumer, words);
  store_rows_to_memory(params, consumer.place, item_at<C>(params, i).head + consumer.copy, 0, words);
}

}  // namespace tj::ops::chunk_o
