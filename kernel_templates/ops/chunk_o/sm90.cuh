// Output of the gated delta rule's chunks on warpgroup matrix instructions: the graph's products. consumer.cuh has
// what comes between them.
//
// Decides how a product is asked for. Order, waits, slots and roles come from the emitted unit. Invariant: a body
// touches registers of its own context and the slots that it is given.
#pragma once

#include "ops/chunk_o/consumer.cuh"
#include "ops/chunk_o/load.cuh"

namespace tj::ops::chunk_o {

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

}  // namespace tj::ops::chunk_o
