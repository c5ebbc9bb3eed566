// What attention does to rows of queries between matrix instructions, and which rows a block has: the same for every
// family.
//
// Decides tiles, masks and the online softmax of sixteen rows in a warp's registers. Does not decide which instruction
// multiplies, nor what is copied how (<family>.cuh). Iteration i handles the key block trip_count-1-i, so that
// blocks which need masking come first. Invariant: touches the registers that it is given, no memory.
#pragma once

#include "ops/fmha/params.cuh"

namespace tj::ops::fmha {

using dev::u32;
using dev::u64;

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

/// Sixteen query rows of one warp. A thread holds rows lane / 4 and lane / 4 + 8, columns 8j + 2(lane % 4) + {0, 1}:
/// what matrix instructions of a warp and of a warpgroup leave alike.
template <class C>
struct Rows {
  float scores[C::kBlockN / 2];
  u32 weights[C::kBlockN / 4];
  float output[C::kHeadDim / 2];
  float row_max[2], row_sum[2], correction[2];
};

/// Keys that every row from `row` on sees.
template <class C>
TJ_DEVICE int visible_keys(const Params& params, int row) {
  return C::kCausal ? max(0, min(params.keys, row + (params.keys - params.queries) + 1)) : params.keys;
}
/// Iterations before this one need masking for `first_row` or a row below it.
template <class C>
TJ_DEVICE int unmasked_from(const Params& params, const Tile& tile, int first_row) {
  return max(0, tile.trip_count - visible_keys<C>(params, first_row) / C::kBlockN);
}

template <class C>
TJ_DEVICE void clear(Rows<C>& rows) {
#pragma unroll
  for (int i = 0; i < C::kHeadDim / 2; ++i) rows.output[i] = 0.0f;
  rows.row_max[0] = rows.row_max[1] = dev::minus_infinity();
  rows.row_sum[0] = rows.row_sum[1] = 0.0f;
}

/// Sets what lies outside the sequence or above the diagonal to -inf. `row` is the thread's first. A negative scale's
/// sign was applied before.
template <class C>
TJ_DEVICE void mask(Rows<C>& rows, const Params& params, const Tile& tile, int i, int row) {
  const int first_key = (tile.trip_count - 1 - i) * C::kBlockN + static_cast<int>(dev::lane_index() & 3u) * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int limit = params.keys;
    if (C::kCausal) limit = min(limit, row + half * 8 + (params.keys - params.queries) + 1);
    limit -= first_key;
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = rows.scores[4 * j + 2 * half + e];
        score = 8 * j + e < limit ? score : dev::minus_infinity();
      }
    }
  }
}

/// The largest score of each of the thread's two rows. Four chains a row: one long chain would expose its latency.
template <class C>
TJ_DEVICE void row_maximum(const Rows<C>& rows, float (&largest)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float chain[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) chain[c] = rows.scores[4 * (c / 2) + 2 * half + c % 2];
#pragma unroll
    for (int j = 2; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& c = chain[2 * (j % 2) + e];
        c = dev::maximum(c, rows.scores[4 * j + 2 * half + e]);
      }
    }
    float value = dev::maximum(dev::maximum(chain[0], chain[1]), dev::maximum(chain[2], chain[3]));
    value = dev::maximum(value, dev::shuffle_xor(value, 1));
    largest[half] = dev::maximum(value, dev::shuffle_xor(value, 2));
  }
}

/// Weights are powers of two of scaled distances from a reference, 0 below 2^-126.
struct PowersOfTwo {
  TJ_DEVICE static float of(const Params& params, float distance) {
    return dev::exp2_approx(distance * params.scale_log2);
  }
  /// `offset` is -reference * scale_log2.
  template <class C>
  TJ_DEVICE static float weight(const Params& params, float score, float reference, float offset) {
    // Folding the reference into one multiply-add needs |score * scale| small against 2^24; large scales do not.
    return C::kGeneralScale ? of(params, score - reference)
                            : dev::exp2_approx(dev::multiply_add(score, params.scale_log2, offset));
  }
};

/// Masks, and moves each row's reference for its exponents, with the factor for what was gathered with the one before.
/// The reference moves only when a row's maximum grew by more than kSlack powers of two: until then results stay
/// exact, only larger, and earlier output needs no correction.
template <class Powers, class C, class Variant>
TJ_DEVICE void move_reference(Rows<C>& rows, const Params& params, const Tile& tile, int i, int row, Variant) {
  constexpr float kSlack = 8.0f;
  const float scale = params.scale_log2;
  if constexpr (C::kGeneralScale) {
#pragma unroll
    for (int j = 0; j < C::kBlockN / 2; ++j) rows.scores[j] *= params.sign;
  }
  if constexpr (!Variant::kFast) mask(rows, params, tile, i, row);
  float largest[2];
  row_maximum(rows, largest);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float before = rows.row_max[half];
    const bool moves = (largest[half] - before) * scale > kSlack;
    const float reference = moves ? largest[half] : before;
    rows.correction[half] = moves ? Powers::of(params, before - reference) : 1.0f;
    rows.row_max[half] = reference;
  }
}
/// A row that has seen no key yet keeps -inf as reference; any finite one makes its weights 2^-inf = 0.
TJ_DEVICE float finite_reference(float reference) { return reference == dev::minus_infinity() ? 0.0f : reference; }
TJ_DEVICE bool corrects(const float (&correction)[2]) { return correction[0] != 1.0f || correction[1] != 1.0f; }
/// Corrects the output gathered so far.
template <class C>
TJ_DEVICE void correct_output(Rows<C>& rows) {
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 2; ++j) rows.output[j] *= rows.correction[j / 2 % 2];
}

/// Online softmax: scores become weights where they are, the sums and the factor for earlier output follow.
template <class C, class Variant>
TJ_DEVICE void softmax(Rows<C>& rows, const Params& params, const Tile& tile, int i, int row, Variant variant) {
  const float scale = params.scale_log2;
  move_reference<PowersOfTwo>(rows, params, tile, i, row, variant);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float reference = Variant::kFast ? rows.row_max[half] : finite_reference(rows.row_max[half]);
    const float offset = -reference * scale;
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = rows.scores[4 * j + 2 * half + e];
        score = PowersOfTwo::weight<C>(params, score, reference, offset);
        sums[2 * (j % 2) + e] += score;
      }
    }
    rows.row_sum[half] = rows.row_sum[half] * rows.correction[half] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
}

/// Rounds the weights to the element type and corrects the output gathered so far.
template <class C>
TJ_DEVICE void rescale(Rows<C>& rows) {
#pragma unroll
  for (int j = 0; j < C::kBlockN / 4; ++j)
    rows.weights[j] = dev::pack(typename C::Element{}, rows.scores[2 * j], rows.scores[2 * j + 1]);
  if (dev::any_in_warp(corrects(rows.correction))) correct_output(rows);
}

}  // namespace tj::ops::fmha
