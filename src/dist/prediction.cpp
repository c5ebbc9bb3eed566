// See prediction.hpp.
#include "dist/prediction.hpp"

#include <algorithm>

namespace tj::dist {
namespace {

constexpr double kLaunchS = 4e-6;  // of a launch that waits for another one
// Shares of the matrix units' rate at the clock that lasts. Attention of 16 bits has 600 TFLOP/s on an H200. A product
// of f16, 8192^3 in 1.54 ms, has 710 (README.md, 2026-11-30).
constexpr double kAttentionShare = 0.632, kProductShare = 0.748;
// Links of an arch that has no facts of them: NVLink 4 and 5 have a tenth of their GPU's memory rate.
constexpr double kLinkShare = 0.1, kUnknownLinkS = 10e-6;

/// Each step begins behind the one before and when its bytes have come.
double end_of(const Rates& rates, const std::vector<Step>& steps, double begin) {
  double now = begin;
  for (const Step& step : steps) {
    const double come = step.bytes_before > 0 ? step.bytes_before / rates.link_bytes_per_s + rates.link_s : 0;
    now = std::max(now, come) + step.flops / rates.attention_flops_per_s;
  }
  return now;
}

/// Pieces behind which launch n of so many ends.
int pieces_until(const Shards& shards, int n, int launches) { return (n + 1) * shards.pieces / launches; }
double launch_s(const Rates& rates, const Shards& shards, int pieces) {
  return kLaunchS + shards.flops * pieces / shards.pieces / rates.product_flops_per_s;
}

}  // namespace

Rates rates_of(const arch::Arch& arch) {
  const double hz = arch.clock_ghz * 1e9, flops_per_s = arch.fact("matrix_flops_per_cycle") * arch.sm_count * hz;
  Rates rates;
  rates.memory_bytes_per_s = arch.fact("memory_bytes_per_cycle") * hz;
  const bool known = arch.has_fact("link_bytes_per_cycle") && arch.has_fact("link_latency_cycles");
  rates.link_bytes_per_s = known ? arch.fact("link_bytes_per_cycle") * hz : kLinkShare * rates.memory_bytes_per_s;
  rates.link_s = known ? arch.fact("link_latency_cycles") / hz : kUnknownLinkS;
  rates.attention_flops_per_s = kAttentionShare * flops_per_s;
  rates.product_flops_per_s = kProductShare * flops_per_s;
  rates.processors = arch.sm_count;
  return rates;
}

Predicted predict(const Rates& rates, const Load& load) {
  // Rows of the rank's own go into the gathered ones; states of f32 are written twice and read twice.
  const double local = 2 * load.own_bytes / rates.memory_bytes_per_s,
               states = 4 * sizeof(float) * load.output_values / rates.memory_bytes_per_s,
               half_a_tile = load.tile_flops / (rates.attention_flops_per_s / rates.processors) / 2;
  std::vector<Step> own_first = load.own_first;
  if (own_first.size() > 1) own_first[0].flops += half_a_tile * rates.attention_flops_per_s;
  return {end_of(rates, load.whole, local),
          end_of(rates, own_first, 0) + (own_first.size() > 1 ? states + 2 * kLaunchS : 0)};
}

double merging_s(const Rates& rates, int states, double output_values) {
  return 2 * states * sizeof(float) * output_values / rates.memory_bytes_per_s + kLaunchS;
}

double heads_s(const Rates& rates, const HeadsLoad& load) {
  return 2 * rates.link_s + (load.bytes_in + load.bytes_back) / rates.link_bytes_per_s +
         load.flops / rates.attention_flops_per_s + 2 * load.own_bytes / rates.memory_bytes_per_s + 3 * kLaunchS;
}

double gather_s(const Rates& rates, const Shards& shards, double own_flops, int launches) {
  double now = own_flops / rates.product_flops_per_s;
  const double piece_s = shards.bytes / shards.pieces / rates.link_bytes_per_s;
  for (int shard = 0; shard < shards.count; ++shard)
    for (int n = 0, begin = 0; n < launches; ++n) {
      const int end = pieces_until(shards, n, launches);
      now =
          std::max(now, rates.link_s + (shard * shards.pieces + end) * piece_s) + launch_s(rates, shards, end - begin);
      begin = end;
    }
  return now;
}

int gather_launches(const Rates& rates, const Shards& shards, double own_flops) {
  int best = 1;
  for (int launches = 2; launches <= shards.pieces; ++launches)
    if (gather_s(rates, shards, own_flops, launches) < gather_s(rates, shards, own_flops, best)) best = launches;
  return best;
}

double scatter_s(const Rates& rates, const Shards& shards, ScatterLaunches launches) {
  const double piece_s = shards.bytes / shards.pieces / rates.link_bytes_per_s;
  std::vector<double> come(static_cast<std::size_t>(shards.pieces), 0.);
  double now = 0, link = 0;
  for (int shard = 0; shard < shards.count; ++shard)
    for (int n = 0, piece = 0; n < launches.sent; ++n) {
      const int end = pieces_until(shards, n, launches.sent);
      now += launch_s(rates, shards, end - piece);
      for (; piece < end; ++piece) {
        link = std::max(link, now + rates.link_s) + piece_s;
        come[static_cast<std::size_t>(piece)] = link;  // what is sent and what comes take equal times
      }
    }
  for (int n = 0, begin = 0; n < launches.own; ++n) {
    const int end = pieces_until(shards, n, launches.own);
    if (shards.count == 1) now = std::max(now, come[static_cast<std::size_t>(end - 1)]);
    now += launch_s(rates, shards, end - begin);
    if (shards.pass_bytes > 0)
      now += kLaunchS + shards.pass_bytes * (end - begin) / shards.pieces / rates.memory_bytes_per_s;
    begin = end;
  }
  return std::max(now, link);
}

ScatterLaunches scatter_launches(const Rates& rates, const Shards& shards) {
  ScatterLaunches best;
  for (int sent = 1; sent <= shards.pieces; ++sent)
    for (int own = 1; own <= (shards.count == 1 ? shards.pieces : 1); ++own)
      if (scatter_s(rates, shards, {sent, own}) < scatter_s(rates, shards, best)) best = {sent, own};
  return best;
}

}  // namespace tj::dist
