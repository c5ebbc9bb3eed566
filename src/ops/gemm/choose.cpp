// The choice of a problem's tile, and of the number of parts that K is cut into; see gemm.hpp.
//
// Decides by the cycles of rates.hpp. Does not schedule: the schedule of a tile reaches the same interval.
// Invariant: same sizes, kernel and arch, same choice, on any machine. Operands count as dense, so that preparing by
// sizes and calling with tensors agree.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "ops/common/choice_shelf.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "ops/gemm/rates.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using gemm::kRowsPerConsumer;
using Rates = GemmRates;
using Prediction = GemmPrediction;

constexpr int kMostPartWaves = 4;  // of tiles of all parts: with more, whole tiles fill the SMs as well
// Parts are taken where their prediction is below this share of the best without: they cost memory, and what is
// predicted within that is predicted alike. Joint limits (rates.hpp) predict more closely.
constexpr double kPartsGain = 0.9;
constexpr double kAlike = 1.01;  // predictions so far apart say nothing, where limits were not measured jointly
std::int64_t up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

bool joint(const Rates& rates) { return rates.joint_bytes_per_cycle > 0; }

std::vector<Rates> known_rates() {
  std::vector<Rates> list;
  for (const arch::Arch* arch : arch::all())
    if (gemm_serves(*arch)) list.push_back(gemm_rates_of(*arch));
  return list;
}

double predicted(const GemmSizes& sizes, const GemmKernel& kernel, const GemmChoice& choice, const Rates& rates) {
  return Prediction(sizes, kernel, choice.tile, rates).cycles(choice.parts);
}

bool serves(const GemmTile& tile, const GemmSizes& sizes, const GemmKernel& kernel, const Rates& rates) {
  if (tile.blocks() > std::min<std::int64_t>(rates.arch->max_cluster, sizes.sms(*rates.arch)) ||
      rates.beside[static_cast<std::size_t>(&tile - gemm_tiles().data())] == 0 ||
      (tile.sliced() && sizes.max_sms > 0))  // a block does one tile there
    return false;
  // Threads read only what the engine cannot, as they are slower.
  if (tile.reads && sizes.k * tile.element_bytes % kCopyAlignmentBytes == 0) return false;
  const bool too_low =
      tile.block_m < kRowsPerConsumer && sizes.m > tile.block_m && !tile.swapped;  // several would share no copy of b
  // Blocks' tiles are counted in 32 bits. validate() sees to those of 64 x 32 and more, but for clusters.
  const bool countable = (tile.block_m >= 64 && tile.block_n >= 32 && tile.blocks() == 1) ||
                         clusters_of(sizes, tile) * tile.blocks() <= std::numeric_limits<std::int32_t>::max();
  return !too_low && countable && gemm_tile_fits(tile, kernel, *rates.family);
}

/// The rates of an arch that a target's options have made. Both live as long as the process. Null for another arch.
const Rates* made_rates(const arch::Arch& arch) {
  if (arch::find(arch.name) != &arch) return nullptr;
  static constinit support::Mutex mutex;
  static constinit support::Lasting<std::map<const arch::Arch*, Rates>> made;
  const std::lock_guard lock(mutex);
  const auto found = made.get().find(&arch);
  return found != made.get().end() ? &found->second : &made.get().emplace(&arch, gemm_rates_of(arch)).first->second;
}

/// The rates of all archs with a name, computed once.
const std::vector<Rates>& all_rates() {
  static constinit support::Lasting<const std::vector<Rates>> all;
  return all.get(known_rates);
}

/// The last rates that options made, one for each thread: hot calls find them without a lock.
const Rates*& last_made() {
  thread_local constinit const Rates* last = nullptr;
  return last;
}

/// Does the arch stay at its address? Then what was found for it holds on.
bool lasts(const arch::Arch& arch) {
  const auto& all = all_rates();
  return std::any_of(all.begin(), all.end(), [&](const Rates& rates) { return rates.arch == &arch; }) ||
         (last_made() != nullptr && last_made()->arch == &arch) || arch::find(arch.name) == &arch;
}

/// Null for an arch that may go away.
const Rates* known(const arch::Arch& arch, const GemmKernel& kernel) {
  const auto meant = [&](const Rates& rates) {
    return rates.arch == &arch && (rates.narrow || kernel.dtype != DType::e4m3);
  };
  for (const Rates& rates : all_rates())
    if (meant(rates)) return &rates;
  const Rates*& last = last_made();
  if (last != nullptr && meant(*last)) return last;
  gemm_require_type(kernel, arch);
  return last = made_rates(arch);
}

/// The tile's best number of parts among those that fill the SMs once, twice, ... and some between, as hot calls of new
/// sizes wait for it; parts 1 where K has a single iteration, or whole tiles fill the SMs several times. Numbers that
/// give the same iterations are one number, the least.
RankedGemm best_parts(const GemmSizes& sizes, const GemmKernel& kernel, int tile, const Rates& rates) {
  const GemmTile& shape = gemm_tiles()[static_cast<std::size_t>(tile)];
  // Blocks share K as it is; some ends need whole sums.
  if (kernel.walk == WalkChoice::split || shape.sliced() || kernel.whole()) return {{tile, 1}, 0};
  const std::int64_t blocks = up(sizes.k, shape.block_k);
  const Prediction prediction(sizes, kernel, tile, rates);
  const double fill = cluster_places(sizes, shape, *rates.arch) / clusters_of(sizes, shape);
  // With parts of K, larger clusters are taken in one wave alone (gemm_taken_unmeasured).
  const int most_waves = shape.blocks() > 2 ? 1 : kMostPartWaves;
  const auto most = [&](double waves) {
    return std::min({blocks, static_cast<std::int64_t>(waves * fill), std::int64_t{kMostGemmParts}});
  };
  RankedGemm best{{tile, 1}, 0};
  std::int64_t rated = 1;
  const auto rate = [&](std::int64_t wanted) {
    const std::int64_t parts = wanted < 2 ? 1 : up(blocks, up(blocks, wanted));
    if (parts < 2 || parts == rated) return;
    rated = parts;
    const GemmChoice choice{tile, static_cast<int>(parts)};
    const double cycles = prediction.cycles(choice.parts);
    if (best.choice.parts == 1 || cycles < best.cycles) best = {choice, cycles};
  };
  for (int waves = 1; waves <= most_waves; ++waves) rate(most(waves));
  for (std::int64_t parts = 2; parts <= most(most_waves); parts = std::max(parts + 1, parts * 5 / 4)) rate(parts);
  return best;
}

/// Cycles of a tile for groups whose rows nobody knows. Of few, the mean over rows spread about the expected ones: some
/// groups have more, and take a second tile. Random routing of 64 rows to each of 8 experts spreads by 12%; peers'
/// tests draw from 0.7 to 1.3 of the expected rows, as these are. With 64 expected rows, tiles of 64 rows took 611 us
/// in a layer of Mixtral-8x7B in e4m3, whose weights take 350 to read (H200, 2026-11-30). Of many rows, half of the
/// groups leave the last blocks of a cluster without; tiles by themselves are alike there.
double expected_cycles(const GemmSizes& sizes, const GemmKernel& kernel, int tile, const Rates& rates) {
  constexpr std::int64_t kMany = 256;  // no tile has more
  constexpr std::array kOfExpected = {0.76, 0.88, 1.0, 1.12, 1.24};
  const GemmTile& shape = gemm_tiles()[static_cast<std::size_t>(tile)];
  const bool groups = joint(rates) && kernel.groups != Groups::none && kernel.groups != Groups::depths;
  if (!groups) return predicted(sizes, kernel, {tile, 1}, rates);
  if (sizes.m >= kMany)
    return (1 + (shape.cluster_m - 1) * shape.block_m / (2.0 * static_cast<double>(sizes.m))) *
           predicted(sizes, kernel, {tile, 1}, rates);
  double sum = 0;
  for (const double share : kOfExpected) {
    GemmSizes some = sizes;
    some.m = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(sizes.m)));
    sum += predicted(some, kernel, {tile, 1}, rates);
  }
  return sum / static_cast<double>(kOfExpected.size());
}

/// The tile with the fewest cycles. Where limits were not measured jointly, tiles that differ by less than a prediction
/// can tell are alike: then it is the largest, in a cluster if there is one, which reads less. So it is with groups:
/// nobody knows their rows, and each further kernel takes half a second of a core. None has more rows than the fastest
/// there, and the first of equals is taken at all numbers of rows. The cycles are the fewest, of whichever tile.
RankedGemm best_whole(const GemmSizes& sizes, const GemmKernel& kernel, const Rates& rates) {
  const bool groups = joint(rates) && kernel.groups != Groups::none;
  std::array<double, kGemmTileCount> cycles;
  cycles.fill(std::numeric_limits<double>::infinity());
  for (std::size_t t = 0; t < kGemmTileCount; ++t)
    if (const double doubt = gemm_doubt(gemm_tiles()[t], sizes, *rates.arch);
        std::isfinite(doubt) && serves(gemm_tiles()[t], sizes, kernel, rates))
      cycles[t] = doubt * expected_cycles(sizes, kernel, static_cast<int>(t), rates);
  const auto fastest = std::min_element(cycles.begin(), cycles.end());
  const double fewest = *fastest, alike = joint(rates) && !groups ? 1 : kAlike;
  const int most_rows = gemm_tiles()[static_cast<std::size_t>(fastest - cycles.begin())].block_m;
  const auto preferred = [&](std::size_t t, std::size_t other) {
    const auto size = [](const GemmTile& tile) { return std::tuple(tile.block_m * tile.block_n, tile.blocks()); };
    const auto one = size(gemm_tiles()[t]), another = size(gemm_tiles()[other]);
    return one != another ? one > another : !groups && cycles[t] < cycles[other];
  };
  std::size_t best = kGemmTileCount;
  for (std::size_t t = 0; t < kGemmTileCount; ++t)
    if (std::isfinite(cycles[t]) && cycles[t] <= fewest * alike && !(groups && gemm_tiles()[t].block_m > most_rows) &&
        (best == kGemmTileCount || preferred(t, best)))
      best = t;
  if (best == kGemmTileCount)
    support::fail(Stage::target, Code::unsupported,
                  support::cat("gemm does not run on '", rates.arch->name, "', whose blocks have ",
                               rates.arch->smem_per_block_bytes, " bytes of shared memory: no tile's ring fits"));
  return {{static_cast<int>(best), 1}, fewest};
}

/// From so many tiles of long K for each block on, blocks draw them. Else those that are a little faster get ahead by
/// whole tiles, and L2 no longer has for the others what they read. 6314 x 64128 x 8184 took 12.4 ms in
/// 128x256x64c2x1, and 10.4 drawn; 15017 x 4096 x 7168 took 1349 us in 208x128x64c1x2s, and 1233 drawn. Most others of
/// ten tiles and more a block take the same time within 3% (H100, 2026-11-27).
constexpr double kDrawnWaves = 15;
constexpr std::int64_t kDrawnDepth = 2048;  // of K; with less, the draws' counter costs up to 2%

/// Measured of single products of 16-bit elements. Matrices of a batch share nothing.
bool drawn(const GemmSizes& sizes, const GemmTile& tile, const Rates& rates) {
  return joint(rates) && !tile.sliced() && sizes.batch == 1 && tile.element_bytes == 2 && sizes.k >= kDrawnDepth &&
         clusters_of(sizes, tile) >= kDrawnWaves * cluster_places(sizes, tile, *rates.arch);
}

/// The walk that such a choice needs under a limit: kernels of AMD alone have a tile a block.
void set_limited_walk(const GemmSizes& sizes, const arch::Arch& arch, GemmChoice& choice) {
  if (sizes.max_sms > 0) choice.walk = limited_walk(arch, arch.shared_barriers);
}

/// The tile that blocks finish the soonest when they share tiles. Only where that was measured, and where the call asks
/// for no other walk. Tile -1: there is none.
RankedGemm best_shared(const GemmSizes& sizes, const GemmKernel& kernel, const Rates& rates) {
  RankedGemm best{{-1, 1, kNoGemmRung, WalkChoice::split}, 0};
  const bool usual = sizes.max_sms == 0 && kernel.walk == WalkChoice::usual && !kernel.parts && !kernel.whole();
  if (rates.stores.piece_cycles <= 0 || !usual) return best;
  for (std::size_t t = 0; t < kGemmTileCount; ++t) {
    const GemmTile& tile = gemm_tiles()[t];
    if (tile.blocks() > 2 || tile.sliced() || drawn(sizes, tile, rates) || !serves(tile, sizes, kernel, rates) ||
        !gemm_shares(sizes, tile, *rates.arch))
      continue;
    const double cycles = Prediction(sizes, kernel, static_cast<int>(t), rates).split_cycles();
    if (best.choice.tile < 0 || cycles < best.cycles) best.choice.tile = static_cast<int>(t), best.cycles = cycles;
  }
  return best;
}

RankedGemm fewest_cycles(const GemmSizes& sizes, const GemmKernel& kernel, const Rates& rates) {
  RankedGemm whole = best_whole(sizes, kernel, rates);
  if (kernel.groups != Groups::none) {  // no tile is known before the lists are read
    set_limited_walk(sizes, *rates.arch, whole.choice);
    return whole;
  }
  const double gain = joint(rates) ? kGemmJointPartsGain : kPartsGain;
  RankedGemm cut{{-1, 1}, 0};
  for (std::size_t t = 0; t < kGemmTileCount && whole.cycles * gain > rates.next_launch_cycles; ++t) {
    if (!gemm_taken_unmeasured(gemm_tiles()[t], sizes, *rates.arch) || !serves(gemm_tiles()[t], sizes, kernel, rates))
      continue;
    if (const RankedGemm ranked = best_parts(sizes, kernel, static_cast<int>(t), rates);
        ranked.choice.parts > 1 && (cut.choice.tile < 0 || ranked.cycles < cut.cycles))
      cut = ranked;
  }
  RankedGemm best = cut.choice.tile >= 0 && cut.cycles < gain * whole.cycles ? cut : whole;
  if (const RankedGemm shared = best_shared(sizes, kernel, rates);
      shared.choice.tile >= 0 && shared.cycles < kGemmSharedGain * best.cycles)
    return shared;
  set_limited_walk(sizes, *rates.arch, best.choice);
  if (sizes.max_sms == 0 && kernel.walk == WalkChoice::usual && best.choice.parts == 1 &&
      drawn(sizes, gemm_tiles()[static_cast<std::size_t>(best.choice.tile)], rates))
    best.choice.walk = WalkChoice::dynamic;
  return best;
}

Kernel made_choice(const ProblemKey& problem, const arch::Arch& arch) {
  GemmKernel kind = gemm_kernel(problem.kind);
  if (kind.rung != kNoGemmRung) {
    set_gemm_rung(kind, kind.rung, &arch);
    return gemm_kernel_of(problem, {kind.tile, 1});
  }
  const Rates* rates = known(arch, kind);
  gemm_require_end(kind, arch);
  return gemm_kernel_of(
      problem, fewest_cycles(gemm_sizes(problem), kind, rates != nullptr ? *rates : gemm_rates_of(arch)).choice);
}

}  // namespace

Kernel choose_gemm(const ProblemKey& problem, const arch::Arch& arch) {
  if (!lasts(arch)) return made_choice(problem, arch);  // its address may be used again
  if (const Kernel* made = ChoiceShelf<GemmKernel>::find(problem, arch)) return *made;
  const Kernel kernel = made_choice(problem, arch);
  ChoiceShelf<GemmKernel>::keep(problem, arch, kernel);
  return kernel;
}

GemmChoice choose_gemm(const GemmSizes& sizes, const GemmKernel& kernel, const arch::Arch& arch) {
  return GemmChoice::of(choose_gemm(gemm_problem_key(sizes, kernel), arch).choice);
}

int gemm_consumers(const GemmChoice& choice, const arch::Arch& arch) {
  const GemmFamily& family = gemm_family(arch);
  return family.consumers == nullptr ? 0 : family.consumers(gemm_tiles()[static_cast<std::size_t>(choice.tile)]);
}

bool gemm_is_last_rung(const GemmKernel& kernel, const arch::Arch& arch) {
  const GemmFamily& family = gemm_family(arch);
  return gemm_consumers({kernel.tile}, arch) >= 2 && (family.in_pairs == nullptr || family.in_pairs(kernel));
}

GemmChoice gemm_last_rung(const ProblemKey& problem, const arch::Arch& arch) {
  if (gemm_family(arch).consumers == nullptr) refuse_gemm_rung(kGemmRungs[kGemmOwnRung], arch);
  struct Last;  // has a shelf of its own: rating all tiles takes longer than a launch
  const bool kept = lasts(arch);
  if (const Kernel* made = kept ? ChoiceShelf<Last>::find(problem, arch) : nullptr) return GemmChoice::of(made->choice);
  const GemmKernel kind = gemm_kernel(problem.kind);
  const GemmSizes sizes = gemm_sizes(problem);
  std::optional<GemmChoice> best, full;  // full: with rows for both blocks of a pair
  for (const RankedGemm& ranked : rank_gemm(sizes, kind, arch)) {
    if (gemm_consumers(ranked.choice, arch) < 2) continue;
    if (!best) best = ranked.choice;
    const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)];
    const bool filled = gemm_family(arch).in_pairs == nullptr || sizes.m > tile.block_m;
    if (!full && filled && gemm_is_last_rung(chosen(kind, ranked.choice), arch)) full = ranked.choice;
  }
  if (!best)
    refuse("gemm", Code::unsupported,
           support::cat("rung is ", kGemmRungs[kGemmOwnRung].name, " and no tile of two consumers serves ", sizes.m,
                        "x", sizes.n, "x", sizes.k, " on ", arch.name, "; allowed there: other rungs"));
  const GemmChoice last = full.value_or(*best);
  if (kept) ChoiceShelf<Last>::keep(problem, arch, gemm_kernel_of(problem, last));
  return last;
}

double gemm_split_cycles(const GemmSizes& sizes, const GemmKernel& kernel, int tile, const arch::Arch& arch) {
  const Rates* shipped = known(arch, kernel);
  return Prediction(sizes, kernel, tile, shipped != nullptr ? *shipped : gemm_rates_of(arch)).split_cycles();
}

bool gemm_shares(const GemmSizes& sizes, const GemmTile& tile, const arch::Arch& arch) {
  const std::int64_t iterations = up(sizes.k, tile.block_k);
  const double places = cluster_places(sizes, tile, arch) * gemm_blocks_per_sm(tile, arch);
  return iterations >= 2 * graph::kLeastPiece && std::fmod(clusters_of(sizes, tile), places) != 0;
}

std::vector<RankedGemm> rank_gemm(const GemmSizes& sizes, const GemmKernel& kernel, const arch::Arch& arch) {
  const Rates* shipped = known(arch, kernel);
  gemm_require_end(kernel, arch);
  const Rates rates = shipped != nullptr ? *shipped : gemm_rates_of(arch);
  std::vector<RankedGemm> ranking;
  for (std::size_t t = 0; t < kGemmTileCount; ++t) {
    if (!serves(gemm_tiles()[t], sizes, kernel, rates)) continue;
    const GemmChoice whole{static_cast<int>(t), 1};
    ranking.push_back({whole, predicted(sizes, kernel, whole, rates)});
    if (const RankedGemm cut = best_parts(sizes, kernel, whole.tile, rates); cut.choice.parts > 1)
      ranking.push_back(cut);
  }
  for (RankedGemm& ranked : ranking) set_limited_walk(sizes, arch, ranked.choice);
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const RankedGemm& x, const RankedGemm& y) { return x.cycles < y.cycles; });
  const RankedGemm taken = fewest_cycles(sizes, kernel, rates);
  const auto first = std::find_if(ranking.begin(), ranking.end(),
                                  [&](const RankedGemm& ranked) { return ranked.choice == taken.choice; });
  if (first != ranking.end())
    std::rotate(ranking.begin(), first, first + 1);
  else if (taken.choice.walk == WalkChoice::split || taken.choice.walk == WalkChoice::dynamic)
    ranking.insert(ranking.begin(), taken);
  return ranking;
}

}  // namespace tj::ops
