// Tiles of attention on a warpgroup's matrix instructions, for tests and tools that want the graph of a certain one.
//
// Decides what such a tile is. Which ones are tried, nodes and costs: sm90.cpp.
#pragma once

#include "ops/fmha/family.hpp"

namespace tj::ops {

struct FmhaGroupTile {
  int consumers = 2;   ///< roles of 64 queries each
  int block_n = 128;   ///< keys an iteration
  bool turns = true;   ///< order barriers between the consumers
  bool staged = true;  ///< rows of o leave through shared memory
  bool o_in_values =
      false;  ///< there they lie in the place of values: a tile's first values come when the rows before have left
};

/// The graph with costs of one; src/ops/fmha/README.md has a picture. The arch is of the family.
graph::Graph fmha_group_graph(const FmhaKernel& config, const FmhaGroupTile& tile, const arch::Arch& arch);

}  // namespace tj::ops
