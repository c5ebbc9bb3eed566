// See prediction.hpp.
#include "dist/prediction.hpp"

#include <algorithm>

namespace tj::dist {
namespace {

// One way, by a copy engine: 277 GB/s at 16 MB and 394 at 1 GB were measured between two H200.
constexpr double kLinkBytesPerS = 400e9, kLinkS = 18e-6;
constexpr double kMemoryBytesPerS = 4.2e12;  // read and written together
constexpr double kFlopsPerS = 600e12;        // of attention in 16 bits
constexpr double kProcessors = 132;
constexpr double kLaunchS = 4e-6;  // of a launch that waits for another one

/// Each step begins behind the one before and when its bytes have come.
double end_of(const std::vector<Step>& steps, double begin) {
  double now = begin;
  for (const Step& step : steps) {
    const double come = step.bytes_before > 0 ? step.bytes_before / kLinkBytesPerS + kLinkS : 0;
    now = std::max(now, come) + step.flops / kFlopsPerS;
  }
  return now;
}

}  // namespace

Predicted predict(const Load& load) {
  // Rows of the rank's own go into the gathered ones; states of f32 are written twice and read twice.
  const double local = 2 * load.own_bytes / kMemoryBytesPerS,
               states = 4 * sizeof(float) * load.output_values / kMemoryBytesPerS,
               half_a_tile = load.tile_flops / (kFlopsPerS / kProcessors) / 2;
  std::vector<Step> own_first = load.own_first;
  if (own_first.size() > 1) own_first[0].flops += half_a_tile * kFlopsPerS;
  return {end_of(load.whole, local), end_of(own_first, 0) + (own_first.size() > 1 ? states + 2 * kLaunchS : 0)};
}

}  // namespace tj::dist
