// Scores as the softmax takes them: what softcap and ALiBi make of q k^T; and the sink of a head.
//
// Decides the arithmetic of one score, and what a role keeps of its head for it. Does not decide which registers hold
// scores (rows.cuh, sm100.cuh, amd.cuh). Invariant: a kernel without a feature has neither a register nor an
// instruction of it.
#pragma once

#include "ops/fmha/tile.cuh"

namespace tj::ops::fmha {

/// 1 / d for 1 <= d <= 2. Special functions are what attention runs out of, so multiply-adds do it. The first guess is
/// the polynomial of degree 2 that is off by least, 1 in 99; two steps of Newton make that 1e-8.
TJ_DEVICE float reciprocal_of_one_to_two(float d) {
  constexpr float k2 = 32.0f / 99.0f, k1 = -144.0f / 99.0f, k0 = 210.0f / 99.0f;
  float guess = dev::multiply_add(dev::multiply_add(d, k2, k1), d, k0);
  guess = dev::multiply_add(guess, dev::multiply_add(-d, guess, 1.0f), guess);
  return dev::multiply_add(guess, dev::multiply_add(-d, guess, 1.0f), guess);
}
/// tanh(x) within 2e-7; `powers` is 2 log2(e) x. A NaN stays one.
TJ_DEVICE float tanh_of_powers(float powers) {
  const float grown = 1.0f + dev::exp2_approx(-dev::magnitude(powers));
  return dev::with_sign(dev::multiply_add(2.0f, reciprocal_of_one_to_two(grown), -1.0f), powers);
}

/// Numbers of its tile's head that a role keeps: none, or the slope of ALiBi.
template <class C, bool = Alibi<C>::kOn && !Packed<C>::kOn>
struct HeadNumbers {
  TJ_DEVICE void take(const Params&, const Tile&) {}
};
template <class C>
struct HeadNumbers<C, true> {
  float slope;
  TJ_DEVICE void take(const Params& params, const Tile& tile) {
    slope = dev::load_global(params.alibi_slopes + tile.batch * params.alibi_stride_batch +
                             tile.head * params.alibi_stride_head);
  }
};

/// The scores of one row, their keys counted from `from` on.
template <class C>
class RowScores {
 public:
  TJ_DEVICE RowScores(const Params& params, const HeadNumbers<C>& head, const Tile& tile, int row, int from)
      : params_(params) {
    if constexpr (Alibi<C>::kOn) {
      slope_ = slope_of(params, head, tile, row);
      distance_ = static_cast<float>(mask_of<C>(params, tile).place_of(row) - from);
      bias_ = -slope_ * distance_;
    }
  }
  /// The score of a key; a negative scale's sign is applied here.
  TJ_DEVICE float of(float product, int key) const {
    float score = product;
    if constexpr (Softcap<C>::kOn) score = tanh_of_powers(product * params_.cap_powers);
    if constexpr (Alibi<C>::kOn) score = dev::multiply_add(score, params_.alibi_scale, bias(static_cast<float>(key)));
    return score;
  }

 private:
  /// Packed rows have heads of their own.
  TJ_DEVICE static float slope_of(const Params& params, const HeadNumbers<C>& head, const Tile& tile, int row) {
    if constexpr (Packed<C>::kOn)
      return dev::load_global(params.alibi_slopes + tile.batch * params.alibi_stride_batch +
                              row_place<C>(params, tile, row).head * params.alibi_stride_head);
    else
      return head.slope;
  }
  /// Keys behind the row's place are hidden under a causal mask: then the distance has no sign to lose.
  TJ_DEVICE float bias(float key) const {
    return C::kCausal ? dev::multiply_add(key, slope_, bias_) : -slope_ * dev::magnitude(distance_ - key);
  }

  const Params& params_;
  float slope_ = 0.0f, distance_ = 0.0f, bias_ = 0.0f;
};

/// The sink of a tile's head, as one more key without a value. Without sinks it adds nothing.
template <class C, bool = Sinks<C>::kOn>
struct Sink {
  TJ_DEVICE Sink(const Params&, const Tile&) {}
  TJ_DEVICE Sink(const Params&, const Tile&, int) {}
  TJ_DEVICE float added(const Params&, float, float sum) const { return sum; }
  TJ_DEVICE float lse(float of_keys, float) const { return of_keys; }
};
template <class C>
struct Sink<C, true> {
  float logit;
  TJ_DEVICE Sink(const Params& params, const Tile& tile)
      : logit(dev::load_global(params.sinks + tile.head * params.sinks_stride)) {}
  /// The sink of one row. The first part of the keys has it.
  TJ_DEVICE Sink(const Params& params, const Tile& tile, int row)
      : logit(dev::load_global(params.sinks + row_place<C>(params, tile, row).head * params.sinks_stride)) {
    if (Packed<C>::kOn && tile.part != 0) logit = dev::minus_infinity();
  }
  /// The sum of a row with the sink's part of it. The sum of a row without keys stays 0, which says that it has none.
  TJ_DEVICE float added(const Params& params, float reference, float sum) const {
    constexpr float kLog2E = 1.44269504088896f;
    return sum == 0.0f ? sum : sum + dev::exp2_approx(logit * kLog2E - reference * params.scale_log2);
  }
  /// A sink far above all scores makes the sum infinite, and is all that there is of the log-sum-exp.
  TJ_DEVICE float lse(float of_keys, float sum) const {
    return sum == 0.0f || sum == -dev::minus_infinity() ? logit : of_keys;
  }
};

}  // namespace tj::ops::fmha
