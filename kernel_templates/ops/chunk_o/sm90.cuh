// Output of the gated delta rule's chunks on warpgroup matrix instructions: the bodies of the graph's nodes that
// compute.
//
// Decides what one node computes for one item of work (items.cuh), a consumer for each of its value heads.
// Order, waits, slots and roles come from the emitted unit.
//   o = scale * (e^g (q h^T) + p v), p = (q k^T) e^(g of the row - g of the column) up to the diagonal
// Invariant: a body touches registers of its own context and the slots that it is given, and no row of o but those of
// its tokens.
#pragma once

#include "fragments.cuh"
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

/// scores = q k^T: kChunk x kChunk.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 tokens) {
  dev::hold(consumer.scores);
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes),
            right = dev::operand_advance(left, 2 * kChunkBlockBytes);
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
#pragma unroll
  for (int block = 0; block < kWidth / kSwizzleColumns; ++block)
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kStepBytes, kStepBytes, 0>>(
        dev::Bf16{}, consumer.scores, dev::operand_advance(left, block * kChunkBlockBytes),
        dev::operand_advance(right, block * kChunkBlockBytes), block != 0);
}
template <class C>
TJ_DEVICE void qk_done(Consumer<C>& consumer) {
  dev::hold(consumer.scores);
}

/// output = q h^T: kChunk x kWidth. h is stored with K contiguous, or with V.
template <class C>
TJ_DEVICE void qh(Consumer<C>& consumer, const Tile&, int, u32 tokens, u32 h) {
  dev::hold(consumer.output);
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
  constexpr int kRightStep = C::kStateMn ? kMatrixK * kSwizzleRowBytes : kStepBytes;
  constexpr u32 kRightBlock =
      C::kStateMn ? kSwizzleColumns * kSwizzleRowBytes : kStateBlockBytes;  // to the next kSwizzleColumns of K
  const u64 left = dev::matrix_operand(tokens, 16, kSwizzleAtomBytes),
            right = dev::matrix_operand(h, C::kStateMn ? kStateBlockBytes : 16, kSwizzleAtomBytes);
#pragma unroll
  for (int block = 0; block < kWidth / kSwizzleColumns; ++block)
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kStepBytes, kRightStep, C::kStateMn ? dev::kRightMn : 0>>(
        dev::Bf16{}, consumer.output, dev::operand_advance(left, block * kChunkBlockBytes),
        dev::operand_advance(right, block * kRightBlock), block != 0);
}
template <class C>
TJ_DEVICE void qh_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
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

/// output += weights v: kChunk x kWidth.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
  const u64 right = dev::matrix_operand(v, kChunkBlockBytes, kSwizzleAtomBytes);
  dev::matrix_multiply<dev::MatrixSteps<kChunk / kMatrixK, 0, kMatrixK * kSwizzleRowBytes, dev::kRightMn>>(
      dev::Bf16{}, consumer.output, consumer.weights, right, true);
}
template <class C>
TJ_DEVICE void pv_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
}

// ---- the result -----------------------------------------------------------------------------------------------------
/// The item's rows, to where store_rows brings them.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile&, int i, u32 slot) {
  const Params& params = consumer.params;
  u32 words[2][kWidth / 8];
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      words[half][j] = dev::pack(dev::Bf16{}, consumer.output[4 * j + 2 * half] * params.scale,
                                 consumer.output[4 * j + 2 * half + 1] * params.scale);
  }
  store_rows(params, consumer.place, item_at<C>(params, i).head + consumer.copy, 0, words, slot);
}

}  // namespace tj::ops::chunk_o
