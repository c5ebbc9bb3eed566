// Costs of a tile that are alike on every family; see family.hpp. Asks the family that it is given, never the list.
#include <algorithm>
#include <cmath>

#include "ops/gemm/family.hpp"

namespace tj::ops {
namespace {

std::int64_t whole(double cycles) { return static_cast<std::int64_t>(std::ceil(cycles)); }

}  // namespace

GemmTileCycles gemm_tile_cycles(const GemmTile& tile, int out_bytes, const GemmFamily& family, const arch::Arch& arch) {
  GemmTileCycles result;
  const GemmCopyRates copies = family.copy_rates(arch);
  const double kb = static_cast<double>(tile.block_m + tile.block_n) * tile.block_k * tile.element_bytes / 1024;
  const double out_kb = static_cast<double>(tile.block_m) * tile.block_n * out_bytes / 1024;
  result.start = whole(copies.latency_cycles + kb * copies.cycles_per_kb +
                       (tile.blocks() > 1 ? arch.fact("cluster_start_cycles") : 0));
  // Consumers store side by side; what they write leaves no faster than copies come.
  result.end = whole(
      arch.fact("tile_turn_cycles") +
      std::max(family.thread_sums(tile, arch) * arch.fact("fragment_store_cycles"), out_kb * copies.cycles_per_kb));
  return result;
}

}  // namespace tj::ops
