// The end of a tile of a product whose d is quantised: the body quantise.
//
// Decides how a row's sums become elements of e4m3 and a scale of each 128 columns. A quad of lanes has a row, so that
// its largest magnitude is theirs to know. That is of values in f32, before any rounding. Included after the family's
// node bodies. Invariant: nothing outside d and its scales is written; columns outside d are no part of a scale.
#pragma once

#include "ops/scales/make.cuh"

namespace tj::ops::gemm {

inline constexpr int kQuadColumns = 4 * kSixteen;  ///< of a row, that a quad stores together

/// The row's finished values in place of its sums, zeros in columns outside d; their largest magnitudes are `largest`.
template <class C>
TJ_DEVICE void finish_rows(Consumer<C>& consumer, const Tile& tile,
                           float (&largest)[kTileColumns<C> / kScaleBlock][2]) {
  const Addends<C> none(consumer, tile);  // beta is 0
  const int left = consumer.params.n - tile.column;
#pragma unroll
  for (int part = 0; part < Parts<C>::kCount; ++part) {
    Biases<C> bias;
    read_bias(consumer, tile, part, bias);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[8], &most = largest[32 * part / kScaleBlock][half];
      finish_part(consumer, tile, place_of(consumer, tile, 0, half), 0, part, half, bias, none, values);
      if (32 * part % kScaleBlock == 0) most = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = Parts<C>::column(part, consumer.lane) + 4 * (i - i % 2) + i % 2;
        if (column >= left) values[i] = 0.0f;
        most = dev::maximum(most, dev::magnitude(values[i]));
        consumer.sums[0][Parts<C>::sum(part, i, half)] = values[i];
      }
    }
  }
}

/// A lane's values of 64 columns, of which it has two in each 8, to 16 neighbours: a transpose gives lane q of a quad
/// all values of groups 2 q and 2 q + 1.
template <class C>
TJ_DEVICE void to_neighbours(const Consumer<C>& consumer, int first, int half, float inverse, u32 (&words)[4]) {
  u32 pairs[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const float* sums = consumer.sums[0] + (first / 2 + 8 * w + 2 * half);
    pairs[w] = dev::pack_e4m3(sums[0] * inverse, sums[1] * inverse) |
               dev::pack_e4m3(sums[4] * inverse, sums[5] * inverse) << 16;
  }
  dev::transpose_quad(pairs);
#pragma unroll
  for (int w = 0; w < 2; ++w) {
    words[w] = (pairs[2 * w] & 0xffffu) | pairs[2 * w + 1] << 16;
    words[w + 2] = pairs[2 * w] >> 16 | (pairs[2 * w + 1] & 0xffff0000u);
  }
}

/// d and its scales, straight to memory.
template <class C>
TJ_DEVICE void quantise(Consumer<C>& consumer, const Tile& tile) {
  static_assert(Consumer<C>::kRowBlocks == 1 && Consumer<C>::kColumns == C::kBlockN && !kSplits<C> && !C::kAddC &&
                    kTileColumns<C> % kScaleBlock == 0,
                "a consumer has whole rows of a tile, of whole blocks");
  consumer.finished();
  const Params& params = consumer.params;
  float largest[kTileColumns<C> / kScaleBlock][2];
  finish_rows(consumer, tile, largest);
#pragma unroll
  for (int block = 0; block < kTileColumns<C> / kScaleBlock; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = largest[block][half];
      most = dev::maximum(most, dev::shuffle_xor(most, 1));
      most = dev::maximum(most, dev::shuffle_xor(most, 2));
      const float scale = scale_of(params.d_scales, most), inverse = dev::divide_approx(1.0f, scale);
      const Place place = place_of(consumer, tile, 0, half);
      const int column = tile.column + block * kScaleBlock;
      const bool inside = place.inside && column < params.n;
      if (inside && consumer.lane % 4 == 0)
        write_scale(params.d_scales, tile.matrix, place.row, column / kScaleBlock, scale);
#pragma unroll
      for (int first = 0; first < kScaleBlock; first += kQuadColumns) {
        u32 words[4];
        to_neighbours(consumer, block * kScaleBlock + first, half, inverse, words);
        const int at = column + first + consumer.lane % 4 * kSixteen;
        write_sixteen(static_cast<unsigned char*>(params.d_data) + tile.matrix * params.d_stride_batch +
                          place.row * params.d_stride_row + at,
                      words, inside ? params.n - at : 0, params.wide_d != 0);
      }
    }
  }
}

}  // namespace tj::ops::gemm
