// The rungs of the matrix product's ladder: constraints on one graph, from a loop that one role runs step by step to
// the op's own kernel.
//
// Decides what each rung leaves to the scheduler, and the tile of rungs that serve one tile. The family says the tile
// of the others. Invariant: no rung has node bodies or a graph of its own beyond the kind of its copies. Each gives the
// scheduler at least the freedom of the rung before. The last leaves out nothing: it is the op's own kernel, of a tile
// whose blocks have two consumers.
#pragma once

#include <span>

#include "ops/gemm/tiles.hpp"

namespace tj::ops {

/// One rung of the ladder: what is not left to the scheduler and to the choice of a grid. 0 is no limit.
struct GemmRung {
  const char* name;
  bool thread_copies = false;  ///< the role's own threads bring the operands and store d, not the copy engine
  int max_slots = 0, max_stages = 0;
  bool one_role = false;
  bool tile_a_block = false;  ///< no block does a second tile; row by row, in place of groups of rows
  int max_tiles = 0, max_iterations = 0;
  int cluster = 1;  ///< blocks that share copies; of the last rung, the choice decides
};
/// The tile of rungs that serve a single one, whichever family multiplies.
inline constexpr GemmTile kLoneTile{128, 128, 64};
inline constexpr int kNoGemmRung = 0, kGemmOwnRung = 10;
inline constexpr int kAnyOfRung = 0;

// In order: copies by the role's threads, most slots, most stages, one role, one tile a block, most tiles, most
// iterations, blocks of a cluster.
inline constexpr GemmRung kGemmRungs[] = {
    {"none", false, kAnyOfRung, kAnyOfRung, false, false, kAnyOfRung, kAnyOfRung, 1},
    {"v1", true, 1, 1, true, true, 1, 1, 1},
    {"v2", true, 1, 1, true, true, 1, kAnyOfRung, 1},
    {"v3", true, 1, 1, true, true, kAnyOfRung, kAnyOfRung, 1},
    {"v4", false, 1, 1, true, true, kAnyOfRung, kAnyOfRung, 1},
    {"v5", false, 2, kAnyOfRung, true, true, kAnyOfRung, kAnyOfRung, 1},
    {"v6", false, 2, kAnyOfRung, true, false, kAnyOfRung, kAnyOfRung, 1},
    {"v7", false, 2, kAnyOfRung, false, false, kAnyOfRung, kAnyOfRung, 1},
    {"v8", false, 4, kAnyOfRung, false, false, kAnyOfRung, kAnyOfRung, 1},
    {"v9", false, 4, kAnyOfRung, false, false, kAnyOfRung, kAnyOfRung, 2},
    {"v10", false, kAnyOfRung, kAnyOfRung, false, false, kAnyOfRung, kAnyOfRung, 1},
};

/// "none", then v1 to v10; the last has no limits, as the first.
inline std::span<const GemmRung> gemm_rungs() { return kGemmRungs; }

}  // namespace tj::ops
