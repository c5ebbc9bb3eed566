// How warps share a tile; see warps.hpp.
#include "ops/gemm/warps.hpp"

#include <algorithm>
#include <cmath>

#include "ops/common/machine.hpp"
#include "ops/common/multiplier.hpp"
#include "ops/gemm/family.hpp"

namespace tj::ops {
namespace {

struct Shared {
  GemmTile tile;
  GemmWarps warps;
};
// A warp's piece is as square and large as its sums fit. Its loads from shared memory grow with its sides, its products
// with its area. Rows are finished 32 columns at a time. Pieces of 64 x 96 load a sixth less, and a block of eight
// copies least for its products. Beside their sums, registers hold only what K-major operands, a copy by one thread and
// a plain end take (nvcc 13.0: else spills, 4 to 112 bytes).
constexpr Shared kShared[] = {{{128, 256, 64}, {2, 4}},
                              {{128, 192, 64}, {4, 2}},
                              {{128, 128, 64}, {2, 2}},
                              {{64, 256, 64}, {1, 4}},
                              {{128, 64, 64}, {2, 2}},
                              {{64, 128, 64}, {2, 2}},
                              {{64, 64, 128}, {2, 2}},
                              {{64, 32, 128}, {4, 1}},
                              {{16, 64, 128}, {1, 2}},
                              {{128, 128, 32}, {2, 2}},
                              {{128, 256, 32}, {2, 4}},
                              {{256, 192, 32}, {4, 2}},
                              // 8-bit elements: each piece has half of its sums again.
                              {{128, 128, 128, 1, 1, 1}, {2, 4}},
                              {{64, 128, 128, 1, 1, 1}, {1, 4}}};

constexpr const char* kNarrowRate = "matrix_flops_per_cycle_8bit";
constexpr int kSquarePiece = 64 * 64;
// The factor by which an iteration of warps' products is longer where copies go out only one ahead of it: 128 x 128 x
// 64 on an H200 (2026-11-21), profiled.
constexpr double kLateCopies = 1.1;

}  // namespace

GemmWarps gemm_warps(const GemmTile& tile) {
  for (const Shared& each : kShared)
    if (each.tile == tile) return each.warps;
  return {0, 0};
}

bool gemm_large_pieces(const GemmTile& tile) {
  const int warps = gemm_warps(tile).count();
  return warps > 0 && tile.block_m * tile.block_n > warps * kSquarePiece;
}

bool gemm_warps_fit(const GemmTile& tile, const GemmKernel& kernel) {
  const bool plain = !kernel.left_mn && !kernel.right_mn && !kernel.add_c && !kernel.activates();
  return gemm_warps(tile).count() > 0 && (plain || !gemm_large_pieces(tile));
}

std::int64_t gemm_slot_bytes(const GemmTile& tile) {
  return std::int64_t{tile.block_m + tile.block_n} * tile.block_k * tile.element_bytes;
}

int gemm_warp_slots(const GemmTile& tile, const arch::Arch& arch, int blocks_per_sm) {
  const graph::Machine share = machine_of(arch, std::max(1, blocks_per_sm));
  return static_cast<int>((share.memory_bytes.at("SMEM") - kGemmBarrierBytes) / gemm_slot_bytes(tile));
}

GemmWarpCycles gemm_warp_cycles(const GemmTile& tile, const arch::Arch& arch) {
  const GemmWarps warps = gemm_warps(tile);
  const int turns = tile.promotes() ? 2 : 1;  // rows of a come once for each half of the columns
  const double rows = static_cast<double>(turns * tile.block_m) / warps.m +
                      static_cast<double>(tile.block_n) / warps.n;  // that a warp loads
  const double bytes = rows * tile.block_k * tile.element_bytes * warps.count();
  const double flops = 2.0 * tile.block_m * tile.block_n * tile.block_k;
  const Work work = Multiplier(Multiplier::Way::warp, arch).work(flops, bytes, tile.element_bytes);
  return {cycles(work.matrix), cycles(work.shared),
          cycles(static_cast<double>(gemm_slot_bytes(tile)) / arch.fact("shared_bytes_per_cycle"))};
}

std::int64_t gemm_warp_iteration(const GemmTile& tile, const arch::Arch& arch, int blocks_per_sm) {
  const GemmWarpCycles each = gemm_warp_cycles(tile, arch);
  const double late = gemm_warp_slots(tile, arch, blocks_per_sm) > 2 ? 1 : kLateCopies;
  return static_cast<std::int64_t>(
      std::ceil(late * std::max(each.matrix, each.loads + each.copies) + arch.fact("matrix_group_cycles")));
}

double gemm_warp_sums(const GemmTile& tile, const arch::Arch& arch) {
  return static_cast<double>(tile.block_m) * tile.block_n / (gemm_warps(tile).count() * arch.warp_size);
}

arch::Needs gemm_warp_needs(const char* family, std::initializer_list<const char*> own) {
  arch::Needs needs = {{"TC", "LSU"},
                       {"matrix_flops_per_cycle", "matrix_group_cycles", "shared_bytes_per_cycle", "cache_bytes",
                        "memory_bytes_per_cycle", "tile_turn_cycles", "fragment_store_cycles", "next_launch_cycles",
                        "operand_registers"},
                       {family}};
  needs.facts.insert(needs.facts.end(), own.begin(), own.end());
  return needs;
}

arch::Needs gemm_narrow_needs(arch::Needs needs) {
  needs.units.emplace_back("ALU");
  needs.facts.insert(needs.facts.end(), {kNarrowRate, "f32_per_cycle"});
  return needs;
}
bool gemm_multiplies(const arch::Arch& arch, int element_bytes) {
  return element_bytes == 2 || arch.has_fact(kNarrowRate);
}

}  // namespace tj::ops
