// The tiles of attention, and which one a call takes.
//
//   place_of_fmha_tile({128, 160})                      1: its place among fmha_tiles()
//   choose_fmha_tile(kernel, sizes, 0, arch)            0: the family's usual tile serves the call best
//
// Decides by predicted cycles of the iterations of all tiles. Which tiles an arch has, and how long an iteration takes,
// is its family's to say. Invariant: same sizes, kernel, limit and arch, same tile.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/fmha/fmha.hpp"

namespace tj::ops {

/// Rows of queries of a block, and keys of an iteration.
struct FmhaTile {
  int rows = 0, keys = 0;
  bool operator==(const FmhaTile&) const = default;
};

inline constexpr int kUsualFmhaTile = 0;  ///< the place of the tile that the scheduler takes among the family's

/// All families' tiles. The first has no sizes and stands for the usual one.
std::span<const FmhaTile> fmha_tiles();
/// "usual", "128x160", ...
std::span<const char* const> fmha_tile_words();
std::vector<std::string> fmha_tile_flags();
/// Behind the last for a tile that nobody has.
int place_of_fmha_tile(const FmhaTile& tile);

/// The tile of a call without a rung; max_sms as in FmhaArgs.
int choose_fmha_tile(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, const arch::Arch& arch);
/// The tiles that calls of such a kernel may take, the usual one first.
std::vector<int> taken_fmha_tiles(const FmhaKernel& kernel, const arch::Arch& arch);
/// The predicted cycles of a call whose rows see all keys. 0 where the family has no such tile or predicts nothing.
double fmha_tile_cycles(const FmhaKernel& kernel, const FmhaSizes& sizes, std::int64_t max_sms, int tile,
                        const arch::Arch& arch);

}  // namespace tj::ops
