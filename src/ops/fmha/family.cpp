// See family.hpp.
#include "ops/fmha/family.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

constexpr double kTypicalLength = 4096;  // what tile shapes are rated at

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
Candidate fmha_candidate(graph::Graph graph, const FmhaConfig& config, const FmhaLaunch& launch, bool turns) {
  Candidate candidate{std::move(graph), 0, 0, turns};
  candidate.geometry = Geometry::of(launch);
  const double rows = launch.rows_per_block;
  const double blocks = std::ceil(kTypicalLength / rows);
  double iterations = 0, keys = 0;
  for (double block = 0; block < blocks; ++block) {
    const double last = config.causal ? std::min(kTypicalLength, (block + 1) * rows) : kTypicalLength;
    iterations += std::ceil(last / launch.block_n);
    keys += config.causal ? last - rows / 2 : last;
  }
  candidate.typical_iterations = iterations / blocks;
  candidate.useful_flops = 4.0 * rows * config.head_dim * keys / blocks;
  return candidate;
}

const std::vector<arch::Needs>& fmha_needs() {
  static constinit support::Lasting<const std::vector<arch::Needs>> kinds;
  return kinds.get([] {
    std::vector<arch::Needs> list;
    for (const auto& family : kFamilies) list.push_back(family().needs());
    return list;
  });
}

std::vector<Candidate> fmha_candidates(const FmhaConfig& config, const arch::Arch& arch) {
  arch::require(arch, "fmha", fmha_needs());
  if (const FmhaFamily* family = find_fmha_family(arch)) return family->candidates(config, arch);
  support::fail(Stage::target, Code::unsupported,
                support::cat("fmha has no node bodies for family '", arch.family, "' of '", arch.name, "'"));
}

}  // namespace tj::ops
