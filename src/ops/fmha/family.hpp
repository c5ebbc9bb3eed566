// A family of attention's kernels: what one kind of matrix instructions makes of a configuration.
//
// Decides what a family gives, and which one serves an arch. Does not decide nodes, costs or tiles: each family has a
// file of its name. Invariant: nothing else asks an arch for its family. A new family is a file and a row in
// family.cpp.
#pragma once

#include <vector>

#include "ops/fmha/fmha.hpp"

namespace tj::ops {

struct FmhaFamily {
  const char* name;               ///< arch::Arch::family, and of the node bodies: kernel_templates/ops/fmha/<name>.cuh
  const arch::Needs& (*needs)();  ///< what its node bodies ask of an arch
  /// Tile shapes to try, best guess first.
  std::vector<FmhaTile> (*tiles)(const FmhaConfig& config, const arch::Arch& arch);
  int (*rows)(const FmhaTile& tile);  ///< queries of a block
  graph::Graph (*graph)(const FmhaConfig& config, const FmhaTile& tile, const arch::Arch& arch);
  /// What the schedule of a tile is held to, beside what every tile's is; null: nothing.
  void (*hold)(const FmhaConfig& config, const FmhaTile& tile, Candidate& candidate) = nullptr;
  bool has_steps = false;  ///< its kernels can be held to a step of the ladder
};

/// Null where the arch is of another family.
const FmhaFamily* find_fmha_family(const arch::Arch& arch);

}  // namespace tj::ops
