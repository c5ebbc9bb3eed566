// y = a x + b, element by element.
#pragma once

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct AffineConfig;

/// x, y f32 [R, C] on one device, R and C >= 1; the last dimension is contiguous, the row strides and the base of x are
/// multiples of 16 bytes.
struct AffineArgs {
  static constexpr const char* kOp = "affine";
  using Config = AffineConfig;
  Tensor x, y;
  float a = 1, b = 0;
};

/// One kernel serves all calls.
struct AffineConfig {
  using Args = AffineArgs;
};

}  // namespace tj
