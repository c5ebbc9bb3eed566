// Costs of a tile that are alike on every family; see family.hpp. Asks the family that it is given, never the list.
#include <algorithm>
#include <cmath>

#include "ops/common/own_texts.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/rates.hpp"

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

double gemm_activation_cycles(Activation activation, const arch::Arch& arch) {
  struct Instructions {
    // Instructions that take as long. gelu and silu were timed in tiles of 160 x 64 and 192 x 128 (H100, 2026-11-27),
    // the others are counted.
    double f32, special;
  };
  if (!arch.has_fact("f32_per_cycle") || !arch.has_fact("exp2_per_cycle")) return 0;
  const Instructions taken = activation == Activation::gelu        ? Instructions{17, 1}
                             : activation == Activation::silu      ? Instructions{9, 1}
                             : activation == Activation::gelu_tanh ? Instructions{13, 1}
                             : activation == Activation::relu      ? Instructions{1, 0}
                                                                   : Instructions{0, 0};
  return std::max(taken.f32 / arch.fact("f32_per_cycle"), taken.special / arch.fact("exp2_per_cycle"));
}

double gemm_text_cycles(const DeviceText& text, const arch::Arch& arch) {
  if (!text.given() || !arch.has_fact("f32_per_cycle")) return 0;  // no look at facts for most calls
  return text_operations(text) / arch.fact("f32_per_cycle");
}

}  // namespace tj::ops
