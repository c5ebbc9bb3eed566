// Rates of products on an arch, and which tiles are taken by their prediction; see rates.hpp.
#include "ops/gemm/rates.hpp"

#include <algorithm>
#include <limits>

namespace tj::ops {
namespace {

std::int64_t up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace

GemmRates gemm_rates_of(const arch::Arch& arch) {
  const GemmFamily& family = gemm_family(arch);
  arch::require(arch, "gemm", *family.needs(arch, size_of(DType::f16)));
  const GemmCopyRates copies = family.copy_rates(arch);
  GemmRates rates;
  rates.arch = &arch;
  rates.family = &family;
  rates.narrow = gemm_serves(arch, size_of(DType::e4m3));
  rates.copy_cycles_per_byte = copies.crowded_cycles_per_kb / 1024;
  rates.multicast_factor = copies.multicast_factor;
  rates.unaligned_factor = copies.unaligned_factor;
  rates.copy_outside_row_cycles = copies.outside_row_cycles;
  rates.copy_partial_row_cycles = copies.partial_row_cycles;
  const auto or_fact = [&](double rate, const char* fact) { return rate > 0 ? rate : arch.fact(fact); };
  rates.cache_bytes = or_fact(copies.cached_bytes, "cache_bytes");
  rates.memory_bytes_per_cycle = or_fact(copies.memory_bytes_per_cycle, "memory_bytes_per_cycle");
  // The rate of all SMs from the cache, for what nobody has measured.
  const double path = arch.sm_count / rates.copy_cycles_per_byte;
  const auto measured = [&](const char* fact) { return arch.has_fact(fact) ? arch.fact(fact) : path; };
  rates.cache_bytes_per_cycle = copies.cache_bytes_per_cycle > 0 ? copies.cache_bytes_per_cycle : path;
  rates.unaligned_bytes_per_cycle = measured("unaligned_copy_bytes_per_cycle");
  rates.sustained_bytes_per_cycle = measured("sustained_copy_bytes_per_cycle");
  rates.copy_latency_cycles = copies.latency_cycles;
  if (family.store_rates != nullptr) {
    rates.stores = family.store_rates(arch);
    rates.turn_cycles = arch.fact("tile_turn_cycles");
  }
  rates.next_launch_cycles = arch.fact("next_launch_cycles");
  rates.joint_bytes_per_cycle = copies.joint_bytes_per_cycle;
  rates.joint_outside_rows_per_cycle = copies.joint_outside_rows_per_cycle;
  rates.kb_power_cycles = copies.kb_power_cycles;
  rates.hidden_start_cycles = copies.hidden_start_cycles;
  rates.issue_cycles = copies.issue_cycles;
  rates.shared_issue_cycles = copies.shared_issue_cycles;
  rates.slice_copy_factor = copies.slice_copy_factor;
  rates.shared_slice_copy_factor = copies.shared_slice_copy_factor;
  rates.row_read_cycles = copies.row_read_cycles;
  rates.hidden_launch_cycles = copies.hidden_launch_cycles;
  rates.lone_memory_bytes_per_cycle = copies.lone_memory_bytes_per_cycle;
  rates.memory_slot_cycles = copies.memory_slot_cycles;
  if (arch.cluster_groups > 0) rates.near_sms = static_cast<double>(arch.sm_count) / arch.cluster_groups;
  rates.near_share = copies.near_share;
  if (arch.has_fact("busy_clock_ghz")) rates.slowed = arch.clock_ghz / arch.fact("busy_clock_ghz");
  rates.own_share = family.own_share;
  for (std::size_t i = 0; i < rates.activation_cycles.size(); ++i)
    rates.activation_cycles[i] = gemm_activation_cycles(static_cast<Activation>(i), arch);
  for (std::size_t t = 0; t < kGemmTileCount; ++t) {
    const GemmTile& tile = kGemmTiles[t];
    rates.beside[t] = family.blocks_per_sm(tile, arch);
    if (rates.beside[t] == 0 || (tile.element_bytes == 1 && !rates.narrow)) continue;
    rates.matrix[t] = family.iteration_cycles(tile, arch, false);
    rates.scaled[t] = family.iteration_cycles(tile, arch, true);
    rates.stores_beside[t] = family.stores_beside != nullptr && family.stores_beside(tile, arch);
    if (family.ring_slots != nullptr)
      rates.slots[t] = {family.ring_slots(tile, false, arch), family.ring_slots(tile, true, arch)};
    for (const int out : {0, 1})
      rates.cycles[t][static_cast<std::size_t>(out)] = gemm_tile_cycles(tile, 2 + 2 * out, family, arch);
  }
  return rates;
}

int cluster_places(const GemmSizes& sizes, const GemmTile& tile, const arch::Arch& arch) {
  auto sms = static_cast<int>(sizes.sms(arch));
  if (tile.blocks() > 2 && arch.large_cluster_sms > 0) sms = std::min(sms, arch.large_cluster_sms);
  return std::max(1, sms / tile.blocks());
}
bool gemm_taken_unmeasured(const GemmTile& tile, const GemmSizes& sizes, const arch::Arch& arch) {
  return tile.blocks() <= 2 ||
         (arch.large_cluster_sms > 0 && clusters_of(sizes, tile) <= cluster_places(sizes, tile, arch));
}
double gemm_doubt(const GemmTile& tile, const GemmSizes& sizes, const arch::Arch& arch) {
  constexpr double kLeastGain = 0.08;
  // Blocks that share copies wait for each other, which is not predicted: of few waves they were taken too often. Boxes
  // of few rows arrive more slowly: 146 x 4096 x 3584 takes 14.1 us in 80x64x128c1x2s, and 10.2 in 80x64x128s (H200,
  // 2026-11-29). Pairs of more waves gain at the power limit: 3000 x 28672 x 8192 took 2067 us in 208x128x64c1x2s, and
  // 2273 in 208x128x64s (H100, 2026-11-27). Those of 8-bit elements were not timed again.
  constexpr double kShared = 1.05, kFewRows = 1.1, kSomeWaves = 8;
  constexpr int kRows = 48;
  // Nobody timed more than one wave of them. In one wave they were predicted first in seven sizes, by 5 to 7%. They
  // lost in six: 206 x 3840 x 5120 took 18.2 us, and 16.8 in the best other (H200, 2026-11-30).
  constexpr double kSharedSlices = 1.1;
  if (tile.shares_slices())
    return clusters_of(sizes, tile) > cluster_places(sizes, tile, arch) ? std::numeric_limits<double>::infinity()
                                                                        : kSharedSlices;
  // Slices read as others do where memory is the limit, and have more launches' worth of sums: 9 x 38016 x 3584 takes
  // 73 us in 16x64x128c1x1x2s, 69 in 16x64x128s and 65 in 64x48x128 (H200, 2026-11-29).
  if (tile.sliced() && clusters_of(sizes, tile) > cluster_places(sizes, tile, arch)) return 1 / (1 - kLeastGain);
  // Columns that take turns on one set of partial sums: four waves of pairs below each other took 2 to 6% less than
  // blocks by themselves do (4096 x 4096 x 7168 with SwiGLU, H200, 2026-11-29).
  constexpr double kTurns = 0.96, kTurnsWaves = 3;
  if (tile.takes_turns() && tile.cluster_m == 2 &&
      clusters_of(sizes, tile) > kTurnsWaves * cluster_places(sizes, tile, arch))
    return kTurns;
  if (gemm_taken_unmeasured(tile, sizes, arch)) {
    const bool shared = tile.blocks() >= 2 && !tile.sliced() && arch.large_cluster_sms > 0 &&
                        clusters_of(sizes, tile) <= kSomeWaves * cluster_places(sizes, tile, arch);
    if (!shared) return 1;
    if (tile.element_bytes == 1) return tile.blocks() == 2 ? kShared : 1;
    return tile.cluster_n > 1 && tile.block_m / tile.cluster_n < kRows ? kShared * kFewRows : kShared;
  }
  return tile.blocks() <= 4 && arch.large_cluster_sms > 0 ? 1 / (1 - kLeastGain)
                                                          : std::numeric_limits<double>::infinity();
}
/// Sizes go up to 2^30 each.
double clusters_of(const GemmSizes& sizes, const GemmTile& tile) {
  return static_cast<double>(up(sizes.m, tile.block_m * tile.cluster_m)) *
         static_cast<double>(up(sizes.n, tile.block_n * tile.cluster_n)) * static_cast<double>(sizes.batch);
}

}  // namespace tj::ops
