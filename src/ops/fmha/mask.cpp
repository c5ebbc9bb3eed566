// See mask.hpp.
#include "ops/fmha/mask.hpp"

namespace tj::ops {

void set_mask(FmhaConfig& config, const FmhaArgs& args) { config.causal = args.causal; }

void set_mask(FmhaArgs& args, const FmhaConfig& config) { args.causal = config.causal; }

void set_mask(fmha::Params& params, const FmhaArgs& args) {
  params.queries = static_cast<int>(args.q.shape[2]);
  params.keys = static_cast<int>(args.k.shape[2]);
}

fmha::Mask mask_of(const FmhaConfig& config, std::int64_t queries, std::int64_t keys) {
  return {config.causal, static_cast<int>(queries), static_cast<int>(keys)};
}

double visible_keys(const fmha::Mask& mask) {
  double sum = 0;
  for (int row = 0; row < mask.queries; ++row) sum += mask.end_of(row) - mask.keys_of(row).first;
  return sum;
}

}  // namespace tj::ops
