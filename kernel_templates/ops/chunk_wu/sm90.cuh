// Products of a chunk's solved matrix with keys and values on warpgroup matrix instructions: the bodies of the graph's
// nodes.
//
// Decides what one node does for an item: a chunk and a head. Consumer 0 makes w of keys, consumer 1 u of values:
//   w = (A beta e^g) k, u = (A beta) v
// A is taken times its columns' weights in f32, and goes into products as two terms of the elements' type: in bf16 that
// leaves 16 bits of each number. So nothing but w and u is rounded to 16 bits.
// Invariant: nothing outside of a sequence's tokens is written, whatever lists say; elements of A above the diagonal
// count as zeros.
#pragma once

#include "ops/chunk_wu/params.cuh"
#include "ops/delta_chunks/blocks.cuh"
#include "ops/delta_chunks/chunks.cuh"

namespace tj::ops::chunk_wu {

using chunks::Place;
using delta_chunks::group_warp;
using delta_chunks::kBlockBytes;
using delta_chunks::kChunk;
using delta_chunks::kMatrixK;
using delta_chunks::kSwizzleAtomBytes;
using delta_chunks::kSwizzleColumns;
using delta_chunks::kSwizzleRowBytes;
using dev::u32;
using dev::u64;

/// The work of a block: items, the grid's size apart.
struct Tile {
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile first_tile(const MatrixParams& params) {
  const int blocks = static_cast<int>(dev::grid_blocks()), block = static_cast<int>(dev::block_index());
  return {true, block < params.items ? (params.items - block + blocks - 1) / blocks : 0};
}
template <class C>
TJ_DEVICE Tile next_tile(const MatrixParams&, Tile tile) {
  tile.valid = false;
  return tile;
}

/// The i-th item of this block. Heads count fastest: blocks that run together read neighbouring heads of the same
/// tokens. A slot without a chunk has no rows: zeros are read, and nothing is written.
struct Item {
  Place place;
  int head;
};
TJ_DEVICE Item item_at(const MatrixParams& params, int i) {
  const int index = static_cast<int>(dev::block_index()) + i * static_cast<int>(dev::grid_blocks()),
            slot = divided(index, params.by_heads);
  return {chunks::place_of_slot(params.sequences, slot), index - slot * params.heads};
}
inline constexpr u32 kWeightBytes = kChunk * 4;  ///< of an item's tokens, for a consumer
TJ_DEVICE bool listed(const MatrixParams& params) { return params.sequences.ends != nullptr; }

template <class C_>
struct Loader {
  using C = C_;
  const MatrixParams& params;
  TJ_DEVICE Loader(const MatrixParams& p, int) : params(p) {
    dev::prefetch_map(&p.a);
    dev::prefetch_map(&p.k);
    dev::prefetch_map(&p.v);
  }
};
/// A chunk's slot: rows of A, of k, of v. Those behind a sequence's end are zeros.
template <class C>
struct Slot {
  static constexpr u32 kTokenBytes = C::kHeadDim / kSwizzleColumns * kBlockBytes, kRows = kBlockBytes;
};
template <class C>
TJ_DEVICE void load_chunk(Loader<C>& loader, const Tile&, int i, u32 slot, u32 full) {
  const MatrixParams& params = loader.params;
  const Item item = item_at(params, i);
  const bool in_list = listed(params);
  const auto copy = [&](const TensorMap* map, int head, int columns, u32 to) {
    delta_chunks::copy_rows(in_list, map, item.place, head, 0, columns, slot + to, full);
  };
  copy(&params.a, item.head, kChunk, 0);
  copy(&params.k, divided(item.head, params.by_k), C::kHeadDim, Slot<C>::kRows);
  copy(&params.v, divided(item.head, params.by_v), C::kHeadDim, Slot<C>::kRows + Slot<C>::kTokenBytes);
}

/// A warp that makes weights of what lies in memory: a lane has tokens lane and lane + 32.
template <class C_>
struct Teller {
  using C = C_;
  const MatrixParams& params;
  int rows;       ///< tokens of the item
  u32 beta[2];    ///< as they lie in memory
  float sums[2];  ///< of gates
  TJ_DEVICE Teller(const MatrixParams& p, int) : params(p) {}
};
/// Numbers are asked for, and looked at later: memory answers after a thousand cycles.
template <class C>
TJ_DEVICE void ask_numbers(Teller<C>& teller, const Tile&, int i) {
  const MatrixParams& params = teller.params;
  const Item item = item_at(params, i);
  teller.rows = item.place.rows;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = item.place.token + min(static_cast<int>(dev::lane_index()) + 32 * half, item.place.rows - 1);
    const gated_delta_rule::Position at{item.place.batch, max(0, token), item.head};  // of no token: of one before it
    teller.beta[half] = 0;
    teller.sums[half] = 0.0f;
    if (params.beta.data != nullptr)
      teller.beta[half] =
          gated_delta_rule::load_number(gated_delta_rule::number_of_token(params.beta, at), params.half_beta != 0);
    if (params.sums.data != nullptr)
      teller.sums[half] =
          dev::load_global(reinterpret_cast<const float*>(gated_delta_rule::number_of_token(params.sums, at)));
  }
}
/// The place of a consumer's weights, and in them that of a token's. A lane's tokens of sixteen columns lie in 16
/// bytes.
TJ_DEVICE u32 weight_place(u32 weights, int consumer, int token) {
  return weights + static_cast<u32>(consumer) * kWeightBytes + static_cast<u32>(delta_chunks::number_place(token));
}
/// The weight of a token's key, beta e^g, and that of its value, beta; 0 behind the chunk's end.
template <class C>
TJ_DEVICE void put_weights(Teller<C>& teller, const Tile&, int, u32 weights) {
  const MatrixParams& params = teller.params;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = static_cast<int>(dev::lane_index()) + 32 * half;
    float beta = 1.0f;
    if (params.beta.data != nullptr)
      beta = gated_delta_rule::value_of(typename C::Element{}, teller.beta[half], params.half_beta != 0);
    beta = token < teller.rows ? beta : 0.0f;
    dev::store_shared(weight_place(weights, 0, token),
                      token < teller.rows ? beta * gated_delta_rule::exponential(teller.sums[half]) : 0.0f);
    dev::store_shared(weight_place(weights, 1, token), beta);
  }
}

/// A warpgroup. Of a product it has 64 tokens; a thread has rows lane / 4 and lane / 4 + 8 of its warp's sixteen.
template <class C_>
struct Consumer {
  using C = C_;
  const MatrixParams& params;
  const int copy;        ///< 0: w of keys; 1: u of values
  u32 high[kChunk / 4];  ///< A times its columns' weights, as products take it
  u32 low[kChunk / 4];   ///< what that loses
  float products[C_::kHeadDim / 2];
  TJ_DEVICE Consumer(const MatrixParams& p, int which) : params(p), copy(which) {}
};
/// A times the weights of its columns, in two terms. Above the diagonal it is a choice, not a factor, that leaves
/// zeros.
template <class C>
TJ_DEVICE void weigh(Consumer<C>& consumer, const Tile&, int, u32 chunk, u32 weights) {
  const typename C::Element tag{};
  const int lane = static_cast<int>(dev::lane_index()), row = group_warp() * 16 + lane / 4;
  const u32 place = static_cast<u32>(group_warp() * 16 * kSwizzleRowBytes) + dev::down_place();
#pragma unroll
  for (int step = 0; step < kChunk / kMatrixK; ++step) {
    const int column = step * kMatrixK + 2 * (lane % 4);
    u32 words[4];
    float of_column[4];  // from column on, and from column + 8
    dev::load_matrices(chunk + dev::pieces_on(place, static_cast<u32>(2 * step)), words);
    dev::load_shared(weight_place(weights, consumer.copy, column), of_column);
#pragma unroll
    for (int w = 0; w < 4; ++w) {  // row + 8 (w % 2), two columns
      float pair[2];
      dev::unpack(tag, words[w], pair[0], pair[1]);
#pragma unroll
      for (int e = 0; e < 2; ++e)
        pair[e] = column + w / 2 * 8 + e <= row + 8 * (w % 2) ? pair[e] * of_column[w / 2 * 2 + e] : 0.0f;
      delta_chunks::split_pair(tag, pair[0], pair[1], consumer.high[4 * step + w], consumer.low[4 * step + w]);
    }
  }
}

template <class C>
TJ_DEVICE void hold(Consumer<C>& consumer) {
  dev::hold(consumer.products);
  dev::hold(consumer.high);
  dev::hold(consumer.low);
}
/// Rows of w, or of u: 64 x K.
template <class C>
TJ_DEVICE void multiply(Consumer<C>& consumer, const Tile&, int, u32 chunk) {
  using Steps = dev::MatrixSteps<kChunk / kMatrixK, 0, kMatrixK * kSwizzleRowBytes, dev::kRightMn>;
  const u64 right = dev::matrix_operand(chunk + Slot<C>::kRows + static_cast<u32>(consumer.copy) * Slot<C>::kTokenBytes,
                                        kBlockBytes, kSwizzleAtomBytes);
  hold(consumer);
  dev::matrix_multiply<Steps>(typename C::Element{}, consumer.products, consumer.low, right, false);
  dev::matrix_multiply<Steps>(typename C::Element{}, consumer.products, consumer.high, right, true);
}
template <class C>
TJ_DEVICE void multiply_done(Consumer<C>& consumer) {
  hold(consumer);
}

/// Rows, rounded, as the copy engine wants them.
template <class C>
TJ_DEVICE void stage_rows(Consumer<C>& consumer, const Tile&, int, u32 slot) {
  const typename C::Element tag{};
  const u32 row = static_cast<u32>(group_warp()) * 16 + dev::down_row();
#pragma unroll
  for (int pair = 0; pair < C::kHeadDim / 16; ++pair) {
    const float* const of = &consumer.products[8 * pair];
    dev::store_matrices(dev::piece_address(slot + static_cast<u32>(pair) / 4 * kBlockBytes, row,
                                           static_cast<u32>(pair) % 4 * 2 + dev::down_piece()),
                        {dev::pack(tag, of[0], of[1]), dev::pack(tag, of[2], of[3]), dev::pack(tag, of[4], of[5]),
                         dev::pack(tag, of[6], of[7])});
  }
}

/// Brings to w, or to u, what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const MatrixParams& params;
  const TensorMap* const map;
  TJ_DEVICE Writer(const MatrixParams& p, int which) : params(p), map(which == 0 ? &p.w : &p.u) {
    dev::prefetch_map(map);
  }
};
template <class C>
TJ_DEVICE void put_rows(Writer<C>& writer, const Tile&, int i, u32 slot) {
  const Item item = item_at(writer.params, i);
#pragma unroll 1
  for (int column = 0; column < C::kHeadDim; column += kSwizzleColumns, slot += kBlockBytes)
    delta_chunks::store_rows(listed(writer.params), writer.map, item.place, item.head, column, slot);
}

}  // namespace tj::ops::chunk_wu
