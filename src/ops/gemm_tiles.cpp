// Which tile suits a problem; see gemm.hpp.
//
// Decides by whole cycles from the arch's facts: waves of tiles over the SMs, iterations of a tile by the busier of matrix unit
// and copies, what a tile takes besides. Does not schedule: the schedule of a tile reaches the same interval.
// Invariant: same sizes, kernel and arch, same tile, on any machine.
#include <algorithm>
#include <cmath>

#include "ops/gemm.hpp"
#include "ops/gemm_params.cuh"

namespace tj::ops {
namespace {

using gemm::kRowsPerConsumer;

constexpr GemmTile kTiles[] = {
    {128, 256, 64}, {128, 192, 64}, {128, 128, 64}, {64, 256, 64}, {128, 64, 64}, {64, 128, 64}, {64, 64, 128}, {64, 32, 128},
};
constexpr std::size_t kTileCount = std::size(kTiles);
constexpr int kElementBytes = 2;

std::int64_t whole(double cycles) { return static_cast<std::int64_t>(std::ceil(cycles)); }
std::int64_t up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// What the choice needs of an arch, as numbers that a hot call can read.
struct Rates {
  const arch::Arch* arch = nullptr;
  double copy_cycles_per_byte = 0;
  std::array<std::int64_t, kTileCount> matrix{};                   ///< of an iteration
  std::array<std::array<GemmTileCycles, 2>, kTileCount> cycles{};  ///< by tile, then 16-bit and f32 output
};

std::int64_t matrix_cycles(const GemmTile& tile, const arch::Arch& arch) {
  return whole(2.0 * tile.block_m * tile.block_n * tile.block_k / arch.fact("matrix_flops_per_cycle"));
}

Rates rates_of(const arch::Arch& arch) {
  arch::require(arch, "gemm", gemm_needs());
  Rates rates;
  rates.arch = &arch;
  rates.copy_cycles_per_byte = arch.fact("copy_cycles_per_kb") / 1024;
  for (std::size_t t = 0; t < kTileCount; ++t) {
    rates.matrix[t] = matrix_cycles(kTiles[t], arch);
    rates.cycles[t] = {gemm_tile_cycles(kTiles[t], 2, arch), gemm_tile_cycles(kTiles[t], 4, arch)};
  }
  return rates;
}

std::vector<Rates> known_rates() {
  std::vector<Rates> list;
  for (const arch::Arch* arch : arch::all())
    if (arch::lacks(*arch, gemm_needs()).empty()) list.push_back(rates_of(*arch));
  return list;
}

std::int64_t predicted(const GemmSizes& sizes, std::size_t t, bool wide_output, const Rates& rates) {
  const GemmTile& tile = kTiles[t];
  const GemmTileCycles& cycles = rates.cycles[t][wide_output ? 1 : 0];
  const std::int64_t tiles = up(sizes.m, tile.block_m) * up(sizes.n, tile.block_n) * sizes.batch;
  const std::int64_t waves = up(tiles, std::max(1, rates.arch->sm_count));
  // Rows outside the matrix are filled with zeros and cost no traffic.
  const std::int64_t bytes =
      (std::min<std::int64_t>(sizes.m, tile.block_m) + std::min<std::int64_t>(sizes.n, tile.block_n)) * tile.block_k * kElementBytes;
  const std::int64_t iteration = std::max(rates.matrix[t], whole(static_cast<double>(bytes) * rates.copy_cycles_per_byte));
  return cycles.start + waves * (up(sizes.k, tile.block_k) * iteration + cycles.end);
}

}  // namespace

std::span<const GemmTile> gemm_tiles() { return kTiles; }

GemmTileCycles gemm_tile_cycles(const GemmTile& tile, int out_bytes, const arch::Arch& arch) {
  GemmTileCycles result;
  const double kb = static_cast<double>(tile.block_m + tile.block_n) * tile.block_k * kElementBytes / 1024;
  const double outputs = static_cast<double>(tile.block_m) * tile.block_n;
  const double copy = kb * arch.fact("copy_cycles_per_kb");
  result.iteration = std::max(matrix_cycles(tile, arch), whole(copy));
  result.start = whole(arch.fact("copy_latency_cycles") + copy);
  // The last products come in; then an element is scaled, biased, rounded (two at a time), and leaves as fast as copies come.
  result.end =
      whole(arch.fact("matrix_drain_cycles") + outputs * (2.0 / arch.fact("f32_per_cycle") + 0.5 / arch.fact("convert_per_cycle")) +
            outputs * out_bytes / 1024 * arch.fact("copy_cycles_per_kb"));
  return result;
}

int choose_gemm_tile(const GemmSizes& sizes, const GemmKernel& kernel, const arch::Arch& arch) {
  static const std::vector<Rates> known = known_rates();
  const auto found = std::find_if(known.begin(), known.end(), [&](const Rates& rates) { return rates.arch == &arch; });
  const Rates own = found == known.end() ? rates_of(arch) : Rates{};
  const Rates& rates = found == known.end() ? own : *found;
  int best = -1;
  std::int64_t best_cycles = 0;
  for (std::size_t t = 0; t < kTileCount; ++t) {
    if (kernel.right_mn && kTiles[t].block_n % gemm::kSwizzleColumns != 0) continue;  // b's columns lie in whole blocks
    const std::int64_t cycles = predicted(sizes, t, kernel.out == DType::f32, rates);
    if (best >= 0 && cycles >= best_cycles) continue;
    best = static_cast<int>(t);
    best_cycles = cycles;
  }
  return best;
}

}  // namespace tj::ops
