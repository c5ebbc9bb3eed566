// A family of attention's kernels: what one kind of matrix instructions makes of a configuration.
//
// Decides what a family gives, and which one serves an arch. Does not decide nodes, costs or tiles: each family has a
// file of its name. Invariant: nothing else asks an arch for its family. A new family is a file and a row in
// family.cpp.
#pragma once

#include <vector>

#include "ops/fmha/fmha.hpp"
#include "ops/fmha/tiles.hpp"

namespace tj::ops {

inline constexpr int kTypicalFmhaLength = 4096;  ///< the length that tile shapes are rated at
inline constexpr double kNoFmhaGain = 1;         ///< FmhaFamily::least_gain of a tile that no call takes by itself

struct FmhaFamily {
  const char* name;               ///< arch::Arch::family, and of the node bodies: kernel_templates/ops/fmha/<name>.cuh
  const arch::Needs& (*needs)();  ///< the needs of its node bodies of an arch
  /// The graphs of the tile shapes to try, best guess first; which shapes there are is the family's own.
  std::vector<Candidate> (*candidates)(const FmhaKernel& config, const arch::Arch& arch);
  bool walks = false;      ///< blocks of its usual kernels do tile after tile, where all tiles are equal
  bool has_rungs = false;  ///< its kernels can be held to a rung of the ladder
  bool packs = false;      ///< has kernels that pack heads into rows
  /// Cycles of an iteration of the tile, of all its consumers; 0 for a tile that it does not have. Without it, the
  /// usual tile serves all sizes.
  double (*iteration_cycles)(const FmhaKernel& config, const FmhaTile& tile, const arch::Arch& arch) = nullptr;
  /// The share of the usual tile's predicted time that the tile must save to take its place: more than predictions are
  /// off. kNoFmhaGain for a tile that no call takes by itself.
  double (*least_gain)(const FmhaKernel& config, const FmhaTile& tile) = nullptr;
  bool has_pieces = false;    ///< has kernels whose second product and exponentials are nodes by pieces
  bool short_scores = false;  ///< softcap and slopes are rated as the short forms in rows.cuh
};

/// A candidate of such a kernel, rated over the tiles of a square problem of a typical length. turns: order barriers
/// between roles that alternate on a unit.
Candidate fmha_candidate(graph::Graph graph, const FmhaKernel& config, const FmhaLaunch& launch, bool turns);

/// Do blocks of a call without max_sms draw their tiles, where nothing was measured? On the hot path.
bool fmha_draws(const ProblemKey& problem, const arch::Arch& arch);

/// The walk of a kernel whose grid may be smaller than its tiles are many.
WalkChoice fmha_limited_walk(const FmhaKernel& kernel, const arch::Arch& arch);

/// Null where the arch is of another family.
const FmhaFamily* find_fmha_family(const arch::Arch& arch);

}  // namespace tj::ops
