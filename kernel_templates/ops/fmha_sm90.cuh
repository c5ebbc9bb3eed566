// Attention forward on warpgroup matrix instructions: the bodies of the graph's nodes.
//
// Decides what one node computes for one tile and iteration. Order, waits, slots and roles come from the emitted unit.
// A block owns kRowsPerBlock query rows of one head, kRowsPerConsumer for each consumer; iteration i handles the key block
// trip_count-1-i, so that blocks which need masking come first.
// Invariant: a body touches registers of its own context and the slots that it is given, nothing else.
#pragma once

#include "ops/fmha_params.cuh"

namespace tj::ops::fmha {

using dev::u32;
using dev::u64;

inline constexpr u32 kSwizzleRowBytes = 128;
inline constexpr u32 kSwizzleAtomBytes = 1024;
inline constexpr int kMatrixK = 16;

/// The work of one block: a query tile of one head, and how many key blocks it sees.
struct Tile {
  int index;
  bool valid;
  int row, head, batch;
  int trip_count;
};

template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  Tile tile;
  tile.index = index;
  tile.valid = index < params.tiles;
  if (!tile.valid) return tile;
  // Query tiles of one head run next to each other so that its keys and values stay in L2; the longest goes first.
  const int head_index = index / params.row_blocks;
  const int block = index - head_index * params.row_blocks;
  tile.row = (C::kCausal ? params.row_blocks - 1 - block : block) * C::kRowsPerBlock;
  tile.batch = head_index / params.heads;
  tile.head = head_index - tile.batch * params.heads;
  int keys = params.keys;
  if (C::kCausal) {
    const int last_row = min(tile.row + C::kRowsPerBlock, params.queries) - 1;
    keys = max(0, min(keys, last_row + (params.keys - params.queries) + 1));
  }
  tile.trip_count = (keys + C::kBlockN - 1) / C::kBlockN;
  return tile;
}
template <class C>
TJ_DEVICE Tile first_tile(const Params& params) {
  return tile_at<C>(params, static_cast<int>(dev::block_index()));
}
template <class C>
TJ_DEVICE Tile next_tile(const Params& params, const Tile& tile) {
  return tile_at<C>(params, tile.index + static_cast<int>(dev::grid_blocks()));
}

/// Issues the copies; no state of its own.
template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {
    dev::prefetch_map(&p.q);
    dev::prefetch_map(&p.k);
    dev::prefetch_map(&p.v);
  }
};

/// One warpgroup's 64 query rows. A thread holds rows row0 and row0 + 8, columns 8j + 2(lane % 4) + {0, 1}.
template <class C_>
struct Consumer {
  using C = C_;
  const Params& params;
  const int copy;           ///< which 64 rows of the block's tile
  const int row0, column0;  ///< of this thread's fragments, inside the 64 rows and a block of keys
  float scores[C::kBlockN / 2];
  u32 weights[C::kBlockN / 4];
  float output[C::kHeadDim / 2];
  float row_max[2], row_sum[2], correction[2];
  TJ_DEVICE Consumer(const Params& p, int which)
      : params(p), copy(which),
        row0(static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u)),
        column0(static_cast<int>(dev::lane_index() & 3u) * 2) {}
};

/// Iterations before this one need masking for some row of the consumer.
template <class C>
TJ_DEVICE int fast_begin(const Consumer<C>& consumer, const Tile& tile) {
  int unmasked_keys = consumer.params.keys;
  if (C::kCausal) {
    const int first_row = tile.row + consumer.copy * kRowsPerConsumer;
    unmasked_keys = max(0, min(unmasked_keys, first_row + (consumer.params.keys - consumer.params.queries) + 1));
  }
  return max(0, tile.trip_count - unmasked_keys / C::kBlockN);
}

// ---- loads ----------------------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void load_q(Loader<C>& loader, const Tile& tile, u32 slot, u32 full) {
#pragma unroll
  for (int d = 0; d < C::kHeadDim; d += kSwizzleColumns) {
    dev::copy_box_4d(slot + d / kSwizzleColumns * C::kRowsPerBlock * kSwizzleRowBytes, &loader.params.q, full, d, tile.row,
                     tile.head, tile.batch);
  }
}
template <class C>
TJ_DEVICE void load_keys_or_values(const TensorMap* map, const Params& params, const Tile& tile, int i, u32 slot, u32 full) {
  const int row = (tile.trip_count - 1 - i) * C::kBlockN;
#pragma unroll
  for (int d = 0; d < C::kHeadDim; d += kSwizzleColumns) {
    dev::copy_box_4d(slot + d / kSwizzleColumns * C::kBlockN * kSwizzleRowBytes, map, full, d, row,
                     tile.head / params.heads_per_kv_head, tile.batch);
  }
}
template <class C>
TJ_DEVICE void load_k(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  load_keys_or_values<C>(&loader.params.k, loader.params, tile, i, slot, full);
}
template <class C>
TJ_DEVICE void load_v(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  load_keys_or_values<C>(&loader.params.v, loader.params, tile, i, slot, full);
}

// ---- one consumer's chain -------------------------------------------------------------------------------------------
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
#pragma unroll
  for (int i = 0; i < C::kHeadDim / 2; ++i) consumer.output[i] = 0.0f;
  consumer.row_max[0] = consumer.row_max[1] = dev::minus_infinity();
  consumer.row_sum[0] = consumer.row_sum[1] = 0.0f;
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

/// Sets what lies outside the sequence or above the diagonal to -inf. A negative scale's sign was applied before.
template <class C>
TJ_DEVICE void mask(Consumer<C>& consumer, const Tile& tile, int i) {
  const Params& params = consumer.params;
  const int first_key = (tile.trip_count - 1 - i) * C::kBlockN + consumer.column0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int limit = params.keys;
    if (C::kCausal) {
      const int row = tile.row + consumer.copy * kRowsPerConsumer + consumer.row0 + half * 8;
      limit = min(limit, row + (params.keys - params.queries) + 1);
    }
    limit -= first_key;
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = consumer.scores[4 * j + 2 * half + e];
        score = 8 * j + e < limit ? score : dev::minus_infinity();
      }
    }
  }
}

/// The largest score of each of the thread's two rows. Four chains a row: one long chain would expose its latency.
template <class C>
TJ_DEVICE void row_maximum(const Consumer<C>& consumer, float (&largest)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float chain[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) chain[c] = consumer.scores[4 * (c / 2) + 2 * half + c % 2];
#pragma unroll
    for (int j = 2; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& c = chain[2 * (j % 2) + e];
        c = dev::maximum(c, consumer.scores[4 * j + 2 * half + e]);
      }
    }
    float value = dev::maximum(dev::maximum(chain[0], chain[1]), dev::maximum(chain[2], chain[3]));
    value = dev::maximum(value, dev::shuffle_xor(value, 1));
    largest[half] = dev::maximum(value, dev::shuffle_xor(value, 2));
  }
}

/// Online softmax: scores become 2^(scaled score - reference), the sums and the factor for earlier output follow.
/// The reference moves only when a row's maximum grew by more than kSlack powers of two: until then results stay
/// exact, only larger, and earlier output needs no correction.
template <class C, class Variant>
TJ_DEVICE void softmax(Consumer<C>& consumer, const Tile& tile, int i, Variant) {
  constexpr float kSlack = 8.0f;
  const float scale = consumer.params.scale_log2;
  if constexpr (C::kGeneralScale) {
#pragma unroll
    for (float& score : consumer.scores) score *= consumer.params.sign;
  }
  if constexpr (!Variant::kFast) mask(consumer, tile, i);
  float largest[2];
  row_maximum(consumer, largest);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float before = consumer.row_max[half];
    const bool moves = (largest[half] - before) * scale > kSlack;
    const float reference = moves ? largest[half] : before;
    consumer.correction[half] = moves ? dev::exp2_approx((before - reference) * scale) : 1.0f;
    consumer.row_max[half] = reference;
    // A row that has seen no key yet keeps -inf as reference; any finite one makes its weights 2^-inf = 0.
    const float finite = !Variant::kFast && reference == dev::minus_infinity() ? 0.0f : reference;
    const float offset = -finite * scale;
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = consumer.scores[4 * j + 2 * half + e];
        // Folding the reference into one multiply-add needs |score * scale| small against 2^24; large scales do not.
        score = dev::exp2_approx(C::kGeneralScale ? (score - finite) * scale : dev::multiply_add(score, scale, offset));
        sums[2 * (j % 2) + e] += score;
      }
    }
    consumer.row_sum[half] =
        consumer.row_sum[half] * consumer.correction[half] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
}

/// Rounds the weights to the element type and corrects the output gathered so far.
template <class C>
TJ_DEVICE void rescale(Consumer<C>& consumer, const Tile&, int) {
#pragma unroll
  for (int j = 0; j < C::kBlockN / 4; ++j) {
    consumer.weights[j] = dev::pack(typename C::Element{}, consumer.scores[2 * j], consumer.scores[2 * j + 1]);
  }
  if (dev::any_in_warp(consumer.correction[0] != 1.0f || consumer.correction[1] != 1.0f)) {
#pragma unroll
    for (int j = 0; j < C::kHeadDim / 2; ++j) consumer.output[j] *= consumer.correction[j / 2 % 2];
  }
}

/// output += weights v: 64 x kHeadDim.
template <class C>
TJ_DEVICE void pv(Consumer<C>& consumer, const Tile&, int, u32 v) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
  const u64 right = dev::matrix_operand(v, C::kBlockN * kSwizzleRowBytes, kSwizzleAtomBytes);
  dev::matrix_multiply<dev::MatrixSteps<C::kBlockN / kMatrixK, 0, kMatrixK * static_cast<int>(kSwizzleRowBytes), dev::kRightMn>>(
      typename C::Element{}, consumer.output, consumer.weights, right, true);
}
template <class C>
TJ_DEVICE void pv_done(Consumer<C>& consumer) {
  dev::hold(consumer.output);
  dev::hold(consumer.weights);
}

}  // namespace tj::ops::fmha

#include "ops/fmha_store.cuh"
