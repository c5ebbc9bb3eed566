// See prediction.hpp.
#include "dist/prediction.hpp"

#include <algorithm>

namespace tj::dist {
namespace {

constexpr double kLinkBytesPerS = 360e9;     // one way, by a copy engine
constexpr double kMemoryBytesPerS = 4.2e12;  // read and written together
constexpr double kFlopsPerS = 600e12;        // of attention in 16 bits
constexpr double kProcessors = 132;
constexpr double kLaunchS = 4e-6;  // of a launch that waits for another one, or of a copy

}  // namespace

Predicted predict(const Load& load) {
  const double link = load.remote_bytes / kLinkBytesPerS + kLaunchS, all = load.flops / kFlopsPerS,
               own = load.own_flops / kFlopsPerS, half_a_tile = load.tile_flops / (kFlopsPerS / kProcessors) / 2;
  // Rows of the rank's own go into the gathered ones; states of f32 are written twice and read twice.
  const double local = 2 * load.own_bytes / kMemoryBytesPerS,
               states = 4 * sizeof(float) * load.output_values / kMemoryBytesPerS;
  return {std::max(link, local) + all, std::max(link, own + half_a_tile) + all - own + states + 2 * kLaunchS};
}

}  // namespace tj::dist
