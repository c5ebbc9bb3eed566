// The family of warpgroups' products (sm90): which tiles it serves, the dependence graph and its costs; see family.hpp.
//
//   load_a, load_b -> mma.c            for each consumer c
//   mma.c (i) -> mma.c (i+1)           sums into one set of registers; the next may be issued at once
//   mma.c (i) ==> mma.c (i+2)          one group is under way while the next is issued: where the slots of i are handed
//   back;
//                                      (i+1) where a rung allows two slots
//   mma.c ==> store.c                  tile end, from registers; or through shared memory, stage_rows.c -> put_box.c or
//   put_rows.c
// With 8-bit operands, mma.c leaves sums over one iteration, and promote.c adds them to those of the tile:
//   mma.c ==> promote.c -> store.c
//   promote.c (i) -> mma.c (i+1)       one register copy of the iteration's sums
// or in the widest tiles, whose halves of the columns have one register copy of such sums in turn:
//   mma_low.c ==> promote_low.c -> mma_high.c ==> promote_high.c -> store.c
//   promote_high.c (i) -> mma_low.c (i+1)
// Where d is quantised, the tile's end is quantise.c instead of store.c.
#include <algorithm>

#include "ops/gemm/rings_builder.hpp"
#include "ops/gemm/sm90_cycles.hpp"
#include "support/lasting.hpp"

namespace tj::ops {

const GemmFamily& gemm_sm90();

namespace {

using gemm::kRowsPerConsumer;

constexpr int kMostConsumers = 3;
// Sums of three consumers: 160 registers a thread are left for each, of which its sums take 80 (tests/ops/gemm/
// compile_test.cpp).
constexpr int kMostSums = 3 * 64 * 160;
// The tiles of rungs that serve all sizes, but for the last, whose sizes choose it: one consumer.
constexpr GemmTile kRungTile{64, 256, 64}, kClusterTile{64, 256, 64, 2, 1};

// Registers of a consumer beside its sums: addresses, counters and the part of d that its store works on. Example: 64 x
// 128 with addend, bias and gelu has 64 words of sums. It leaves 3 words without a register when it is compiled into
// 128 (nvcc 13.0, launch bound of 512 threads), and none in 150.
constexpr int kContextRegisters = 72;
// The same of tiles whose rows threads read: these have few sums, and stores of 16 bytes alone.
constexpr int kFewRegisters = 48;
// The part of these that its loop alone needs.
constexpr int kLoopRegisters = 40;
// Columns of a consumer from which it multiplies in two pieces.
constexpr int kLeastPieces = 128;
constexpr int kColumnStep = 8;  // an instruction's columns are a multiple
// A wait for shared memory and a fence before the slot of scales is handed back, and products of scales (counted).
constexpr int kBringScalesCycles = 80;

// Every unit and fact that is read for the family.
const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"TC", "TMA"},
                                                           {"matrix_flops_per_cycle",
                                                            "matrix_group_cycles",
                                                            "matrix_least_cycles",
                                                            "matrix_drain_cycles",
                                                            "copy_latency_cycles",
                                                            "copy_cycles_per_kb",
                                                            "loaded_copy_cycles_per_kb",
                                                            "crowded_copy_cycles_per_kb",
                                                            "multicast_copy_factor",
                                                            "copy_outside_row_cycles",
                                                            "unaligned_copy_bytes_per_cycle",
                                                            "sustained_copy_bytes_per_cycle",
                                                            "cached_operand_bytes",
                                                            "cache_bytes_per_cycle",
                                                            "memory_bytes_per_cycle",
                                                            "operand_bytes_per_cycle",
                                                            "cluster_start_cycles",
                                                            "tile_turn_cycles",
                                                            "fragment_store_cycles",
                                                            "next_launch_cycles",
                                                            "product_group_cycles",
                                                            "busy_clock_ghz",
                                                            "copied_kb_power_cycles",
                                                            "joint_copy_bytes_per_cycle",
                                                            "joint_outside_rows_per_cycle",
                                                            "copy_issue_cycles",
                                                            "copy_partial_row_cycles",
                                                            "staged_store_cycles",
                                                            "scattered_store_cycles",
                                                            "tile_piece_cycles",
                                                            "piece_sum_cycles",
                                                            "more_piece_sum_cycles",
                                                            "slice_cycles",
                                                            "slice_sum_cycles",
                                                            "apart_copy_factor",
                                                            "shared_copy_issue_cycles",
                                                            "slice_copy_factor",
                                                            "shared_slice_copy_factor",
                                                            "near_read_share",
                                                            "row_read_cycles",
                                                            "row_store_cycles",
                                                            "wide_store_cycles",
                                                            "swapped_wide_store_cycles",
                                                            "memory_slot_cycles",
                                                            "unaligned_copy_factor",
                                                            "staged_end_cycles",
                                                            "direct_end_cycles",
                                                            "hidden_launch_cycles",
                                                            "lone_memory_bytes_per_cycle"},
                                                           {"sm90"}});

arch::Needs with_narrow_elements() {
  arch::Needs needs = kNeeds;
  needs.units.push_back("ALU");
  needs.facts.insert(needs.facts.end(), {"matrix_flops_per_cycle_8bit", "f32_per_cycle"});
  return needs;
}

const arch::Needs* needs_of(const arch::Arch&, int element_bytes) {
  static constinit support::Lasting<const arch::Needs> narrow;
  return element_bytes == 1 ? &narrow.get(with_narrow_elements) : &kNeeds;
}

/// Pieces of a consumer's columns, each of whole instructions. Products of fewer than 64 columns would wait for shared
/// memory (counted). Where sums are multiplied by scales, ptxas (13.0) lets the first piece's wait for the second, and
/// two take longer than one.
int pieces_of(const GemmTile& tile, const GemmKernel& kernel) {
  if (tile.takes_turns()) return 2;
  return tile.promotes() && tile.partial_sums() == 1 && tile.sum_columns() >= kLeastPieces &&
                 tile.sum_columns() % (2 * kColumnStep) == 0 && kernel.scales == Scales::tensor
             ? 2
             : 1;
}

/// Columns of a swapped tile's sums are rows of a, each with a scale of its own. A thread would load a fourth of them
/// for each block of K, behind products that are asked for: 134 x 5120 x 5120 took 16.1 us in 72x128x256s, and 13.5 in
/// 64x128x128; with one scale for each operand 10.7 and 13.0 (H200, 2026-11-28).
bool scales_fit(const GemmTile& tile, Scales scales) { return !tile.swapped || scales == Scales::tensor; }

/// A gate's half of a tile's columns comes in whole patterns of shared memory, from each block that shares it. The sums
/// of both are in one thread only where columns of sums are columns of d, and K is whole.
bool gate_fits(const GemmTile& tile, const GemmKernel& kernel) {
  if (!kernel.gated()) return true;
  const bool whole = !kernel.right_mn && !kernel.add_c && !kernel.parts && kernel.rung == kNoGemmRung &&
                     kernel.walk != WalkChoice::split && kernel.activation == Activation::none;
  return whole && !tile.swapped && !tile.sliced() && !tile.reads &&
         tile.block_n % (2 * kColumnStep * tile.cluster_m) == 0;
}

/// A quad of lanes has all columns of a block of d that has one scale, and K is whole.
bool quantising_fits(const GemmTile& tile, const GemmKernel& kernel) {
  if (!kernel.quantises()) return true;
  const bool whole = !kernel.add_c && !kernel.parts && kernel.rung == kNoGemmRung && kernel.walk != WalkChoice::split;
  return whole && !tile.swapped && !tile.sliced() && !tile.reads &&
         kernel.columns(tile.block_n) % gemm::kScaledElements == 0;
}

/// Tiles whose halves take turns are for ends that want so many columns in a thread. Nothing was timed of others. Where
/// each column has a scale, two consumers lack registers: 8 bytes spill in 128x256x128, 1.7 KB in clusters (nvcc 13.0).
bool turns_fit(const GemmTile& tile, const GemmKernel& kernel) {
  return !tile.takes_turns() || (kernel.whole() && (kernel.scales != Scales::row || tile.consumers() == 1));
}

/// Rows of a that a slot has room for.
int slot_rows(const GemmTile& tile, bool left_mn) {
  return tile.swapped ? tile.left_rows(left_mn) : tile.consumers() * kRowsPerConsumer;
}

/// Elements of d that a consumer hands over, of so many columns. Rows of swapped tiles are written by sixteens.
int handed_over(const GemmTile& tile, int columns) {
  constexpr int kSixteen = 16;
  return tile.swapped ? (tile.block_m + kSixteen - 1) / kSixteen * kSixteen * tile.consumer_rows()
                      : std::min(kRowsPerConsumer, tile.block_m) * columns;
}

bool fits(const GemmTile& tile) {
  if (tile.swapped && tile.block_n % tile.consumer_rows() != 0) return false;
  return tile.block_k * tile.element_bytes >= gemm::kSwizzleBytes && tile.consumers() <= kMostConsumers &&
         (tile.consumers() < kMostConsumers || tile.block_m * tile.block_n <= kMostSums);
}

/// Sums of f32 of two products a consumer leave no registers for addends beside those of so many rows: 144 spill 8
/// bytes, 160 184 (nvcc 13.0).
bool loads_addends(const GemmTile& tile, const GemmKernel& kernel) {
  constexpr int kMostRows = 136, kMostBesideReaders = 64;
  if (tile.reads && tile.block_m > kMostBesideReaders) return false;
  return kernel.addend() != DType::f32 || tile.consumer_rows() == kRowsPerConsumer || tile.block_m <= kMostRows;
}

GemmCopyRates copy_rates(const arch::Arch& arch) {
  return {.latency_cycles = arch.fact("copy_latency_cycles"),
          .cycles_per_kb = arch.fact("copy_cycles_per_kb"),
          .loaded_cycles_per_kb = arch.fact("loaded_copy_cycles_per_kb"),
          .crowded_cycles_per_kb = arch.fact("crowded_copy_cycles_per_kb"),
          .multicast_factor = arch.fact("multicast_copy_factor"),
          .unaligned_factor = arch.fact("unaligned_copy_factor"),
          .outside_row_cycles = arch.fact("copy_outside_row_cycles"),
          .partial_row_cycles = arch.fact("copy_partial_row_cycles"),
          .cache_bytes_per_cycle = arch.fact("cache_bytes_per_cycle"),
          .cached_bytes = arch.fact("cached_operand_bytes"),
          .memory_bytes_per_cycle = arch.fact("operand_bytes_per_cycle"),
          .joint_bytes_per_cycle = arch.fact("joint_copy_bytes_per_cycle"),
          .joint_outside_rows_per_cycle = arch.fact("joint_outside_rows_per_cycle"),
          .hidden_start_cycles = arch.overlapped_launch ? arch.fact("cluster_start_cycles") : 0,
          .hidden_launch_cycles = arch.overlapped_launch ? arch.fact("hidden_launch_cycles") : 0,
          .lone_memory_bytes_per_cycle = arch.fact("lone_memory_bytes_per_cycle"),
          .memory_slot_cycles = arch.fact("memory_slot_cycles"),
          .kb_power_cycles = arch.fact("copied_kb_power_cycles"),
          .issue_cycles = arch.fact("copy_issue_cycles"),
          .shared_issue_cycles = arch.fact("shared_copy_issue_cycles"),
          .slice_copy_factor = arch.fact("slice_copy_factor"),
          .shared_slice_copy_factor = arch.fact("shared_slice_copy_factor"),
          .near_share = arch.fact("near_read_share"),
          .row_read_cycles = arch.fact("row_read_cycles")};
}

GemmStoreRates store_rates(const arch::Arch& arch) {
  return {.staged_cycles = arch.fact("staged_store_cycles"),
          .staged_end_cycles = arch.fact("staged_end_cycles"),
          .direct_end_cycles = arch.fact("direct_end_cycles"),
          .scattered_cycles = arch.fact("scattered_store_cycles"),
          .wide_cycles = arch.fact("wide_store_cycles"),
          .swapped_wide_cycles = arch.fact("swapped_wide_store_cycles"),
          .row_cycles = arch.fact("row_store_cycles"),
          .piece_cycles = arch.fact("tile_piece_cycles"),
          .piece_sum_cycles = arch.fact("piece_sum_cycles"),
          .slice_cycles = arch.fact("slice_cycles"),
          .slice_sum_cycles = arch.fact("slice_sum_cycles"),
          .apart_factor = arch.fact("apart_copy_factor"),
          .more_piece_sum_cycles = arch.fact("more_piece_sum_cycles")};
}

class Builder : GemmRingsBuilder {
 public:
  Builder(const GemmKernel& kernel, const arch::Arch& arch)
      : GemmRingsBuilder(kernel, store_of(kernel, arch), gemm_sm90(), Multiplier::Way::warpgroup,
                         tile_of(kernel).consumer_rows(), arch) {}

  static bool rings_fit(const GemmTile& tile, const arch::Arch& arch) {
    return GemmRingsBuilder::rings_fit(tile, least_slots(tile), slot_rows(tile, false), 0, arch);
  }
  /// Slots of the rings, with so many bytes of d beside them.
  static int slots(const GemmTile& tile, std::int64_t beside, const arch::Arch& arch) {
    return ring_slots(
        tile, slot_rows(tile, false), beside,
        Multiplier(Multiplier::Way::warpgroup, arch)
            .product(2.0 * tile.consumer_rows() * tile.sum_columns() * tile.block_k, tile.block_k, tile.element_bytes)
            .held,
        arch);
  }
  Candidate build(double iterations) {
    const Operands ab = operands(slot_rows(tile_, kernel_.left_mn));
    if (kernel_.scales != Scales::tensor) {
      graph_.includes.emplace_back("ops/gemm/scales.cuh");
      scales_ring_ = value_count();
      scales_ = load_scales();
    }
    if (pieces_of(tile_, kernel_) > 1) {
      graph_.includes.emplace_back("ops/gemm/halves.cuh");
      constant("kPieces", pieces_of(tile_, kernel_));
      if (tile_.takes_turns()) flag("kInTurn", true);
    }
    for (int c = 0; c < tile_.consumers(); ++c) consumer(c, ab);
    constrain();
    launch_.in_place = arch_.overlapped_launch;
    // Clusters that draw their tiles, or their share of them, get places in the order in which they come.
    if (graph_.walk != graph::Walk::dynamic && graph_.walk != graph::Walk::split && kernel_.groups == Groups::none)
      launch_.dealt_over = arch_.cluster_groups;
    Candidate made = candidate(iterations);
    made.definitions = matrix_widths({tile_.sum_columns() / pieces_of(tile_, kernel_)});
    return made;
  }

 private:
  int scales_ = -1, scales_ring_ = -1;   // the node that brings scales of blocks, and where to
  static constexpr int kUsualSlots = 3;  // two groups that are under way read one each while a third is filled

  static int store_of(const GemmKernel& kernel, const arch::Arch& arch) {
    const GemmTile& tile = tile_of(kernel);
    return fitting_store(kernel, gemm_store(kernel), kUsualSlots, slot_rows(tile, kernel.left_mn),
                         tile.consumers() * handed_over(tile, static_cast<int>(kernel.columns(tile.block_n))), arch);
  }
  void consumer(int c, const Operands& ab) {
    const int begin = add(numbered("Consumer", "begin", c, Scope::tile_begin));
    const int sums = tile_.consumer_rows() * tile_.sum_columns() / (arch_.warps_per_group * arch_.warp_size);
    // Consumers of one role store one behind the other, with the same registers.
    const bool alone = c == 0 || !gemm_rung(kernel_).one_role;
    int registers = sums + (!alone ? 0 : tile_.reads ? kFewRegisters : kContextRegisters);
    if (tile_.promotes()) registers = std::max(registers, sums + partial_registers(sums) + kLoopRegisters);
    if (tile_.promotes()) return promoted(c, begin, registers, ab);
    const int mma = product("Consumer", c, registers);
    const int store = end_of_tile(last(c), handed_over(tile_, static_cast<int>(kernel_.columns(tile_.block_n))));
    edge(begin, mma, 0, 0, false);
    reads(mma, ab);
    follows(mma);
    wait(mma, mma, groups_under_way());
    wait(mma, store);
  }
  /// The node that finishes sums.
  Node last(int c) const {
    return numbered("Consumer", kernel_.quantises() ? "quantise" : "store", c, Scope::tile_end);
  }
  /// Registers of an iteration's sums, of a thread with so many in all.
  int partial_registers(int sums) const { return tile_.takes_turns() ? sums / 2 : sums * tile_.partial_sums(); }
  /// Sums of an iteration in pieces of the columns: those of one are added while another multiplies, or before where
  /// they take turns.
  void promoted(int c, int begin, int registers, const Operands& ab) {
    const int pieces = pieces_of(tile_, kernel_);
    const auto body = [&](const char* name, int piece) {
      return std::string(name) + (pieces == 1 ? "" : piece == 0 ? "_low" : "_high");
    };
    std::vector<int> products;
    for (int piece = 0; piece < pieces; ++piece) {
      products.push_back(product("Consumer", c, piece == 0 ? registers : 0, body("mma", piece), pieces));
      edge(begin, products.back(), 0, 0, false);
      reads(products.back(), ab);
    }
    const int scales = kernel_.scales == Scales::tensor
                           ? -1
                           : bring_scales(c, tile_.takes_turns() ? products.front() : products.back());
    const int store = end_of_tile(last(c), handed_over(tile_, static_cast<int>(kernel_.columns(tile_.block_n))));
    for (int piece = 0; piece < pieces; ++piece) {
      Node n = numbered("Consumer", body("promote", piece), c);
      busy(n, cycles(sm90_promote_cycles(tile_, arch_) / pieces));
      n.reservations = {of("ALU", n.cycles)};
      const int mma = products[static_cast<std::size_t>(piece)], promote = add(std::move(n));
      wait(mma, promote);
      // All sums are added before the next product: ptxas (13.0) serialises products that are under way where a loop
      // turns, if their sums are read in it.
      if (!tile_.takes_turns())
        for (const int next : products) then(promote, next, 1);
      else if (piece == 0)
        then(promote, products.back());
      else
        then(promote, products.front(), 1);
      then(promote, promote, 1);
      then(promote, store);
      if (scales < 0) continue;
      then(scales, promote);
      then(promote, scales, 1);
      if (kernel_.scales == Scales::row) then(scales_, promote, 0, scales_ring_);
    }
  }
  /// Scales come into registers while products are under way; where each column has one, those of columns do not.
  int bring_scales(int c, int last_product) {
    Node n = numbered("Consumer", "bring_scales", c);
    busy(n, kBringScalesCycles);
    const int bring = add(std::move(n));
    then(scales_, bring, 0, scales_ring_);
    edge(last_product, bring, node(last_product).cycles, 0, false);
    return bring;
  }

  /// With two slots, the next copy goes where the group before has read. Looking for that group's end only after the
  /// next group is issued would hold the copy up, as the next group waits for its operands.
  int groups_under_way() const {
    const int slots = gemm_rung(kernel_).max_slots;
    const bool few = !GemmRingsBuilder::rings_fit(tile_, kUsualSlots, slot_rows(tile_, kernel_.left_mn), 0, arch_);
    return slots == 1 || slots == 2 || few ? 1 : 2;
  }
};

/// Slots of a K-major product whose d has 16 bits.
int ring_slots(const GemmTile& tile, bool d, const arch::Arch& arch) {
  return Builder::slots(tile, d ? tile.consumers() * handed_over(tile, tile.block_n) * size_of(DType::f16) : 0, arch);
}

std::vector<Candidate> candidates(const GemmKernel& kernel, const arch::Arch& arch, double iterations) {
  return {Builder(kernel, arch).build(iterations)};
}

}  // namespace

const GemmFamily& gemm_sm90() {
  static constexpr GemmFamily family = {
      .arch_family = "sm90",
      .needs = needs_of,
      .fits =
          [](const GemmTile& tile, const GemmKernel& kernel) {
            return fits(tile) && (!kernel.add_c || loads_addends(tile, kernel)) && scales_fit(tile, kernel.scales) &&
                   gate_fits(tile, kernel) && quantising_fits(tile, kernel) && turns_fit(tile, kernel);
          },
      .blocks_per_sm = [](const GemmTile& tile,
                          const arch::Arch& arch) { return fits(tile) && Builder::rings_fit(tile, arch) ? 1 : 0; },
      .copy_rates = copy_rates,
      .store_rates = store_rates,
      .iteration_cycles =
          [](const GemmTile& tile, const arch::Arch& arch, bool scaled) {
            return scaled && tile.promotes() ? sm90_scaled_iteration_cycles(tile, arch)
                                             : sm90_iteration_cycles(tile, arch);
          },
      .thread_sums =
          [](const GemmTile& tile, const arch::Arch& arch) {
            return static_cast<double>(tile.consumer_rows()) * tile.sum_columns() /
                   (arch.warps_per_group * arch.warp_size);
          },
      .ring_slots = ring_slots,
      .gates = true,
      .quantises = true,
      .rung_tile = [](const GemmRung& rung) { return rung.cluster > 1 ? place_of(kClusterTile) : place_of(kRungTile); },
      .consumers = [](const GemmTile& tile) { return tile.consumers(); },
      .candidates = candidates,
  };
  return family;
}

}  // namespace tj::ops
