// See prediction.hpp.
#include "dist/prediction.hpp"

#include <algorithm>

namespace tj::dist {
namespace {

// Copy engines between two H200 take 26 us for 8 MB and 348 for 128 MB, both ways at once as fast as one way. The word
// behind them takes 4 us, its wait one (tests/gpu/product_parts.py, 2026-11-30).
constexpr double kLinkBytesPerS = 392e9, kLinkS = 10e-6;
constexpr double kMemoryBytesPerS = 4.2e12;   // read and written together
constexpr double kFlopsPerS = 600e12;         // of attention in 16 bits
constexpr double kProductFlopsPerS = 710e12;  // 8192^3 of f16 takes 1.54 ms
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

/// Pieces behind which launch n of so many ends.
int pieces_until(const Shards& shards, int n, int launches) { return (n + 1) * shards.pieces / launches; }
double launch_s(const Shards& shards, int pieces) {
  return kLaunchS + shards.flops * pieces / shards.pieces / kProductFlopsPerS;
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

double merging_s(int states, double output_values) {
  return 2 * states * sizeof(float) * output_values / kMemoryBytesPerS + kLaunchS;
}

double heads_s(const HeadsLoad& load) {
  return 2 * kLinkS + (load.bytes_in + load.bytes_back) / kLinkBytesPerS + load.flops / kFlopsPerS +
         2 * load.own_bytes / kMemoryBytesPerS + 3 * kLaunchS;
}

double gather_s(const Shards& shards, double own_flops, int launches) {
  double now = own_flops / kProductFlopsPerS;
  const double piece_s = shards.bytes / shards.pieces / kLinkBytesPerS;
  for (int shard = 0; shard < shards.count; ++shard)
    for (int n = 0, begin = 0; n < launches; ++n) {
      const int end = pieces_until(shards, n, launches);
      now = std::max(now, kLinkS + (shard * shards.pieces + end) * piece_s) + launch_s(shards, end - begin);
      begin = end;
    }
  return now;
}

int gather_launches(const Shards& shards, double own_flops) {
  int best = 1;
  for (int launches = 2; launches <= shards.pieces; ++launches)
    if (gather_s(shards, own_flops, launches) < gather_s(shards, own_flops, best)) best = launches;
  return best;
}

double scatter_s(const Shards& shards, ScatterLaunches launches) {
  const double piece_s = shards.bytes / shards.pieces / kLinkBytesPerS;
  std::vector<double> come(static_cast<std::size_t>(shards.pieces), 0.);
  double now = 0, link = 0;
  for (int shard = 0; shard < shards.count; ++shard)
    for (int n = 0, piece = 0; n < launches.sent; ++n) {
      const int end = pieces_until(shards, n, launches.sent);
      now += launch_s(shards, end - piece);
      for (; piece < end; ++piece) {
        link = std::max(link, now + kLinkS) + piece_s;
        come[static_cast<std::size_t>(piece)] = link;  // what is sent and what comes take equal times
      }
    }
  for (int n = 0, begin = 0; n < launches.own; ++n) {
    const int end = pieces_until(shards, n, launches.own);
    if (shards.count == 1) now = std::max(now, come[static_cast<std::size_t>(end - 1)]);
    now += launch_s(shards, end - begin);
    if (shards.pass_bytes > 0) now += kLaunchS + shards.pass_bytes * (end - begin) / shards.pieces / kMemoryBytesPerS;
    begin = end;
  }
  return std::max(now, link);
}

ScatterLaunches scatter_launches(const Shards& shards) {
  ScatterLaunches best;
  for (int sent = 1; sent <= shards.pieces; ++sent)
    for (int own = 1; own <= (shards.count == 1 ? shards.pieces : 1); ++own)
      if (scatter_s(shards, {sent, own}) < scatter_s(shards, best)) best = {sent, own};
  return best;
}

}  // namespace tj::dist
