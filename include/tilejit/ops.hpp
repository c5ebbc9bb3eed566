// What a user can ask for: one descriptor per op.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <optional>

#include <tilejit/tensor.hpp>

namespace tj {

/// Attention forward, o = softmax(scale * q k^T [masked]) v, accumulated in f32.
///
/// Shapes (logical order is always [B, H, S, D]; [B, S, H, D] memory is expressed through strides):
///   q, o [B, H, Sq, D]; k, v [B, Hkv, Sk, D]; lse f32 [B, H, Sq]; D is 64 or 128; H is a multiple of Hkv; sizes are 1 to 2^30.
/// q, k, v and o share one dtype, f16 or bf16, and one device. The last dimension is contiguous; the other
/// strides and the base addresses of q, k and v are multiples of 16 bytes, on the model as on GPUs.
/// causal: query r sees keys j <= r + Sk - Sq (bottom-right aligned); a row with no key gives o = 0 and lse = -inf.
struct FmhaArgs {
  Tensor q, k, v, o;
  std::optional<Tensor> lse;   ///< natural-log sum of exponentials of the scaled scores
  std::optional<float> scale;  ///< any finite value; D^-1/2 when absent
  bool causal = false;
};

/// What decides which fmha kernel is needed, without any memory: for prepare() and tj-warm.
struct FmhaConfig {
  DType dtype = DType::f16;
  int head_dim = 128;
  bool causal = false;
  /// False: 1e-6 <= scale <= 1, the fast form. True: any finite scale.
  bool general_scale = false;
};

}  // namespace tj
