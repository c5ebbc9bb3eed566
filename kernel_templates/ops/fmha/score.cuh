// Scores as the softmax takes them: what softcap, ALiBi, a bias and a user's texts make of q k^T; and the sink of a
// head.
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

/// tanh of the argument that a product of at most cap_small in size makes.
TJ_DEVICE float small_tanh(const Params& params, float product) {
  const float square = product * product;
  float factor = dev::multiply_add(square, params.cap_factors[3], params.cap_factors[2]);
  factor = dev::multiply_add(square, factor, params.cap_factors[1]);
  return product * dev::multiply_add(square, factor, params.cap_factors[0]);
}

/// The slope of a head, in the units that its kernel takes.
template <class C>
TJ_DEVICE float slope_at(const Params& params, const Tile& tile, int head) {
  const float slope =
      dev::load_global(params.alibi_slopes + tile.batch * params.alibi_stride_batch + head * params.alibi_stride_head);
  return kFoldsSlopes<C> ? slope * params.slope_units : slope;
}

/// Numbers of its tile's head that a role keeps: none, or the slope of ALiBi.
template <class C, bool = Alibi<C>::kOn && !Packed<C>::kOn>
struct HeadNumbers {
  TJ_DEVICE void take(const Params&, const Tile&) {}
};
template <class C>
struct HeadNumbers<C, true> {
  float slope;
  TJ_DEVICE void take(const Params& params, const Tile& tile) { slope = slope_at<C>(params, tile, tile.head); }
};

/// Begin of a query's numbers in the bias.
TJ_DEVICE long long bias_offset(const Params& params, const Tile& tile, int query, int head) {
  return tile.batch * params.bias_stride_batch + head * params.bias_stride_head +
         max(0, min(query, params.last_bias_query)) * params.bias_stride_query;
}
/// Summand of the scores of one row: nothing.
template <class C, int = Bias<C>::kType>
struct RowBias {
  TJ_DEVICE RowBias(const Params&, const Tile&, int, int) {}
};
/// A number for each key. Offsets take 64 bits: a bias may have 2^31 elements and more.
template <class C>
struct RowBias<C, 1> {
  const float* row;
  TJ_DEVICE RowBias(const Params& params, const Tile& tile, int query, int head)
      : row(static_cast<const float*>(params.bias) + bias_offset(params, tile, query, head)) {}
  TJ_DEVICE float of(long long offset) const { return dev::load_global(row + offset); }
};
template <class C>
struct RowBias<C, 2> {
  const unsigned short* row;
  TJ_DEVICE RowBias(const Params& params, const Tile& tile, int query, int head)
      : row(static_cast<const unsigned short*>(params.bias) + bias_offset(params, tile, query, head)) {}
  TJ_DEVICE float of(long long offset) const {
    float low, high;
    dev::unpack(typename C::Element{}, dev::load_global_u16(row + offset), low, high);
    return low;
  }
};

/// The scores of one row, their keys counted from `from` on.
template <class C>
class RowScores {
 public:
  TJ_DEVICE RowScores(const Params& params, const HeadNumbers<C>& head, const Tile& tile, int row, int from)
      : params_(params),
        tile_(tile),
        from_(from),
        last_(last_key(params, tile)),
        place_(told_place(params, tile, row)),
        head_(told_head(params, tile, row)),
        added_(params, tile, told_query(params, tile, row), head_) {
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
    return behind_cap(score, key);
  }
  /// The same of what the softcap made.
  TJ_DEVICE float behind_cap(float score, int key) const {
    if constexpr (kFoldsSlopes<C>)
      score += bias(static_cast<float>(key));
    else if constexpr (Alibi<C>::kOn)
      score = dev::multiply_add(score, params_.alibi_scale, bias(static_cast<float>(key)));
    if constexpr (kBiased<C>) {
      const long long offset =
          static_cast<long long>(min(from_ + key, params_.last_bias_key)) * params_.bias_stride_key;
      score =
          Alibi<C>::kOn ? score + added_.of(offset) : dev::multiply_add(score, params_.alibi_scale, added_.of(offset));
    } else if constexpr (ScoreMod<C>::kOn && !Alibi<C>::kOn) {
      score *= params_.alibi_scale;
    }
    if constexpr (ScoreMod<C>::kOn)
      score = C::score_mod(score, tile_.batch, head_, place_, min(from_ + key, last_), ModParams(params_));
    return score;
  }
  /// The score but for shared(), of kernels that fold slopes, where a block's keys are all on one side of its rows.
  TJ_DEVICE float beside(float score, int key) const {
    return dev::multiply_add(static_cast<float>(key), slope_, score);
  }
  /// The part that the scores of these keys have in common.
  TJ_DEVICE float shared() const { return bias_; }
  /// Tells that the keys are behind the row.
  TJ_DEVICE void turn() { slope_ = -slope_, bias_ = -bias_; }
  /// The score of a key that a text mask_mod may hide.
  TJ_DEVICE float seen(float score, int key) const {
    if constexpr (MaskMod<C>::kOn)
      return C::mask_mod(tile_.batch, head_, place_, min(from_ + key, last_), ModParams(params_))
                 ? score
                 : dev::minus_infinity();
    else
      return score;
  }

 private:
  static constexpr bool kTold = kBiased<C> || ScoreMod<C>::kOn || MaskMod<C>::kOn;
  /// Rows and keys that only fill a block are told as the last.
  TJ_DEVICE static int told_row(const Params& params, const Tile& tile, int row) {
    return min(row, mask_of<C>(params, tile).queries - 1);
  }
  TJ_DEVICE static int told_query(const Params& params, const Tile& tile, int row) {
    return kTold ? row_place<C>(params, tile, told_row(params, tile, row)).query : 0;
  }
  TJ_DEVICE static int told_head(const Params& params, const Tile& tile, int row) {
    return kTold ? row_place<C>(params, tile, row).head : 0;
  }
  TJ_DEVICE static int told_place(const Params& params, const Tile& tile, int row) {
    return kTold ? mask_of<C>(params, tile).place_of(told_row(params, tile, row)) : 0;
  }
  TJ_DEVICE static int last_key(const Params& params, const Tile& tile) {
    return kTold ? mask_of<C>(params, tile).keys - 1 : 0;
  }
  /// Packed rows have heads of their own.
  TJ_DEVICE static float slope_of(const Params& params, const HeadNumbers<C>& head, const Tile& tile, int row) {
    if constexpr (Packed<C>::kOn)
      return slope_at<C>(params, tile, row_place<C>(params, tile, row).head);
    else
      return head.slope;
  }
  /// Keys behind the row's place are hidden under a causal mask: then the distance has no sign to lose.
  TJ_DEVICE float bias(float key) const {
    return C::kCausal ? dev::multiply_add(key, slope_, bias_) : -slope_ * dev::magnitude(distance_ - key);
  }

  const Params& params_;
  const Tile& tile_;
  const int from_, last_, place_, head_;
  const RowBias<C> added_;
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
