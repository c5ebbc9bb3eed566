// See family.hpp.
#include "ops/fmha/family.hpp"

#include <algorithm>
#include <utility>

#include "ops/common/tensor_checks.hpp"
#include "ops/fmha/fields.hpp"
#include "ops/fmha/mask.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

// One line for each family: src/ops/fmha/<name>.cpp defines const FmhaFamily& fmha_<name>().
#define TJ_FMHA_FAMILIES(FAMILY) \
  FAMILY(sm80)                   \
  FAMILY(amd)                    \
  FAMILY(sm100)                  \
  FAMILY(sm90)

namespace tj::ops {

#define TJ_DECLARE(name) const FmhaFamily& fmha_##name();
TJ_FMHA_FAMILIES(TJ_DECLARE)
#undef TJ_DECLARE

namespace {

constexpr int kUsualRows = 128;  // of a tile, where tiles are only counted

#define TJ_LIST(name) fmha_##name,
constexpr const FmhaFamily& (*kFamilies[])() = {TJ_FMHA_FAMILIES(TJ_LIST)};
#undef TJ_LIST

}  // namespace

const FmhaFamily* find_fmha_family(const arch::Arch& arch) {
  for (const auto& family : kFamilies)
    if (family().name == arch.family) return &family();
  return nullptr;
}

/// Iterations, and the flops that the user asked for.
Candidate fmha_candidate(graph::Graph graph, const FmhaKernel& config, const FmhaLaunch& launch, bool turns) {
  Candidate candidate{std::move(graph), 0, 0, turns};
  candidate.geometry = Geometry::of(launch);
  const fmha::Mask mask = mask_of(config, kTypicalFmhaLength, kTypicalFmhaLength);
  const int rows = launch.rows_per_block;
  double tiles = 0, iterations = 0, keys = 0;
  for (int row = 0; row < kTypicalFmhaLength; row += rows, ++tiles) {
    const fmha::Keys blocks = mask.blocks_of(row, rows, launch.block_n);
    const int last = std::min(kTypicalFmhaLength, row + rows) - 1;
    iterations += blocks.end - blocks.first;
    // Rows whose ranges all begin at the first key differ by a key each: half a block's rows on the average.
    const bool shorter = mask.rows_differ() && mask.from_first_key();
    keys += mask.end_of(last) - mask.keys_of(last).first - (shorter ? rows / 2.0 : 0.0);
  }
  candidate.typical_iterations = iterations / tiles;
  candidate.useful_flops = 2.0 * rows * (config.head_dim + fmha_value_dim(config)) * keys / tiles;
  return candidate;
}

bool fmha_draws(const ProblemKey& problem, const arch::Arch& arch) {
  if (arch.least_drawn_waves <= 0) return false;
  const auto [batch, heads, kv_heads, queries, keys, sequences] = fmha_sizes(problem);
  const double tiles =
      static_cast<double>(batch * heads) * static_cast<double>((queries + kUsualRows - 1) / kUsualRows);
  if (tiles < arch.least_drawn_waves * arch.sm_count) return false;
  const auto kernel = kernel_of_key<kFmhaFields, FmhaKernel>(problem.kind);
  return kernel.rung == kNoFmhaRung && kernel.walk == WalkChoice::usual && mask_of(kernel).tiles_differ();
}

WalkChoice fmha_limited_walk(const FmhaKernel& kernel, const arch::Arch& arch) {
  const bool unequal = mask_of(kernel).tiles_differ();
  if (unequal && arch.least_drawn_waves > 0) return WalkChoice::dynamic;
  const FmhaFamily* family = find_fmha_family(arch);
  return limited_walk(arch, family != nullptr && family->walks && !unequal);
}

namespace {

FmhaTile tile_of(const Candidate& candidate) {
  const auto launch = candidate.geometry.as<FmhaLaunch>();
  return {launch.rows_per_block, launch.block_n};
}

/// The candidates of the tile that the kernel names, or all. Of a head dim that is too large there are none.
std::vector<Candidate> of_tile(const FmhaKernel& config, const arch::Arch& arch, std::vector<Candidate> all) {
  if (all.empty() && std::max(config.head_dim, fmha_value_dim(config)) > 128)
    support::fail(Stage::target, Code::unsupported,
                  support::cat("fmha: head_dim is ", config.head_dim, " and that of v is ", fmha_value_dim(config),
                               "; allowed on ", arch.name, config.rung != kNoFmhaRung ? " with a rung" : "",
                               ": up to 128 in both, as no tile of wider rows fits the registers",
                               arch.memory_bytes.count("TMEM") > 0 ? ", the shared and the tensor memory"
                                                                   : " and the shared memory",
                               " of a block there"));
  if (config.tile == kUsualFmhaTile) return all;
  std::string names;
  std::vector<Candidate> own;
  for (Candidate& candidate : all) {
    const int place = place_of_fmha_tile(tile_of(candidate));
    const std::string name = fmha_tile_words()[static_cast<std::size_t>(place)];
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
    if (place == config.tile) own.push_back(std::move(candidate));
  }
  if (own.empty())
    refuse("fmha", Code::unsupported,
           support::cat("tile is ", fmha_tile_words()[static_cast<std::size_t>(config.tile)], "; allowed on ",
                        arch.name, " with head_dim ", config.head_dim, ": usual, ", names));
  return own;
}

}  // namespace

const std::vector<arch::Needs>& fmha_needs() {
  static constinit support::Lasting<const std::vector<arch::Needs>> kinds;
  return kinds.get([] {
    std::vector<arch::Needs> list;
    for (const auto& family : kFamilies) list.push_back(family().needs());
    return list;
  });
}

std::vector<Candidate> fmha_candidates(const FmhaKernel& config, const arch::Arch& arch) {
  arch::require(arch, "fmha", fmha_needs());
  const FmhaFamily* const of_arch = find_fmha_family(arch);
  if (of_arch != nullptr && !of_arch->packs && config.packed)
    refuse("fmha", Code::unsupported, support::cat("packed is true; allowed on ", arch.name, ": false"));
  if (of_arch != nullptr && config.pieces != 0 && (!of_arch->has_pieces || config.rung != kNoFmhaRung))
    refuse("fmha", Code::unsupported,
           support::cat("pieces is ", config.pieces, "; allowed on ", arch.name,
                        config.rung != kNoFmhaRung ? " with a rung" : "", ": none"));
  if (const FmhaFamily* family = of_arch) return of_tile(config, arch, family->candidates(config, arch));
  support::fail(Stage::target, Code::unsupported,
                support::cat("fmha has no node bodies for family '", arch.family, "' of '", arch.name, "'"));
}

}  // namespace tj::ops
