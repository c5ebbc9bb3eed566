// Attention forward on warpgroup matrix instructions: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns kRowsPerBlock query rows of one head, kRowsPerConsumer for each consumer.
// Invariant: a body touches registers of its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/fmha/load.cuh"
#include "ops/fmha/store.cuh"

namespace tj::ops::fmha {

inline constexpr int kMatrixK = 16;

/// The 64 query rows of a warpgroup, sixteen a warp.
template <class C_>
struct Consumer : Rows<C_> {
  using C = C_;
  const Params& params;
  const int copy;  ///< which 64 rows of the block's tile
  TJ_DEVICE Consumer(const Params& p, int which) : params(p), copy(which) {}
};

/// The thread's first row.
template <class C>
TJ_DEVICE int row_of(const Consumer<C>& consumer, const Tile& tile) {
  return tile.row + consumer.copy * kRowsPerConsumer +
         static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u);
}

/// Iterations before this one need masking for some row of the consumer.
template <class C>
TJ_DEVICE int fast_begin(const Consumer<C>& consumer, const Tile& tile) {
  return unmasked_from<C>(consumer.params, tile, tile.row + consumer.copy * kRowsPerConsumer);
}

// ---- one consumer's chain -------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
  clear(consumer);
}

/// scores = q k^T: 64 x kBlockN.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 q, u32 k) {
  dev::hold(consumer.scores);
  const u64 left = dev::matrix_operand(q + consumer.copy * kRowsPerConsumer * kSwizzleRowBytes, 16, kSwizzleAtomBytes);
  const u64 right = dev::matrix_operand(k, 16, kSwizzleAtomBytes);
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
#pragma unroll
  for (int block = 0; block < C::kHeadDim / kSwizzleColumns; ++block) {
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kStepBytes, kStepBytes, 0>>(
        typename C::Element{}, consumer.scores, dev::operand_advance(left, block * C::kRowsPerBlock * kSwizzleRowBytes),
        dev::operand_advance(right, block * C::kBlockN * kSwizzleRowBytes), block != 0);
  }
}
template <class C>
TJ_DEVICE void qk_done(Consumer<C>& consumer) {
  dev::hold(consumer.scores);
}

template <class C, class Variant>
TJ_DEVICE void softmax(Consumer<C>& consumer, const Tile& tile, int i, Variant variant) {
  softmax(consumer, consumer.params, tile, i, row_of(consumer, tile), variant);
}
template <class C>
TJ_DEVICE void rescale(Consumer<C>& consumer, const Tile&, int) {
  rescale(consumer);
}

/// output += weights v: 64 x kHeadDim.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
  const u64 right = dev::matrix_operand(v, C::kBlockN * kSwizzleRowBytes, kSwizzleAtomBytes);
  dev::matrix_multiply<
      dev::MatrixSteps<C::kBlockN / kMatrixK, 0, kMatrixK* static_cast<int>(kSwizzleRowBytes), dev::kRightMn>>(
      typename C::Element{}, consumer.output, consumer.weights, right, true);
}
template <class C>
TJ_DEVICE void pv_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
}

template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  store(consumer, consumer.params, tile, row_of(consumer, tile));
}

}  // namespace tj::ops::fmha
