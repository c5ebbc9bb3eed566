// Numbers of the rungs of attention's ladder, the same for every family that has rungs.
//
// Decides how a weight and an output are worked out there. Does not decide who holds them (sm80_rungs.cuh,
// amd_rungs.cuh).
#pragma once

#include "ops/fmha/softmax.cuh"

namespace tj::ops::fmha {

/// e^x of scaled distances, small results kept: two multiplications and what a gradual 2^x takes.
struct NaturalPowers {
  TJ_DEVICE static float of(const Params& params, float distance) {
    constexpr float kLog2E = 1.44269504088896f;
    return dev::exp2_gradual(distance * params.scale * kLog2E);
  }
  template <class C>
  TJ_DEVICE static float weight(const Params& params, float score, float reference, float) {
    return of(params, score - reference);
  }
};

/// Outputs divided one by one, rounded as IEEE 754 says.
struct OneByOne {
  float sum;
  TJ_DEVICE explicit OneByOne(float row_sum) : sum(row_sum) {}
  TJ_DEVICE float operator()(float output) const { return output / sum; }
};

/// Outputs multiplied by what the special-function unit takes for the reciprocal.
struct ByApproximation {
  float factor;
  TJ_DEVICE explicit ByApproximation(float sum) : factor(dev::divide_approx(1.0f, sum)) {}
  TJ_DEVICE float operator()(float output) const { return output * factor; }
};

}  // namespace tj::ops::fmha
