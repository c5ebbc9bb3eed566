// Warps, or waves, that share a tile of a matrix product, and what an iteration of theirs costs. For families whose
// matrix instruction is a warp's (sm80.cpp) or a wave's (amd.cpp).
//
// Decides who makes which piece of which tile. How many blocks an SM has is the family's. Invariant: a tile without a
// layout here is served by neither.
#pragma once

#include "ops/gemm/gemm.hpp"

namespace tj::ops {

/// Rows and columns of pieces that warps make of a tile; none where no warps do.
struct GemmWarps {
  int m = 0, n = 0;
  int count() const { return m * n; }
};
GemmWarps gemm_warps(const GemmTile& tile);
/// Pieces of more than 64 x 64: registers hold little beside their sums.
bool gemm_large_pieces(const GemmTile& tile);
/// Do warps make such a tile, and do their registers hold its pieces with what else the kernel asks for?
bool gemm_warps_fit(const GemmTile& tile, const GemmKernel& kernel);

/// Bytes of a slot of both operands, without any padding.
std::int64_t gemm_slot_bytes(const GemmTile& tile);
inline constexpr std::int64_t kGemmBarrierBytes = 1024;  ///< at most, beside a ring's slots
/// Slots of its ring that such a block has room for, of so many on an SM.
int gemm_warp_slots(const GemmTile& tile, const arch::Arch& arch, int blocks_per_sm);

/// An iteration of one block that has the SM to itself: the matrix unit, and the path to shared memory for loads and
/// for copies.
struct GemmWarpCycles {
  int matrix = 0, loads = 0, copies = 0;
};
GemmWarpCycles gemm_warp_cycles(const GemmTile& tile, const arch::Arch& arch);
/// Cycles of an iteration in one number. Products hold the warps that issue them. An iteration takes as long as the
/// busier of the unit and the path to shared memory, which copies use as well.
std::int64_t gemm_warp_iteration(const GemmTile& tile, const arch::Arch& arch, int blocks_per_sm);
double gemm_warp_sums(const GemmTile& tile, const arch::Arch& arch);

/// The needs of both families, and the facts that one alone reads: of whoever copies, of its fragments.
arch::Needs gemm_warp_needs(const char* family, std::initializer_list<const char*> own);
/// The same with what products of 8-bit elements need.
arch::Needs gemm_narrow_needs(arch::Needs needs);
/// Does the arch have an instruction for elements of this size? One for e4m3 has a rate.
bool gemm_multiplies(const arch::Arch& arch, int element_bytes);

}  // namespace tj::ops
