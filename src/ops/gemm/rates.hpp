// Costs of products on an arch, tile by tile, before anything is scheduled; internal to the choice.
//
// Decides by cycles from the arch's facts: waves of tiles over the SMs, iterations of a tile by the busier of matrix
// unit and copies, the end of each tile, the start in clusters. However the tiles are cut, memory and the SMs' common
// path to it set a least time. Limits that lie close to each other hinder each other, where that was measured: then
// their sixth powers add up. At the power limit the clock falls as matrix units pause less
// and copies bring more. Parts of K add the launch that sums them.
// Chooses nothing. Invariant: same sizes, kernel and arch, same cycles, on any machine.
#pragma once

#include <array>

#include "ops/gemm/family.hpp"

namespace tj::ops {

/// Numbers of an arch that the choice needs, as a hot call can read them.
struct GemmRates {
  const arch::Arch* arch = nullptr;
  const GemmFamily* family = nullptr;
  bool narrow = false;  ///< tiles of 8-bit elements too
  double copy_cycles_per_byte = 0, multicast_factor = 1, unaligned_factor = 1, copy_outside_row_cycles = 0,
         copy_partial_row_cycles = 0;
  double cache_bytes = 0;
  double memory_bytes_per_cycle = 0, cache_bytes_per_cycle = 0, unaligned_bytes_per_cycle = 0,
         sustained_bytes_per_cycle = 0;  ///< of all SMs together
  double copy_latency_cycles = 0, next_launch_cycles = 0;
  double joint_bytes_per_cycle = 0, joint_outside_rows_per_cycle = 0, hidden_start_cycles = 0, kb_power_cycles = 0,
         issue_cycles = 0, shared_issue_cycles = 0, slice_copy_factor = 1, shared_slice_copy_factor = 1,
         row_read_cycles = 0, hidden_launch_cycles = 0, lone_memory_bytes_per_cycle = 0,
         memory_slot_cycles = 0;  ///< GemmCopyRates
  double near_sms = 1;            ///< of a group whose reads L2 may answer at once
  double near_share = 0;          ///< GemmCopyRates
  GemmStoreRates stores;
  std::array<double, 5> activation_cycles{};  ///< of an SM, for an element, by Activation
  double turn_cycles = 0;                     ///< of a tile's end, whichever way d takes
  double slowed = 1;                          ///< the arch's clock over that of busy SMs
  bool own_share = false;  ///< of these rates an SM draws no more than its share; without a tile it leaves that unused
  std::array<std::int64_t, kGemmTileCount> matrix{};  ///< of an iteration
  std::array<std::int64_t, kGemmTileCount> scaled{};  ///< the same with scales of blocks
  std::array<int, kGemmTileCount> beside{};           ///< blocks that share an SM; 0: the arch does not serve the tile
  std::array<bool, kGemmTileCount> stores_beside{};   ///< a block stores a tile under the next one's loop
  std::array<std::array<int, 2>, kGemmTileCount> slots{};  ///< of rings, without and with d beside them; 0: not known
  std::array<std::array<GemmTileCycles, 2>, kGemmTileCount> cycles{};  ///< by tile, then 16-bit and f32 output
};

/// Cycles of an SM for an element's activation, by the busier of its units; 0 where their rates are not known.
double gemm_activation_cycles(Activation activation, const arch::Arch& arch);
/// The same of a user's text, whose operators are counted.
double gemm_text_cycles(const DeviceText& text, const arch::Arch& arch);

/// Fails where the arch has no family for products.
GemmRates gemm_rates_of(const arch::Arch& arch);

/// Clusters of a tile that all SMs of the product work at once, and clusters of a problem.
int cluster_places(const GemmSizes& sizes, const GemmTile& tile, const arch::Arch& arch);
double clusters_of(const GemmSizes& sizes, const GemmTile& tile);
/// Is the tile taken by its prediction as it is? A device runs fewer blocks of larger clusters than
/// it has SMs, and the arch must say how many. One wave of them gains, of several waves few do: 9004 x 14336 x 4096
/// took 13% more in clusters of four than the best tile did, and nothing here predicts why (H200, 2026-11-26).
bool gemm_taken_unmeasured(const GemmTile& tile, const GemmSizes& sizes, const arch::Arch& arch);
/// A tile's prediction is multiplied by this before it is compared with others'. Pairs of blocks must gain 5% in up to
/// 8 waves, and clusters of four 8% in more than one. It is infinity for tiles that no call takes, below 1 for those
/// that were measured faster than predicted, and 1 for others. Example: 316 x 75962 x 4056 takes 423 us in several
/// waves of clusters of four, and 514 without (predicted 356 and 412; H100, 2026-11-27).
double gemm_doubt(const GemmTile& tile, const GemmSizes& sizes, const arch::Arch& arch);
/// Parts of K are taken where they are predicted below this share of whole tiles, and limits were measured jointly.
inline constexpr double kGemmJointPartsGain = 0.95;
/// Tiles that blocks share are taken where their prediction is below this share of the best without. Predicted alike,
/// they lost wherever they were timed: 2923 x 5120 x 25600 took 1609 us, and 1322 in whole tiles of that size; 1258 x
/// 18432 x 16384 1217, and 1075 in 128x176x64 (H100, 2026-11-27). Predicted 10% better, 1990 x 5120 x 17912
/// gained 6.5%.
inline constexpr double kGemmSharedGain = 0.9;

/// The copies of all tiles: what they bring, and how long all SMs take together. No cycles: nobody has measured them.
struct GemmPath {
  double bytes = 0, cycles = 0;
  double apart_cycles = 0;  ///< where no two blocks read at once
};

/// Costs of a problem in one tile, for any number of parts of K. All that does not depend on that is computed once: hot
/// calls of new sizes ask for many.
class GemmPrediction {
 public:
  /// Keeps a reference to rates.
  GemmPrediction(const GemmSizes& sizes, const GemmKernel& kernel, int tile, const GemmRates& rates);
  double cycles(int parts) const;
  /// The same with blocks that share the iterations of all tiles.
  double split_cycles() const;

 private:
  double sum_cycles(int parts) const;
  double end_cycles(int parts) const;
  double wide_loop() const;
  double store_cycles(int parts) const;
  double slice_cycles() const;
  double start_cycles(int parts) const;
  double put_cycles(int parts) const;
  double slot_cycles(int parts, bool cached) const;
  double loop_sixths(double loop, double busy, double iterations, double path) const;
  double waves_cycles(double loop, double parts, double by_memory, double compulsory, bool cached) const;

  const GemmRates& rates_;
  const GemmTile& tile_;
  const std::array<GemmTileCycles, 2>& cycles_;
  const int out_bytes_;
  const int addend_bytes_;     ///< 0: none is added
  const int store_;            ///< kStore of a product whose K is whole
  const bool scattered_;       ///< rows of d that are stored from registers begin anywhere
  const double stored_;        ///< of a tile's columns, how many d has: half with a gate
  const double sums_;          ///< of a thread, as many of them as are stored
  const double activation_;    ///< of a tile
  const std::int64_t blocks_;  ///< iterations of K as a whole
  const double clusters_, places_, beside_;
  const bool stores_beside_;
  const double matrix_;  ///< of an iteration
  const double rows_;    ///< of a
  const std::array<int, 2>& slots_;
  double elements_ = 0, operand_bytes_ = 0, own_ = 0, shared_ = 0, lines_ = 0;
  GemmPath path_;      ///< of an iteration of every tile
  double share_ = 1;   ///< all SMs, over those of the product
  double copied_ = 0;  ///< cycles of the launches before that copy operands
};

}  // namespace tj::ops
