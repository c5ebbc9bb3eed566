// See scores.hpp.
#include "ops/fmha/scores.hpp"

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "ops/common/tensor_args.hpp"
#include "ops/fmha/mods.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

constexpr float kLog2E = 1.44269504088896f, kLargest = std::numeric_limits<float>::max();

float within(float number) { return std::fmax(-kLargest, std::fmin(number, kLargest)); }

/// tanh(x) is x times a polynomial of x^2 for |x| up to 1/2, within 6e-7 of itself: the one that is off by least. Here
/// x is a product times `argument`, whose powers have to be normal numbers.
void set_small_products(fmha::Params& params, float argument) {
  constexpr float kSmall = 0.5f, kLeast = 1e-5f, kMost = 1e4f;
  constexpr float kFactors[] = {0.999999456f, -0.333263179f, 0.131902966f, -0.0444022258f};
  params.cap_small = -1.0f;
  if (!(std::fabs(argument) >= kLeast && std::fabs(argument) <= kMost)) return;
  params.cap_small = kSmall / std::fabs(argument);
  float power = argument;
  for (std::size_t i = 0; i < std::size(kFactors); ++i, power *= argument * argument)
    params.cap_factors[i] = kFactors[i] * power;
}

}  // namespace

float fmha_scale(const FmhaArgs& args) {
  return args.scale ? *args.scale : 1.0f / std::sqrt(static_cast<float>(args.q.shape[support::at(args.q.rank - 1)]));
}

// Above 1 scaled scores may grow so large that one multiply-add loses what tells them apart; 0 and negative scales need
// a sign. The lower bound is only a wide margin. The fast form holds for any normal positive scale, but devices may
// flush subnormal scales to 0, and 0 would turn a masked score of -inf into NaN. Behind a softcap c scores lie between
// -c and c: with 1024, one multiply-add is within 9e-5 of them.
bool fmha_needs_general_scale(const FmhaArgs& args) {
  if (makes_scores(args)) return false;  // all of their kernels take differences first
  const float scale = args.softcap != 0 ? args.softcap : fmha_scale(args);
  return !(scale >= 1e-6f && scale <= (args.softcap != 0 ? 1024.0f : 1.0f));
}

void set_scores(FmhaConfig& config, const FmhaArgs& args) {
  config.general_scale = fmha_needs_general_scale(args);
  config.softcap = args.softcap != 0;
  config.alibi = args.alibi_slopes.has_value();
  config.sinks = args.sinks.has_value();
  set_mods(config, args);
}

void set_scores(FmhaArgs& args, const FmhaConfig& config, bool usual) {
  // This scale moves maxima so far from block to block that outputs are corrected.
  if (!usual || config.general_scale) args.scale = config.general_scale ? -1.5f : 1.0f;
  args.score_mod = config.score_mod, args.mask_mod = config.mask_mod, args.key_range = config.key_range;
  if (config.softcap) args.softcap = config.general_scale ? 4096.0f : usual ? 50.0f : 5.0f;
}

void set_scores(fmha::Params& params, const FmhaArgs& args) {
  const float scale = fmha_scale(args), cap = args.softcap;
  // Usual kernels take slopes in units of what is scaled, the others scores with slopes.
  const bool slopes = args.alibi_slopes.has_value(), general = fmha_needs_general_scale(args);
  const bool scaled = (slopes && general) || makes_scores(args), changed = cap != 0 || scaled;
  // A scale of 0 weighs all keys alike; the smallest normal keeps masked scores at -inf where 0 would make them NaN.
  params.scale = scaled    ? 1.0f
                 : changed ? std::fmax(cap, std::numeric_limits<float>::min())
                           : std::fmax(std::fabs(scale), std::numeric_limits<float>::min());
  params.scale_log2 = std::fmin(params.scale * kLog2E, kLargest);
  params.sign = !changed && scale < 0 ? -1.0f : 1.0f;
  params.cap_powers = cap != 0 ? within(2 * kLog2E * scale / cap) : 0.0f;
  if (cap != 0) set_small_products(params, scale / cap);
  params.alibi_scale = cap != 0 ? cap : scale;
  params.slope_units = scaled ? 1.0f : 1.0f / params.scale;
  set_mods(params, args);
  if (slopes) {
    const Tensor& of_heads = *args.alibi_slopes;
    params.alibi_slopes = static_cast<const float*>(of_heads.data);
    params.alibi_stride_batch = of_heads.rank == 2 ? stride(of_heads, 0) : 0;
    params.alibi_stride_head = stride(of_heads, of_heads.rank - 1);
  }
  if (args.sinks) {
    params.sinks = static_cast<const float*>(args.sinks->data);
    params.sinks_stride = stride(*args.sinks, 0);
  }
}

}  // namespace tj::ops
