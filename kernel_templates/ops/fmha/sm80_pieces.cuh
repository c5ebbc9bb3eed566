// Weights and products with values as node bodies of their own, a pair for each piece of an iteration's keys: what pv()
// of sm80.cuh does in one loop.
//
// Decides what one piece computes. Which comes before which is the schedule's. Invariant: each body does for its keys
// what pv() does, with operands and sums in the same order, so that all orders of the pieces give the same bits.
#pragma once

#include "ops/fmha/sm80.cuh"

namespace tj::ops::fmha {

/// A piece, in blocks of sixteen keys.
template <int Piece, class C>
struct PieceBlocks {
  static constexpr int kFirst = Piece * C::kPieceKeys / kMatrix, kAll = C::kBlockN / kMatrix,
                       kBehind = kFirst + C::kPieceKeys / kMatrix, kEnd = kBehind < kAll ? kBehind : kAll;
};

/// The weights of a piece, as left operands, and their sums.
template <int Piece, class C>
TJ_DEVICE void weigh_piece(Consumer<C>& consumer) {
  using Blocks = PieceBlocks<Piece, C>;
#pragma unroll
  for (int n = Blocks::kFirst; n < Blocks::kEnd; ++n) {
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) {
      u32 left[4];
      weigh<PowersOfTwo>(consumer.rows[r], consumer.params, n, left);
#pragma unroll
      for (int word = 0; word < 4; ++word) consumer.rows[r].weights[4 * n + word] = left[word];
    }
  }
}

/// output += weights v, over the keys of a piece.
template <int Piece, class C>
TJ_DEVICE void pv_piece(Consumer<C>& consumer, u32 v) {
  using Blocks = PieceBlocks<Piece, C>;
  const u32 values = v + dev::down_place();
#pragma unroll
  for (int n = Blocks::kFirst; n < Blocks::kEnd; ++n) {
#pragma unroll
    for (int d = 0; d < kOutputs<C> / kMatrix; ++d) {
      u32 right[4];
      dev::load_matrices_transposed(columns_on<C::kBlockN>(values, d) + n * kMatrixRowBytes, right);
#pragma unroll
      for (int r = 0; r < C::kRowBlocks; ++r) {
        const u32* const weights = &consumer.rows[r].weights[4 * n];
        const u32 left[4] = {weights[0], weights[1], weights[2], weights[3]};
        dev::multiply_16(typename C::Element{}, &consumer.rows[r].output[8 * d], left, right);
      }
    }
  }
}

#define TJ_PIECE(piece)                                                       \
  template <class C>                                                          \
  TJ_DEVICE void weigh_##piece(Consumer<C>& consumer, const Tile&, int) {     \
    weigh_piece<piece>(consumer);                                             \
  }                                                                           \
  template <class C>                                                          \
  TJ_DEVICE void pv_##piece(Consumer<C>& consumer, const Tile&, int, u32 v) { \
    pv_piece<piece>(consumer, v);                                             \
  }
TJ_PIECE(0)
TJ_PIECE(1)
TJ_PIECE(2)
TJ_PIECE(3)
TJ_PIECE(4)
#undef TJ_PIECE

}  // namespace tj::ops::fmha
