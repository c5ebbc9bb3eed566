// Attention forward on warpgroup matrix instructions: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns kRowsPerBlock query rows of one head, kRowsPerConsumer for each consumer.
// Invariant: a body touches registers of its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/fmha/load.cuh"
#include "ops/fmha/store.cuh"
#include "tiles.cuh"

namespace tj::ops::fmha {

inline constexpr int kMatrixK = 16;

/// The 64 query rows of a warpgroup, sixteen a warp.
template <class C_>
struct Consumer : Rows<C_>, HeadNumbers<C_> {
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

/// Iterations before this one need masking for some row of the consumer. Its loops of products end there. Lengths from
/// memory are the same in all threads, which the compiler cannot know: ptxas would serialise those products (C7520).
template <class C>
TJ_DEVICE int fast_begin(const Consumer<C>& consumer, const Tile& tile) {
  const int row = tile.row + consumer.copy * kRowsPerConsumer;
  int first;
  if constexpr (KeyRange<C>::kOn)
    first = seen_by_all<C>(consumer.params, tile, row, row + kRowsPerConsumer - 1).first;
  else
    first = unmasked_from<C>(consumer.params, tile, row);
  return Varlen<C>::kOn || KeyRange<C>::kOn ? dev::uniform(first) : first;
}
/// Iterations from this one on mask again, where a text bounds keys.
template <class C>
TJ_DEVICE int fast_end(const Consumer<C>& consumer, const Tile& tile) {
  const int row = tile.row + consumer.copy * kRowsPerConsumer;
  return dev::uniform(seen_by_all<C>(consumer.params, tile, row, row + kRowsPerConsumer - 1).end);
}

// ---- one consumer's chain -------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile& tile) {
  clear(consumer);
  consumer.take(consumer.params, tile);
}

/// scores = q k^T: 64 x kBlockN.
template <class C>
TJ_DEVICE void qk(Consumer<C>& consumer, const Tile&, int, u32 q, u32 k) {
  dev::hold(consumer.scores);
  const u64 left = dev::matrix_operand(q + consumer.copy * kRowsPerConsumer * kSwizzleRowBytes, 16, kSwizzleAtomBytes);
  const u64 right = dev::matrix_operand(k, 16, kSwizzleAtomBytes);
  constexpr int kSteps = kSwizzleColumns / kMatrixK, kStepBytes = kMatrixK * 2;
#pragma unroll
  for (int block = 0; block < kDepth<C> / kSwizzleColumns; ++block) {
    dev::matrix_multiply<dev::MatrixSteps<kSteps, kStepBytes, kStepBytes, 0>>(
        typename C::Element{}, consumer.scores, dev::operand_advance(left, block * C::kRowsPerBlock * kSwizzleRowBytes),
        dev::operand_advance(right, block * C::kBlockN * kSwizzleRowBytes), block != 0);
  }
  if constexpr (kDepth<C> % kSwizzleColumns != 0) {  // what is left of the last block
    constexpr int kBlock = kDepth<C> / kSwizzleColumns, kLeft = kDepth<C> % kSwizzleColumns / kMatrixK;
    dev::matrix_multiply<dev::MatrixSteps<kLeft, kStepBytes, kStepBytes, 0>>(
        typename C::Element{}, consumer.scores,
        dev::operand_advance(left, kBlock * C::kRowsPerBlock * kSwizzleRowBytes),
        dev::operand_advance(right, kBlock * C::kBlockN * kSwizzleRowBytes), kBlock != 0);
  }
}
template <class C>
TJ_DEVICE void qk_done(Consumer<C>& consumer) {
  dev::hold(consumer.scores);
}

template <class C, class Variant>
TJ_DEVICE void softmax(Consumer<C>& consumer, const Tile& tile, int i, Variant variant) {
  softmax(consumer, consumer, consumer.params, tile, i, row_of(consumer, tile), variant);
}
template <class C>
TJ_DEVICE void softmax(Consumer<C>& consumer, const Tile& tile, int i) {
  softmax(consumer, tile, i, dev::General{});
}
template <class C>
TJ_DEVICE void rescale(Consumer<C>& consumer, const Tile&, int) {
  rescale(consumer);
}

/// output += weights v: 64 x kOutputs.
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

// ---- the end of a tile ----------------------------------------------------------------------------------------------
/// The rows that a consumer leaves in a slot: blocks of kSwizzleColumns columns, each with all rows, as the copy engine
/// wants them, with zeros behind the last column. A warp stores 16 columns of its sixteen rows at a time.
template <class C>
TJ_DEVICE void leave_rows(const Consumer<C>& consumer, u32 slot) {
  const int lane = static_cast<int>(dev::lane_index()), row = static_cast<int>(dev::warp_index() & 3u) * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < stored_columns(kValueDim<C>) / 8; j += 2) {
    u32 words[4] = {};  // of both halves of the rows, for the first 8 columns, then for the others
#pragma unroll
    for (int w = 0; w < 4 && j < kOutputs<C> / 8; ++w) {
      const float* pair = &consumer.output[4 * (j + w / 2) + 2 * (w % 2)];
      words[w] = dev::pack(typename C::Element{}, pair[0], pair[1]);
    }
    const int chunk = j + lane / 16;
    const u32 block = slot + static_cast<u32>(chunk / 8 * kRowsPerConsumer) * kSwizzleRowBytes;
    dev::store_matrices(dev::piece_address(block, static_cast<u32>(row), static_cast<u32>(chunk % 8)),
                        {words[0], words[1], words[2], words[3]});
  }
}

/// A warp's rows from where leave_rows() has them to an o that the copy engine cannot store. `first_row` is the warp's.
/// The loop is not unrolled, which keeps the kernel's text short.
template <class C>
TJ_DEVICE void copy_out(const Params& params, const Tile& tile, u32 slot, int first_row) {
  static_assert(!WideOutput<C>::kOn && !Packed<C>::kOn, "rows that are staged are whole and of 16-bit elements");
  constexpr int kWords = kValueDim<C> / 2;
  const int of_warp = static_cast<int>(dev::warp_index() & 3u) * 16;
  dev::warp_sync();
#pragma unroll 1
  for (int i = static_cast<int>(dev::lane_index()); i < 16 * kWords; i += 32) {
    const int row = i / kWords, column = i % kWords * 2, chunk = column / 8;
    if (!row_place<C>(params, tile, first_row + row).inside) return;
    const u32 block = slot + static_cast<u32>(chunk / 8 * kRowsPerConsumer) * kSwizzleRowBytes;
    const u32 piece = dev::piece_address(block, static_cast<u32>(of_warp + row), static_cast<u32>(chunk % 8));
    const u32 pair = dev::load_shared<u32>(piece + static_cast<u32>(column % 8) * 2u);
    unsigned short* const to = output_row<C>(params, tile, first_row + row) + column;
    dev::store_global_u16(to, pair & 0xffffu);
    dev::store_global_u16(to + 1, pair >> 16);
  }
}

/// Normalises, stores the log-sum-exp, and leaves the consumer's rows of o for put_box(). Where the copy engine cannot
/// store them, they go on to memory from there.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile& tile, u32 slot) {
  const Params& params = consumer.params;
  const int first_row = row_of(consumer, tile);
  const Sink<C> sink(params, tile);
  const float sums[2] = {sink.added(params, consumer.row_max[0], whole_sum(consumer, 0)),
                         sink.added(params, consumer.row_max[1], whole_sum(consumer, 1))};
  const RowEnd<ByReciprocal> ends[2] = {RowEnd<ByReciprocal>(sums[0]), RowEnd<ByReciprocal>(sums[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half) normalise(consumer, half, ends[half]);
  leave_rows(consumer, slot);
  if (params.wide_stores == 0) copy_out<C>(params, tile, slot, first_row - static_cast<int>(dev::lane_index() / 4u));
#pragma unroll
  for (int half = 0; half < 2; ++half)
    store_lse_of(consumer, half, ends[half], sink, sums[half], params, tile, first_row + half * 8);
}

/// Where shared memory has no room for rows of o: they go to memory from the consumer's registers.
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile& tile) {
  store<ByReciprocal, C>(consumer, consumer.params, tile, row_of(consumer, tile));
}

/// Brings to o what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  const int copy;  ///< the consumer's
  TJ_DEVICE Writer(const Params& p, int which) : params(p), copy(which) { dev::prefetch_map(&p.o_boxes); }
};

template <class C>
TJ_DEVICE void put_box(Writer<C>& writer, const Tile& tile, u32 slot) {
  const Params& params = writer.params;
  if (params.wide_stores == 0) return;
  const int row = tile.row + writer.copy * kRowsPerConsumer;
  const BoxPlace box = box_place<C, kRowsPerConsumer>(queries_begin<C>(tile), row,
                                                      mask_of<C>(params, tile).queries - row, tile.head, tile.batch);
#pragma unroll
  for (int d = 0; d < kValueDim<C>; d += kSwizzleColumns) {
    const u32 from = slot + d / kSwizzleColumns * kRowsPerConsumer * kSwizzleRowBytes;
    if constexpr (Varlen<C>::kOn)
      dev::store_box_5d(&params.o_boxes, from, d, box.row, box.next, kEndRows, box.last);
    else
      dev::store_box_4d(&params.o_boxes, from, d, box.row, box.next, box.last);
  }
}

}  // namespace tj::ops::fmha
