// Attention forward.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct FmhaConfig;

/// Attention forward, o = softmax(scale * q k^T [masked]) v, accumulated in f32.
///
/// Shapes (logical order is always [B, H, S, D]; [B, S, H, D] memory is expressed through strides):
///   q, o [B, H, Sq, D]; k, v [B, Hkv, Sk, D]; lse f32 [B, H, Sq]; D is 64 or 128; H is a multiple of Hkv; sizes are 1
///   to 2^30.
/// q, k, v and o share one dtype, f16 or bf16, and one device. The last dimension is contiguous; the other
/// strides and the base addresses of q, k and v are multiples of 16 bytes, on the model as on GPUs.
/// max_sms leaves multiprocessors to other work, such as communication. Blocks draw their tiles from a counter, which
/// takes workspace, in calls with max_sms on AMD, and in causal ones on sm_90a with many tiles or max_sms.
/// causal: query r sees keys j <= r + Sk - Sq (bottom-right aligned); a row with no key gives o = 0 and lse = -inf.
///
/// Ladder (ladder.hpp): rungs 1 basic, 2 exp2, 3 transposed_k, 4 latency, 5 occupancy and 6 division. They run on
/// architectures whose products are a warp's (sm_80, sm_120a and their like), with tiles of 64 queries and 64 keys.
/// Example: samples/04_fmha_ladder.
struct FmhaArgs {
  static constexpr const char* kOp = "fmha";
  using Config = FmhaConfig;
  Tensor q, k, v, o;
  std::optional<Tensor> lse;   ///< natural-log sum of exponentials of the scaled scores
  std::optional<float> scale;  ///< any finite value; D^-1/2 when absent. src/ops/NUMERICS.md has the bound of scores
  bool causal = false;
  /// Multiprocessors that the call's launches may fill: their blocks are at most those that fit on so many at once. 0,
  /// or as many as the device has: all.
  int max_sms = 0;
};

/// The fields that choose an attention kernel, without any memory: for prepare() and warm(). A call whose sizes were
/// measured (tune.hpp) may take another kernel: prepare it by its arguments.
struct FmhaConfig {
  using Args = FmhaArgs;
  DType dtype = DType::f16;
  int head_dim = 128;
  bool causal = false;
  /// False: the scale of calls is 1e-6 to 1, as the default D^-1/2 is; the faster kernel. True: any finite scale.
  bool general_scale = false;
};

/// Runs the call on Runtime::instance().
inline void fmha(const FmhaArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
