// See tiles.hpp.
#include "ops/fmha/tiles.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/fmha/family.hpp"
#include "ops/fmha/mask.hpp"
#include "ops/fmha/mods.hpp"

namespace tj::ops {
namespace {

constexpr FmhaTile kTiles[] = {{0, 0},     {128, 160}, {128, 128}, {192, 128}, {128, 176}, {256, 128}, {128, 80},
                               {128, 64},  {128, 48},  {256, 48},  {128, 32},  {256, 32},  {64, 64},   {64, 32},
                               {128, 144}, {128, 112}, {128, 96},  {192, 176}, {192, 160}, {192, 144}, {192, 112},
                               {192, 96},  {192, 80},  {192, 64},  {192, 48},  {64, 176},  {64, 160},  {64, 144},
                               {64, 128},  {64, 112},  {64, 96},   {64, 80},   {64, 48}};
constexpr const char* kWords[] = {"usual",   "128x160", "128x128", "192x128", "128x176", "256x128", "128x80",
                                  "128x64",  "128x48",  "256x48",  "128x32",  "256x32",  "64x64",   "64x32",
                                  "128x144", "128x112", "128x96",  "192x176", "192x160", "192x144", "192x112",
                                  "192x96",  "192x80",  "192x64",  "192x48",  "64x176",  "64x160",  "64x144",
                                  "64x128",  "64x112",  "64x96",   "64x80",   "64x48"};
static_assert(std::size(kTiles) == std::size(kWords));

// A tile's loop fills and drains. Source: schedules of all tiles of sm90 are 2.3 to 2.4 intervals long.
constexpr double kIterationsAround = 1.4;

double up(std::int64_t value, int by) { return static_cast<double>((value + by - 1) / by); }

/// A tile that calls may take.
struct Rated {
  int tile = kUsualFmhaTile;
  double iteration = 0;   ///< cycles
  double least_gain = 0;  ///< FmhaFamily::least_gain
};
/// Empty where the family predicts nothing.
struct RatedTiles {
  std::array<Rated, 4> list{};
  std::size_t count = 0;
  std::size_t usual = 0;  ///< the place of what the scheduler takes by itself
  std::span<const Rated> all() const { return {list.data(), count}; }
};

double cycles_of(const Rated& rated, const FmhaSizes& sizes, std::int64_t max_sms, const arch::Arch& arch) {
  const auto [rows, keys] = kTiles[rated.tile];
  const double heads = static_cast<double>(sizes.batch) * static_cast<double>(sizes.heads);
  const double sms = max_sms > 0 ? static_cast<double>(std::min<std::int64_t>(max_sms, arch.sm_count)) : arch.sm_count;
  const double waves = std::ceil(heads * up(sizes.queries, rows) / sms);
  return waves * (up(sizes.keys, keys) + kIterationsAround) * rated.iteration;
}

/// Do calls choose by their sizes? Where rows see different keys, 128 keys ran 1 to 7% faster than 160 at all lengths
/// (causal, D 128, S 512 to 16384, H100, 2026-11-27). Nothing was measured of users' scores.
bool by_sizes(const FmhaKernel& kernel) {
  return kernel.rung == kNoFmhaRung && kernel.tile == kUsualFmhaTile && !mask_of(kernel).tiles_differ() &&
         !has_mods(kernel) && !has_bias(kernel);
}

/// The usual tile is the best for a long call that fills any device.
RatedTiles rated_tiles(const FmhaKernel& kernel, const arch::Arch& arch) {
  constexpr FmhaSizes kLong{1 << 10, 1 << 10, 1 << 10, kTypicalFmhaLength, kTypicalFmhaLength};
  RatedTiles rated;
  const FmhaFamily* family = find_fmha_family(arch);
  if (family == nullptr || family->iteration_cycles == nullptr) return rated;
  for (int t = 1; t < static_cast<int>(std::size(kTiles)); ++t) {
    const Rated own{t, family->iteration_cycles(kernel, kTiles[t], arch), family->least_gain(kernel, kTiles[t])};
    if (own.iteration <= 0 || own.least_gain >= kNoFmhaGain || rated.count == rated.list.size()) continue;
    if (rated.count == 0 || cycles_of(own, kLong, 0, arch) < cycles_of(rated.list[rated.usual], kLong, 0, arch))
      rated.usual = rated.count;
    rated.list[rated.count++] = own;
  }
  return rated;
}

/// Remembered by each thread, as hot calls of new sizes ask for it. Empty where calls do not choose by their sizes.
RatedTiles known_tiles(const FmhaKernel& kernel, const arch::Arch& arch) {
  if (!by_sizes(kernel)) return {};
  if (arch::find(arch.name) != &arch) return rated_tiles(kernel, arch);  // it may go away
  struct Known {
    const arch::Arch* arch = nullptr;
    std::uint64_t kind = 0;
    RatedTiles tiles;
  };
  thread_local constinit std::array<Known, 8> known{};  // full masks: both types, head dims and kinds of scale
  thread_local constinit std::size_t oldest = 0;
  const std::uint64_t kind = fmha_small_key(kernel);
  for (const Known& each : known)
    if (each.arch == &arch && each.kind == kind) return each.tiles;
  Known& place = known[oldest];
  oldest = (oldest + 1) % known.size();
  place = {&arch, kind, rated_tiles(kernel, arch)};
  return place.tiles;
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
  const RatedTiles tiles = known_tiles(kernel, arch);
  for (const Rated& rated : tiles.all())
    if (rated.tile == (tile == kUsualFmhaTile ? tiles.list[tiles.usual].tile : tile))
      return cycles_of(rated, sizes, max_sms, arch);
  return 0;
}

int choose_fmha_tile(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, const arch::Arch& arch) {
  const RatedTiles tiles = known_tiles(kernel, arch);
  if (tiles.count == 0) return kUsualFmhaTile;
  const Rated& usual = tiles.list[tiles.usual];
  const double of_usual = cycles_of(usual, sizes, max_sms, arch);
  int best = kUsualFmhaTile;
  double fewest = of_usual;
  for (const Rated& rated : tiles.all()) {
    const double own = cycles_of(rated, sizes, max_sms, arch);
    if (&rated != &usual && own < fewest && own < (1 - rated.least_gain) * of_usual) best = rated.tile, fewest = own;
  }
  return best;
}

std::vector<int> taken_fmha_tiles(const FmhaKernel& kernel, const arch::Arch& arch) {
  const RatedTiles tiles = known_tiles(kernel, arch);
  std::vector<int> taken = {kUsualFmhaTile};
  for (const Rated& rated : tiles.all())
    if (&rated != &tiles.list[tiles.usual]) taken.push_back(rated.tile);
  return taken;
}

}  // namespace tj::ops
