// A family of instructions gives matrix products these things: a row for each, in one list.
//
//   const GemmFamily& family = gemm_family(arch);
//   if (family.blocks_per_sm(tile, arch) > 0) cycles = family.iteration_cycles(tile, arch, scaled);
//
// Decides how the op asks a family, and which row serves an arch. A row's answers are its own file's to decide:
// sm80.cpp, sm90.cpp, sm100.cpp, amd.cpp. Invariant: no other file of the op decides by a family's name, and no family
// asks the list, or what is built on it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/common/copier.hpp"
#include "ops/gemm/gemm.hpp"

namespace tj::ops {

/// Copies from L2.
struct GemmCopyRates {
  double latency_cycles = 0, cycles_per_kb = 0;
  double loaded_cycles_per_kb = 0;   ///< while other SMs copy, too
  double crowded_cycles_per_kb = 0;  ///< while all do, each over and over
  double multicast_factor = 1;       ///< of what blocks of a cluster share
  double unaligned_factor = 1;       ///< of what an SM alone copies whose 128 bytes lie in two lines
  double outside_row_cycles = 0;     ///< of a line of a row outside the matrix
  double partial_row_cycles = 0;     ///< of a row of a box that is partly outside
  double cache_bytes_per_cycle = 0;  ///< of all SMs together; 0: as fast as they can copy
  /// Operands of more bytes come from memory, at such a rate of all SMs. 0: those of the arch's cache and memory.
  double cached_bytes = 0, memory_bytes_per_cycle = 0;
  /// Rates that all SMs share, as limits that add up with others; 0: nobody has measured them.
  double joint_bytes_per_cycle = 0, joint_outside_rows_per_cycle = 0;
  double hidden_start_cycles = 0;   ///< of a cluster's start, by a launch before that it overlaps
  double hidden_launch_cycles = 0;  ///< of a launch's start, where blocks begin beside the launch before
  /// One SM's rate from memory while others have no tile. 0: that of all of them together.
  double lone_memory_bytes_per_cycle = 0;
  /// Cycles from a slot's copy to its next one, where it comes from memory while all SMs read. 0: nobody has measured
  /// it.
  double memory_slot_cycles = 0;
  double kb_power_cycles = 0;  ///< of an SM at the power limit, for a KB of copies
  /// The thread that asks for an operand's copies takes so long in each iteration; shared: where blocks share them. 0:
  /// nobody has measured it.
  double issue_cycles = 0, shared_issue_cycles = 0;
  double slice_copy_factor = 1;         ///< of a copy's time where the blocks of a cluster share no copies
  double shared_slice_copy_factor = 1;  ///< likewise where a cluster does two tiles, and those of a slice share copies
  /// The share of reads that L2 need not answer again, of those that several blocks of a group of SMs do beside the
  /// first block's.
  double near_share = 0;
  /// Threads that read rows wherever they begin take so long for those of an iteration. 0: there are no such tiles.
  double row_read_cycles = 0;
};

/// How long a tile's end takes for each sum of a thread, by the ways of d out of the registers. Where nobody has
/// measured them, fragment_store_cycles stands for all.
struct GemmStoreRates {
  double staged_cycles = 0;        ///< into shared memory; what goes on from there does so beside the next tile
  double staged_end_cycles = 0;    ///< of the last tile more, until that is in memory
  double direct_end_cycles = 0;    ///< of the last tile more where stores from registers bring it to memory
  double scattered_cycles = 0;     ///< to rows that begin between multiples of 16 bytes
  double wide_cycles = 0;          ///< of 32 bits, from registers
  double swapped_wide_cycles = 0;  ///< the same of swapped tiles, which store each sum by itself
  double row_cycles = 0;           ///< of one warp that brings rows from shared memory to such rows, for each of them
  double piece_cycles = 0;         ///< of a block that leaves one piece of a tile and adds another
  double piece_sum_cycles = 0;     ///< of it, for each sum of a thread more
  double slice_cycles = 0;         ///< of a block that adds what others of its cluster have sent
  double slice_sum_cycles = 0;     ///< of it, for each sum of a thread and each other block more
  double apart_factor = 1;         ///< of a byte from L2 where blocks are at different iterations of their tiles
  /// A block that adds several pieces takes so long for each sum of a thread and each piece but one.
  double more_piece_sum_cycles = 0;
};

struct GemmFamily {
  const char* arch_family;  ///< "sm80"

  /// The needs of products of such elements, which an arch must meet; null: the family has no products of these.
  const arch::Needs* (*needs)(const arch::Arch& arch, int element_bytes);
  /// Does it have such a kernel of the tile at all, whatever the arch?
  bool (*fits)(const GemmTile& tile, const GemmKernel& kernel);
  /// Blocks with this tile that run side by side on an SM; 0: the arch does not serve it.
  int (*blocks_per_sm)(const GemmTile& tile, const arch::Arch& arch);

  GemmCopyRates (*copy_rates)(const arch::Arch& arch);
  /// Null: nobody has measured them.
  GemmStoreRates (*store_rates)(const arch::Arch& arch) = nullptr;
  /// An iteration of a block, by whatever is busiest of what is the SM's own; with scales of blocks or without.
  std::int64_t (*iteration_cycles)(const GemmTile& tile, const arch::Arch& arch, bool scaled);
  /// Sums that a thread stores at a tile's end.
  double (*thread_sums)(const GemmTile& tile, const arch::Arch& arch);
  /// Slots of the rings that operands come into; d: does it leave through shared memory? Null: nobody asks.
  int (*ring_slots)(const GemmTile& tile, bool d, const arch::Arch& arch) = nullptr;
  /// Does a block store a tile under the next one's loop? Null: none does.
  bool (*stores_beside)(const GemmTile& tile, const arch::Arch& arch) = nullptr;
  /// An SM draws no more of memory's rates than its share.
  bool own_share = false;
  bool loads_sums = false;  ///< are sums in tensor memory, from which a tile's end loads them?
  bool gates = false;       ///< do its node bodies multiply halves of a tile's columns?
  bool quantises = false;   ///< do they make e4m3 and scales of a tile's rows?

  /// Do two blocks of the same columns multiply as one (Graph::pairs)? Then b is in shared memory once for both, half
  /// in each. Null: none do.
  bool (*in_pairs)(const GemmKernel& kernel) = nullptr;
  /// The tile of a rung that serves all sizes, a place in gemm_tiles(). Null: it serves none.
  int (*rung_tile)(const GemmRung& rung) = nullptr;
  /// Consumers of a block with this tile: each has sums of its own and stores them. Null where rung_tile is.
  int (*consumers)(const GemmTile& tile) = nullptr;

  /// The ways to make a kernel that the arch serves. iterations: of the tile that they are rated by.
  std::vector<Candidate> (*candidates)(const GemmKernel& kernel, const arch::Arch& arch, double iterations);
};

/// Null where no family serves the arch.
const GemmFamily* find_gemm_family(const arch::Arch& arch);
/// Throws tj::Error(target, unsupported) where none does, naming the op.
const GemmFamily& gemm_family(const arch::Arch& arch, std::string_view op = "gemm");
/// The one whose tiles stand for a request that names no arch.
const GemmFamily& usual_gemm_family();
/// Refuses a rung on an arch without a ladder; names the target that has one on the same card, if any.
[[noreturn]] void refuse_gemm_rung(const GemmRung& rung, const arch::Arch& arch);

/// Can the tile serve the types and orders of the operands? Columns of b that are contiguous lie in whole blocks, and
/// so do rows of a. Operands of 8 bits are K-major: a matrix unit takes no other order of them.
bool gemm_tile_fits(const GemmTile& tile, const GemmKernel& kernel, const GemmFamily& family);
bool gemm_pairs(const GemmKernel& kernel, const GemmFamily& family);

// ---- what families have in common; none of it asks the list ----
/// Rates that are the same whoever else copies.
inline GemmCopyRates gemm_copy_rates(const Copier& copier) {
  return {copier.latency_cycles(), copier.cycles_per_kb(), copier.cycles_per_kb(), copier.cycles_per_kb()};
}
/// Cycles of all of a tile but its iterations.
GemmTileCycles gemm_tile_cycles(const GemmTile& tile, int out_bytes, const GemmFamily& family, const arch::Arch& arch);

}  // namespace tj::ops
