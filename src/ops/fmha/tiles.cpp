// See tiles.hpp.
#include "ops/fmha/tiles.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/fmha/family.hpp"
#include "ops/fmha/mask.hpp"

namespace tj::ops {
namespace {

constexpr FmhaTile kTiles[] = {{0, 0},    {128, 160}, {128, 128}, {192, 128}, {128, 176}, {256, 128}, {128, 80},
                               {128, 64}, {128, 48},  {256, 48},  {128, 32},  {256, 32},  {64, 64},   {64, 32}};
constexpr const char* kWords[] = {"usual",  "128x160", "128x128", "192x128", "128x176", "256x128", "128x80",
                                  "128x64", "128x48",  "256x48",  "128x32",  "256x32",  "64x64",   "64x32"};
static_assert(std::size(kTiles) == std::size(kWords));

// A tile's loop fills and drains. Source: schedules of all tiles of sm90 are 2.3 to 2.4 intervals long.
constexpr double kIterationsAround = 1.4;
// A tile replaces the usual one for a gain of more than what predictions are off.
constexpr double kWorthIt = 0.97;

double up(std::int64_t value, int by) { return static_cast<double>((value + by - 1) / by); }

/// 0 for a tile that the family does not have.
double cycles_of(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, int tile,
                 const arch::Arch& arch) {
  const auto [rows, keys] = kTiles[tile];
  const double iteration = find_fmha_family(arch)->iteration_cycles(kernel, kTiles[tile], arch);
  const double heads = static_cast<double>(sizes.batch) * static_cast<double>(sizes.heads);
  const double sms = max_sms > 0 ? static_cast<double>(std::min<std::int64_t>(max_sms, arch.sm_count)) : arch.sm_count;
  const double waves = std::ceil(heads * up(sizes.queries, rows) / sms);
  return iteration > 0 ? waves * (up(sizes.keys, keys) + kIterationsAround) * iteration : 0;
}

/// The family's tile for a long call that fills any device: what the scheduler takes by itself.
int usual_tile(const FmhaKernel& kernel, const arch::Arch& arch) {
  constexpr FmhaSizes kLong{1 << 10, 1 << 10, 1 << 10, kTypicalFmhaLength, kTypicalFmhaLength};
  int best = kUsualFmhaTile;
  double fewest = 0;
  for (int t = 1; t < static_cast<int>(std::size(kTiles)); ++t) {
    const double cycles = cycles_of(kernel, kLong, 0, t, arch);
    if (cycles > 0 && (best == kUsualFmhaTile || cycles < fewest)) best = t, fewest = cycles;
  }
  return best;
}

/// Does the family predict, and do calls choose by their sizes? Where rows see different keys, 128 keys ran 1 to 7%
/// faster than 160 at all lengths (causal, D 128, S 512 to 16384, H100, 2026-11-27).
bool by_sizes(const FmhaKernel& kernel, const arch::Arch& arch) {
  const FmhaFamily* family = find_fmha_family(arch);
  return family != nullptr && family->iteration_cycles != nullptr && kernel.rung == kNoFmhaRung &&
         kernel.tile == kUsualFmhaTile && !mask_of(kernel).rows_differ();
}

}  // namespace

std::span<const FmhaTile> fmha_tiles() { return kTiles; }
std::span<const char* const> fmha_tile_words() { return kWords; }
std::vector<std::string> fmha_tile_flags() { return {std::begin(kWords), std::end(kWords)}; }
int place_of_fmha_tile(const FmhaTile& tile) {
  return static_cast<int>(std::find(std::begin(kTiles), std::end(kTiles), tile) - std::begin(kTiles));
}

double fmha_tile_cycles(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, int tile,
                        const arch::Arch& arch) {
  if (!by_sizes(kernel, arch)) return 0;
  return cycles_of(kernel, sizes, max_sms, tile == kUsualFmhaTile ? usual_tile(kernel, arch) : tile, arch);
}

int choose_fmha_tile(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, const arch::Arch& arch) {
  if (!by_sizes(kernel, arch)) return kUsualFmhaTile;
  const int usual = usual_tile(kernel, arch);
  const auto cycles = [&](int t) { return cycles_of(kernel, sizes, max_sms, t, arch); };
  int best = kUsualFmhaTile;
  double fewest = kWorthIt * cycles(usual);
  for (int t = 1; t < static_cast<int>(std::size(kTiles)); ++t)
    if (const double own = cycles(t); own > 0 && own < fewest) best = t, fewest = own;
  return best;
}

std::vector<int> taken_fmha_tiles(const FmhaKernel& kernel, const arch::Arch& arch) {
  std::vector<int> tiles = {kUsualFmhaTile};
  if (!by_sizes(kernel, arch)) return tiles;
  const int usual = usual_tile(kernel, arch);
  for (int t = 1; t < static_cast<int>(std::size(kTiles)); ++t)
    if (t != usual && find_fmha_family(arch)->iteration_cycles(kernel, kTiles[t], arch) > 0) tiles.push_back(t);
  return tiles;
}

}  // namespace tj::ops
