// The online softmax of one row of attention and its end, as functions of numbers: the same for every family, wherever
// its registers hold rows.
//
// Decides when a row's reference moves, what a weight is, what an output and its log-sum-exp are, and where they go.
// Does not decide who holds what (rows.cuh, sm100.cuh, amd.cuh). Invariant: touches the numbers that it is given; only
// store_lse writes memory.
#pragma once

#include "ops/fmha/score.cuh"

namespace tj::ops::fmha {

/// The reference of a row's exponents moves only when the row's maximum grew by more than so many powers of two. Until
/// then results stay exact, only larger, and earlier output needs no correction.
inline constexpr float kSlack = 8.0f;

TJ_DEVICE bool moves(const Params& params, float before, float largest, float slack = kSlack) {
  return (largest - before) * params.scale_log2 > slack;
}
/// moves() for a maximum that keeps NaN. A row without a key so far stays without a reference; a row with a NaN has NaN
/// as its reference from then on.
TJ_DEVICE bool moves_or_nan(const Params& params, float before, float largest) {
  return largest != dev::minus_infinity() && !((largest - before) * params.scale_log2 <= kSlack);
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
    return kAnyScores<C> ? of(params, score - reference)
                         : dev::exp2_approx(dev::multiply_add(score, params.scale_log2, offset));
  }
};

/// Moves a reference to the largest score where it is to move; gives the factor for what was gathered before.
template <class Powers = PowersOfTwo>
TJ_DEVICE float move_to(const Params& params, bool moves, float largest, float& reference) {
  if (!moves) return 1.0f;
  const float before = reference;
  reference = largest;
  return Powers::of(params, before - largest);
}
/// A row that has seen no key yet keeps -inf as reference; any finite one makes its weights 2^-inf = 0.
TJ_DEVICE float finite_reference(float reference) { return reference == dev::minus_infinity() ? 0.0f : reference; }

/// Outputs divided by their row's sum: multiplied by its reciprocal.
struct ByReciprocal {
  float factor;
  TJ_DEVICE explicit ByReciprocal(float sum) : factor(1.0f / sum) {}
  TJ_DEVICE float operator()(float output) const { return output * factor; }
};

/// The end of a row whose weights add up to `sum`: a row without keys gives 0 and -inf, one with a NaN gives NaN. A
/// sink's part is in the sum (Sink::added), and its log-sum-exp is the sink's to tell.
template <class Division = ByReciprocal>
struct RowEnd {
  bool any_key;
  Division divided;
  TJ_DEVICE explicit RowEnd(float sum) : any_key(sum != 0.0f), divided(any_key ? sum : 1.0f) {}
  /// Selected, not multiplied: 0 times what an infinite value left behind would be NaN.
  TJ_DEVICE float output(float gathered) const { return any_key ? divided(gathered) : 0.0f; }
  /// reference * scale + ln(sum)
  TJ_DEVICE float lse(const Params& params, float reference, float sum) const {
    constexpr float kLn2 = 0.693147180559945f;
    return any_key ? reference * params.scale + kLn2 * dev::log2_approx(sum) : dev::minus_infinity();
  }
};

/// An element of o: 16 bits, or f32.
template <bool Wide>
struct OutputElement {
  using Type = unsigned short;
};
template <>
struct OutputElement<true> {
  using Type = float;
};

/// Rows past the last query have none of the two.
template <class C>
TJ_DEVICE auto output_row(const Params& params, const Tile& tile, int row) {
  using Element = typename OutputElement<WideOutput<C>::kOn>::Type;
  const RowPlace place = row_place<C>(params, tile, row);
  Element* const of_row = static_cast<Element*>(params.o) + tile.batch * params.o_stride_batch +
                          place.head * params.o_stride_head +
                          (queries_begin<C>(tile) + place.query) * params.o_stride_row;
  return Packed<C>::kOn ? of_row + tile.part * params.part_o : of_row;
}
/// Elements of o in f32, a multiple of four.
template <int kCount>
TJ_DEVICE void store_floats(const Params& params, float* destination, const float* values) {
#pragma unroll
  for (int first = 0; first < kCount; first += 4) {
    const float four[4] = {values[first], values[first + 1], values[first + 2], values[first + 3]};
    if (params.wide_stores != 0) {
      dev::store_global(destination + first, four);
      continue;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) dev::store_global(destination + first + e, four[e]);
  }
}
template <class C>
TJ_DEVICE void store_lse(const Params& params, const Tile& tile, int row, float lse) {
  const RowPlace place = row_place<C>(params, tile, row);
  float* const of_row = params.lse + tile.batch * params.lse_stride_batch + place.head * params.lse_stride_head +
                        (queries_begin<C>(tile) + place.query) * params.lse_stride_row;
  dev::store_global(Packed<C>::kOn ? of_row + tile.part * params.part_lse : of_row, lse);
}

}  // namespace tj::ops::fmha
