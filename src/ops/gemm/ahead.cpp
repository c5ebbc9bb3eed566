// The tiles of a matrix product that are made before any size is known; see gemm.hpp.
//
// Decides which sizes stand for the large products of programs. choose.cpp says which tile serves each of them on the
// arch: tiles of clusters and pairs of blocks come and go with its predictions. Small products take tiles that are
// usual on every arch (kernel.cpp). Invariant: same kind and arch, same tiles, none twice, in the order of
// gemm_tiles().
#include <algorithm>

#include "ops/gemm/family.hpp"

namespace tj::ops {
namespace {

constexpr std::int64_t kLarge[] = {2048, 4096, 6144, 8192, 12288, 16384};

/// Is there a tile at all? Where options leave too little shared memory there may be none.
bool served(const GemmKernel& kind, const arch::Arch& arch) {
  if (!gemm_serves(arch, size_of(kind.dtype))) return false;
  return std::any_of(gemm_tiles().begin(), gemm_tiles().end(), [&](const GemmTile& tile) {
    return tile.blocks() == 1 && gemm_tile_fits(tile, kind, gemm_family(arch)) && gemm_blocks_per_sm(tile, arch) > 0;
  });
}

}  // namespace

std::vector<int> gemm_large_tiles(const GemmKernel& kind, const arch::Arch& arch) {
  std::vector<int> tiles;
  if (kind.parts || kind.rung != kNoGemmRung || !served(kind, arch)) return tiles;
  for (const std::int64_t m : kLarge)
    for (const std::int64_t n : kLarge)
      for (const std::int64_t k : kLarge)
        if (const GemmChoice choice = choose_gemm({m, n, k, 1}, kind, arch); choice.parts == 1)
          tiles.push_back(choice.tile);
  std::sort(tiles.begin(), tiles.end());
  tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  return tiles;
}

}  // namespace tj::ops
