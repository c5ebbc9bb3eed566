// Output of the gated delta rule's chunks on matrix instructions of a warp: the bodies of the graph's nodes that
// compute.
//
// Decides what one node computes for one item of work (items.cuh), which has one value head. Order, waits, slots and
// roles come from the emitted unit.
//   o = scale * (e^g (q h^T) + p v), p = (q k^T) e^(g of the row - g of the column) up to the diagonal
// Invariant: a body touches registers of its own context and the slots that it is given, and no row of o but those of
// its tokens.
#pragma once

#include "ops/chunk_o/load.cuh"
#include "ops/chunk_o/rows.cuh"
#include "tiles.cuh"

namespace tj::ops::chunk_o {

/// A thread holds rows row0 and row0 + 8, columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int row0, column0;
  Places<C> places;
  Place place;     ///< of this item
  float gates[2];  ///< of tokens lane and lane + 32
  float decay[2];  ///< e^g of this thread's rows
  float scores[kChunk / 2];
  u32 weights[kChunk / 4];
  float output[kWidth / 2];
  TJ_DEVICE Consumer(const Params& p, int) : params(p), row0(first_row()), column0(first_column()), places(p) {}
};

/// Place of the item, and its gates: asked for here, looked at by weigh().
template <class C>
TJ_DEVICE void fetch(Consumer<C>& consumer, const Tile&, int i) {
  const Params& params = consumer.params;
  const Place place = consumer.place = consumer.places.at(params, i);
  if constexpr (C::kGates) load_gates<C>(params, place, item_at<C>(params, i).head, consumer.gates);
}

/// A row's 16 bytes in a tile whose blocks of kSwizzleColumns lie one behind the other.
TJ_DEVICE u32 piece_of(u32 tile, u32 block_bytes, u32 row, u32 piece) {
  return dev::piece_address(tile + piece / 8 * block_bytes, row, piece % 8);
}
/// The left operand of this warp's tokens, from q.
TJ_DEVICE void load_tokens(u32 q, u32 step, u32 (&left)[4]) {
  const u32 first = (dev::warp_index() & 3u) * 16u;
  dev::load_matrices(piece_of(q, kChunkBlockBytes, first + dev::down_row(), 2 * step + dev::down_piece()), left);
}
/// Two right operands: sixteen columns from 16n on, of K from 16 step on. Rows of the tile are columns, or K itself.
TJ_DEVICE void load_columns(u32 tile, u32 block_bytes, u32 n, u32 step, u32 (&right)[4]) {
  dev::load_matrices(piece_of(tile, block_bytes, 16 * n + dev::across_row(), 2 * step + dev::across_piece()), right);
}
TJ_DEVICE void load_rows(u32 tile, u32 block_bytes, u32 n, u32 step, u32 (&right)[4]) {
  dev::load_matrices_transposed(piece_of(tile, block_bytes, 16 * step + dev::down_row(), 2 * n + dev::down_piece()),
                                right);
}

/// scores = q k^T.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 tokens) {
#pragma unroll
  for (int j = 0; j < kChunk / 2; ++j) consumer.scores[j] = 0.0f;
#pragma unroll
  for (u32 step = 0; step < kWidth / kMatrixK; ++step) {
    u32 left[4];
    load_tokens(tokens, step, left);
#pragma unroll
    for (u32 n = 0; n < kChunk / 16; ++n) {
      u32 right[4];
      load_columns(tokens + 2 * kChunkBlockBytes, kChunkBlockBytes, n, step, right);
      dev::multiply_16(dev::Bf16{}, &consumer.scores[8 * n], left, right);
    }
  }
}

/// output = q h^T. h is stored with K contiguous, or with V.
template <class C>
TJ_DEVICE void qh(Consumer<C>& consumer, const Tile&, int, u32 tokens, u32 h) {
#pragma unroll
  for (int j = 0; j < kWidth / 2; ++j) consumer.output[j] = 0.0f;
#pragma unroll
  for (u32 step = 0; step < kWidth / kMatrixK; ++step) {
    u32 left[4];
    load_tokens(tokens, step, left);
#pragma unroll
    for (u32 n = 0; n < kWidth / 16; ++n) {
      u32 right[4];
      if constexpr (C::kStateMn)
        load_rows(h, kStateBlockBytes, n, step, right);
      else
        load_columns(h, kStateBlockBytes, n, step, right);
      dev::multiply_16(dev::Bf16{}, &consumer.output[8 * n], left, right);
    }
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

/// output = faded output + weights v.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  if constexpr (C::kGates) {
#pragma unroll
    for (int j = 0; j < kWidth / 2; ++j) consumer.output[j] *= consumer.decay[j / 2 % 2];
  }
#pragma unroll
  for (u32 step = 0; step < kChunk / kMatrixK; ++step) {
    const u32 left[4] = {consumer.weights[4 * step], consumer.weights[4 * step + 1], consumer.weights[4 * step + 2],
                         consumer.weights[4 * step + 3]};
#pragma unroll
    for (u32 n = 0; n < kWidth / 16; ++n) {
      u32 right[4];
      load_rows(v, kChunkBlockBytes, n, step, right);
      dev::multiply_16(dev::Bf16{}, &consumer.output[8 * n], left, right);
    }
  }
}

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
  store_rows(params, consumer.place, item_at<C>(params, i).head, 0, words, slot);
}

}  // namespace tj::ops::chunk_o
