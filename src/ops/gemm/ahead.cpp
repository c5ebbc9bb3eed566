// The tiles of a matrix product that are made before any size is known; see gemm.hpp.
//
// Decides which sizes stand for the large products of programs. choose.cpp says which tile serves each of them on the
// arch: tiles of clusters and pairs of blocks come and go with its predictions. Small products take tiles that are
// usual on every arch (kernel.cpp). Invariant: same kind and arch, same choices, none twice.
#include <algorithm>

#include "ops/gemm/family.hpp"

namespace tj::ops {
namespace {

constexpr std::int64_t kLarge[] = {2048, 4096, 6144, 8192, 12288, 16384};

/// Is there a tile at all? Where options leave too little shared memory there may be none.
bool served(const GemmKernel& kind, const arch::Arch& arch) {
  if (!gemm_serves(arch, size_of(kind.dtype)) || (kind.gated() && !gemm_family(arch).gates) ||
      (kind.quantises() && !gemm_family(arch).quantises))
    return false;
  return std::any_of(gemm_tiles().begin(), gemm_tiles().end(), [&](const GemmTile& tile) {
    return tile.blocks() == 1 && gemm_tile_fits(tile, kind, gemm_family(arch)) && gemm_blocks_per_sm(tile, arch) > 0;
  });
}

}  // namespace

std::vector<GemmChoice> gemm_large_choices(const GemmKernel& kind, const arch::Arch& arch) {
  std::vector<GemmChoice> choices;
  if (kind.parts || kind.rung != kNoGemmRung || !served(kind, arch)) return choices;
  for (const std::int64_t m : kLarge)
    for (const std::int64_t n : kLarge)
      for (const std::int64_t k : kLarge)
        if (const GemmChoice choice = choose_gemm({m, n, k, 1}, kind, arch); choice.parts == 1)
          choices.push_back(choice);
  const auto before = [](const GemmChoice& x, const GemmChoice& y) { return x.number() < y.number(); };
  std::sort(choices.begin(), choices.end(), before);
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  return choices;
}

}  // namespace tj::ops
