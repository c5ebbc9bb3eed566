// Attention forward on matrix instructions of a warp: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns kRowsPerBlock query rows of one head, a warp kRowBlocks times sixteen of them. The keys and values that
// a warp loads serve all of its rows. A tile in shared memory is blocks of 64 columns, 128 bytes, swizzled, whoever
// brings it: the copy engine or threads. Invariant: a body touches registers of its own context and the slots that it
// is given, nothing else.
#pragma once

#include "ops/fmha/sm80_load.cuh"
#include "ops/fmha/store.cuh"
#include "tiles.cuh"

namespace tj::ops::fmha {

inline constexpr int kMatrix = 16;  ///< rows, columns and depth of what four matrices make

/// The queries of a warp as left operands, where they stay in registers.
template <class C, bool = C::kQueriesInRegisters>
struct Queries {};
template <class C>
struct Queries<C, true> {
  u32 queries[kDepth<C> / kMatrix][C::kRowBlocks][4];
};

/// The query rows of a role, kRowBlocks times sixteen a warp.
template <class C_>
struct Consumer : Queries<C_>, HeadNumbers<C_> {
  using C = C_;
  const Params& params;
  const int row;  ///< the warp's first in the block's tile
  Rows<C> rows[C::kRowBlocks];
  TJ_DEVICE Consumer(const Params& p, int copy)
      : params(p),
        row(copy * C::kWarps * C::kRowBlocks * kMatrix +
            static_cast<int>(dev::warp_index() % C::kWarps) * C::kRowBlocks * kMatrix) {}
};

/// The thread's first row of those sixteen.
template <class C>
TJ_DEVICE int row_of(const Consumer<C>& consumer, const Tile& tile, int block) {
  return tile.row + consumer.row + block * kMatrix + static_cast<int>(dev::lane_index() / 4u);
}

/// Iterations before this one need masking for some row of the block.
template <class C>
TJ_DEVICE int fast_begin(const Consumer<C>& consumer, const Tile& tile) {
  return unmasked_from<C>(consumer.params, tile, tile.row);
}

// ---- a warp's chain -------------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  consumer.take(consumer.params, tile);
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) clear(consumer.rows[r]);
}

/// The address that a lane names, `step` times 16 columns further on in a tile of `Count` rows. `place` is its address
/// in the first 16 rows and columns.
template <int Count>
TJ_DEVICE u32 columns_on(u32 place, int step) {
  return dev::pieces_on(place, static_cast<u32>(step % 4) * 2) + static_cast<u32>(step / 4) * (Count * kRowBytes);
}
inline constexpr u32 kMatrixRowBytes = kMatrix * kRowBytes;  ///< sixteen rows further on

/// The lane's place in the queries of its warp's first sixteen rows.
template <class C>
TJ_DEVICE u32 query_place(const Consumer<C>& consumer, u32 q) {
  return q + static_cast<u32>(consumer.row) * kRowBytes + dev::down_place();
}
/// Left operands of the warp's rows.
template <class C>
TJ_DEVICE void load_queries(u32 place, int step, u32 (&left)[C::kRowBlocks][4]) {
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r)
    dev::load_matrices(columns_on<C::kRowsPerBlock>(place, step) + r * kMatrixRowBytes, left[r]);
}
/// scores += left keys^T over 16 columns of the head dim.
template <class C>
TJ_DEVICE void add_scores(Consumer<C>& consumer, const u32 (&left)[C::kRowBlocks][4], u32 place, int step) {
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
    u32 right[4];
    dev::load_matrices(columns_on<C::kBlockN>(place, step) + n * kMatrixRowBytes, right);
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r)
      dev::multiply_16(typename C::Element{}, &consumer.rows[r].scores[8 * n], left[r], right);
  }
}
template <class C>
TJ_DEVICE void clear_scores(Consumer<C>& consumer) {
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
#pragma unroll
    for (int j = 0; j < C::kBlockN / 2; ++j) consumer.rows[r].scores[j] = 0.0f;
  }
}

/// Moves the queries to registers, where they are for the whole tile.
template <class C>
TJ_DEVICE void take_q(Consumer<C>& consumer, const Tile&, u32 q) {
#pragma unroll
  for (int step = 0; step < kDepth<C> / kMatrix; ++step)
    load_queries<C>(query_place(consumer, q), step, consumer.queries[step]);
}
/// scores = q k^T.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 k) {
  const u32 keys = k + dev::across_place();
  clear_scores(consumer);
#pragma unroll
  for (int step = 0; step < kDepth<C> / kMatrix; ++step) add_scores(consumer, consumer.queries[step], keys, step);
}
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 q, u32 k) {
  const u32 keys = k + dev::across_place(), queries = query_place(consumer, q);
  clear_scores(consumer);
#pragma unroll
  for (int step = 0; step < kDepth<C> / kMatrix; ++step) {
    u32 left[C::kRowBlocks][4];
    load_queries<C>(queries, step, left);
    add_scores(consumer, left, keys, step);
  }
}

/// Masks, moves the references and corrects what was gathered with those before.
template <class Powers, class C, class Variant>
TJ_DEVICE void row_max_by(Consumer<C>& consumer, const Tile& tile, int i, Variant variant) {
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r)
    move_reference<Powers>(consumer.rows[r], static_cast<const HeadNumbers<C>&>(consumer), consumer.params, tile, i,
                           row_of(consumer, tile, r), variant);
  bool any = false;
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) any = any || corrects(consumer.rows[r].correction);
  if (!dev::any_in_warp(any)) return;
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r) {
    Rows<C>& rows = consumer.rows[r];
    rows.row_sum[0] *= rows.correction[0];
    rows.row_sum[1] *= rows.correction[1];
    correct_output(rows);
  }
}

template <class C, class Variant>
TJ_DEVICE void row_max(Consumer<C>& consumer, const Tile& tile, int i, Variant variant) {
  row_max_by<PowersOfTwo>(consumer, tile, i, variant);
}
template <class C>
TJ_DEVICE void row_max(Consumer<C>& consumer, const Tile& tile, int i) {
  row_max(consumer, tile, i, dev::General{});
}

/// The weights of sixteen keys as a left operand, and their sums.
template <class Powers, class C>
TJ_DEVICE void weigh(Rows<C>& rows, const Params& params, int n, u32 (&left)[4]) {
  const float* scores = &rows.scores[8 * n];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float reference = finite_reference(rows.row_max[half]), offset = -reference * params.scale_log2;
    float weights[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      weights[e] = Powers::template weight<C>(params, scores[4 * (e / 2) + 2 * half + e % 2], reference, offset);
    rows.row_sum[half] += (weights[0] + weights[1]) + (weights[2] + weights[3]);
    left[half] = dev::pack(typename C::Element{}, weights[0], weights[1]);
    left[2 + half] = dev::pack(typename C::Element{}, weights[2], weights[3]);
  }
}

/// output += weights v: the exponentials of sixteen keys and the products with those before them have nothing to wait
/// for each other.
template <class Powers, class C>
TJ_DEVICE void pv_by(Consumer<C>& consumer, u32 v) {
  const u32 values = v + dev::down_place();
#pragma unroll
  for (int n = 0; n < C::kBlockN / kMatrix; ++n) {
    u32 left[C::kRowBlocks][4];
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) weigh<Powers>(consumer.rows[r], consumer.params, n, left[r]);
#pragma unroll
    for (int d = 0; d < kOutputs<C> / kMatrix; ++d) {
      u32 right[4];
      dev::load_matrices_transposed(columns_on<C::kBlockN>(values, d) + n * kMatrixRowBytes, right);
#pragma unroll
      for (int r = 0; r < C::kRowBlocks; ++r)
        dev::multiply_16(typename C::Element{}, &consumer.rows[r].output[8 * d], left[r], right);
    }
  }
}

template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  pv_by<PowersOfTwo>(consumer, v);
}

template <class Division, class C>
TJ_DEVICE void store_by(Consumer<C>& consumer, const Tile& tile) {
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r)
    store<Division>(consumer.rows[r], consumer.params, tile, row_of(consumer, tile, r));
}
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  store_by<ByReciprocal>(consumer, tile);
}

}  // namespace tj::ops::fmha
