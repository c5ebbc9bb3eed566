// Output of the gated delta rule's chunks on matrix instructions of a warp: the graph's products. consumer.cuh has what
// comes between them, sm80_load.cuh who copies.
//
// Decides which operands a warp loads from shared memory, and when. Order, waits, slots and roles come from the emitted
// unit. A warp has sixteen rows of the chunk. Invariant: a body touches registers of its own context and the slots that
// it is given.
#pragma once

#include "ops/chunk_o/consumer.cuh"
#include "ops/chunk_o/sm80_load.cuh"
#include "tiles.cuh"

namespace tj::ops::chunk_o {

/// A row's 16 bytes in a tile whose blocks of kSwizzleColumns lie one behind the other.
TJ_DEVICE u32 piece_of(u32 tile, u32 block_bytes, u32 row, u32 piece) {
  return dev::piece_address(tile + piece / 8 * block_bytes, row, piece % 8);
}
/// The left operand of this warp's tokens, from q.
TJ_DEVICE void take_tokens(u32 q, u32 step, u32 (&left)[4]) {
  const u32 first = (dev::warp_index() & 3u) * 16u;
  dev::load_matrices(piece_of(q, kChunkBlockBytes, first + dev::down_row(), 2 * step + dev::down_piece()), left);
}
/// Two right operands: sixteen columns from 16n on, of K from 16 step on. Rows of the tile are columns, or K itself.
TJ_DEVICE void take_columns(u32 tile, u32 block_bytes, u32 n, u32 step, u32 (&right)[4]) {
  dev::load_matrices(piece_of(tile, block_bytes, 16 * n + dev::across_row(), 2 * step + dev::across_piece()), right);
}
TJ_DEVICE void take_rows(u32 tile, u32 block_bytes, u32 n, u32 step, u32 (&right)[4]) {
  dev::load_matrices_transposed(piece_of(tile, block_bytes, 16 * step + dev::down_row(), 2 * n + dev::down_piece()),
                                right);
}

/// scores = q k^T: kChunk x kChunk.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 tokens) {
#pragma unroll
  for (int j = 0; j < kChunk / 2; ++j) consumer.scores[j] = 0.0f;
#pragma unroll
  for (u32 step = 0; step < kWidth / kMatrixK; ++step) {
    u32 left[4];
    take_tokens(tokens, step, left);
#pragma unroll
    for (u32 n = 0; n < kChunk / 16; ++n) {
      u32 right[4];
      take_columns(tokens + 2 * kChunkBlockBytes, kChunkBlockBytes, n, step, right);
      dev::multiply_16(dev::Bf16{}, &consumer.scores[8 * n], left, right);
    }
  }
}

/// output = q h^T: kChunk x kWidth. h is stored with K contiguous, or with V.
template <class C>
TJ_DEVICE void qh(Consumer<C>& consumer, const Tile&, int, u32 tokens, u32 h) {
#pragma unroll
  for (int j = 0; j < kWidth / 2; ++j) consumer.output[j] = 0.0f;
#pragma unroll
  for (u32 step = 0; step < kWidth / kMatrixK; ++step) {
    u32 left[4];
    take_tokens(tokens, step, left);
#pragma unroll
    for (u32 n = 0; n < kWidth / 16; ++n) {
      u32 right[4];
      if constexpr (C::kStateMn)
        take_rows(h, kStateBlockBytes, n, step, right);
      else
        take_columns(h, kStateBlockBytes, n, step, right);
      dev::multiply_16(dev::Bf16{}, &consumer.output[8 * n], left, right);
    }
  }
}

/// output += weights v: kChunk x kWidth.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
#pragma unroll
  for (u32 step = 0; step < kChunk / kMatrixK; ++step) {
    const u32 left[4] = {consumer.weights[4 * step], consumer.weights[4 * step + 1], consumer.weights[4 * step + 2],
                         consumer.weights[4 * step + 3]};
#pragma unroll
    for (u32 n = 0; n < kWidth / 16; ++n) {
      u32 right[4];
      take_rows(v, kChunkBlockBytes, n, step, right);
      dev::multiply_16(dev::Bf16{}, &consumer.output[8 * n], left, right);
    }
  }
}

}  // namespace tj::ops::chunk_o
