// The graph of products whose operands come into a ring each, for multipliers that read shared memory by themselves:
// one for warpgroups and for tensor memory.
//
//   load_a, load_b -> mma.c            for each product c of a tile
//   mma.c (i) -> mma.c (i+1)           into the same sums, in the order of the unit
//
// Decides copies, products and what binds them. Where sums are, how they are read and how a tile ends is each family's
// (sm90.cpp, sm100.cpp). Invariant: a's ring is the first value, b's the second.
#pragma once

#include <algorithm>

#include "ops/common/machine.hpp"
#include "ops/gemm/builder.hpp"
#include "ops/gemm/warps.hpp"

namespace tj::ops {

class GemmRingsBuilder : protected GemmBuilder {
 public:
  /// Do rings of so many slots fit into a block's shared memory, with so many bytes beside them? slot_rows: that a slot
  /// of a has room for.
  static bool rings_fit(const GemmTile& tile, int slots, int slot_rows, std::int64_t beside, const arch::Arch& arch) {
    const std::int64_t row_bytes = std::int64_t{tile.block_k} * tile.element_bytes;
    const std::int64_t slices = tile.sliced() ? (tile.cluster_k - 1) * piece_bytes(tile) : 0;
    return slots * (slot_rows + tile.block_n) * row_bytes + kGemmBarrierBytes + beside + slices <=
           machine_of(arch).memory_bytes.at("SMEM");
  }
  /// Slots that a ring gets where a consumer's products of an iteration hold the unit for `held` cycles; 0: none fit.
  static int ring_slots(const GemmTile& tile, int slot_rows, std::int64_t beside, int held, const arch::Arch& arch) {
    int slots = most_slots(tile, held);
    while (slots > 0 && !rings_fit(tile, slots, slot_rows, beside, arch)) --slots;
    return slots;
  }
  /// The way of d out of the registers: `store`, where the `elements` of d that pass through shared memory leave room
  /// for the rings, else straight from registers.
  static int fitting_store(const GemmKernel& kernel, int store, int slots, int slot_rows, int elements,
                           const arch::Arch& arch) {
    const std::int64_t bytes = std::int64_t{elements} * size_of(kernel.out);
    return rings_fit(tile_of(kernel), slots, slot_rows, bytes, arch) ? store : gemm::kDirect;
  }

 protected:
  /// product_rows: for which a product holds the unit.
  GemmRingsBuilder(const GemmKernel& kernel, int store, const GemmFamily& family, Multiplier::Way way, int product_rows,
                   const arch::Arch& arch)
      : GemmBuilder(kernel, store, family, arch),
        multiplier_(way, arch),
        product_rows_(product_rows),
        product_(product_of(tile_.sum_columns())),
        rates_(family.copy_rates(arch)) {}

  /// A ring has at least so many slots. Rows that threads read come two iterations at a time.
  static int least_slots(const GemmTile& tile) { return tile.reads ? 2 * kLeastSlots : kLeastSlots; }
  struct Operands {
    int a, b;
  };
  /// slot_rows: that a slot of a has room for; of a pair of blocks, each brings half of b's columns.
  Operands operands(int slot_rows) {
    const int columns = graph_.pairs ? tile_.block_n / 2 : tile_.block_n;
    unit_text(slot_rows, columns);
    if (gemm_rung(kernel_).thread_copies)
      return {read("read_a", "a", tile_.block_m), read("read_b", "b", tile_.block_n)};
    if (tile_.reads) {
      graph_.includes.emplace_back("ops/gemm/rows.cuh");
      constant("kRightWarps", kRightWarps);
    }
    if (tile_.reads_left()) {
      constant("kLeftWarps", kLeftWarps);
      return {read_rows("read_a", "a", slot_rows, kLeftWarps), read_rows("read_b", "b", columns, kRightWarps)};
    }
    launch_.skips = !graph_.pairs;
    if (launch_.skips) flag("kSkips", true);
    const int a = load("load_a", "a", tile_.left_rows(kernel_.left_mn), slot_rows, {tile_.cluster_n, 1});
    if (tile_.reads) return {a, read_rows("read_b", "b", columns, kRightWarps)};
    const int sharers = graph_.pairs ? 1 : tile_.cluster_m;
    return {a, load("load_b", "b", columns, columns, {sharers, sharers > 1 ? tile_.cluster_n : 1})};
  }
  /// The copies of an iteration's scales of blocks, those of rows and of columns in one slot.
  int load_scales() {
    const auto bytes = [&](int count, bool k) {
      return 4 * count * (k ? gemm::kScalesTogether : kernel_.packed_scales ? 1 : tile_.partial_sums());
    };
    // A gate's halves of the columns have a box each.
    const int boxes = kernel_.gated() ? 2 : 1, columns = tile_.block_n / boxes;
    const int left = bytes(tile_.block_m + gemm_rows_before(kernel_), kernel_.left_scales_k),
              right = kernel_.scales == Scales::row ? bytes(columns, kernel_.right_scales_k)
                                                    : bytes(gemm::scaled_blocks(columns), true);
    value("scales", gemm::scale_place(left) + static_cast<unsigned>(boxes) * gemm::scale_place(right), Scope::iteration,
          kLeastSlots, kMostSlots, gemm::kSwizzleBytes);
    last_value().copied_bytes = left + boxes * right;
    Node n = single("Loader", "load_scales", 1);
    bring(n, left + boxes * right, 1);
    n.warp_cycles *= 1 + boxes;  // so many copies
    if (tile_.blocks() > 1 || kernel_.groups == Groups::depths) n.registers = kScaleRegisters;
    return add(std::move(n));
  }
  /// A product of all columns, or of one of `pieces` parts of them.
  int product(const char* context, int c, int registers = 0, const std::string& body = "mma", int pieces = 1) {
    Node n = numbered(context, body, c);
    multiply(n, multiplier_, pieces == 1 ? product_ : product_of(tile_.sum_columns() / pieces));
    n.registers = registers;
    return add(std::move(n));
  }
  void reads(int mma, const Operands& operands) {
    then(operands.a, mma, 0, kRingA);
    then(operands.b, mma, 0, kRingB);
  }
  /// The next one may be asked for as soon as the unit is free.
  void follows(int mma) { edge(mma, mma, product_.held, 1, false); }

 private:
  static constexpr int kRingA = 0, kRingB = 1;
  // A power of two: a filling's slot and phase are a mask and a shift then, in the threads that copy and that multiply.
  // Of ten slots they were a multiplication and more. Tiles whose iterations are short have room for eight.
  static constexpr int kMostSlots = 8, kFewSlots = 4;
  static constexpr int kLongIteration = 512;  // cycles
  // In 128x192x128c1x2, 24 spill 20 bytes, with groups along K 4 (nvcc 13.0).
  static constexpr int kScaleRegisters = 40;

  /// Warps of a role that reads rows wherever they begin. Eight read b's rows of an iteration, so that two iterations
  /// are under way: one left memory idle while its words were put in place.
  static constexpr int kLeftWarps = 8, kRightWarps = 16;
  int read_rows(const char* name, const char* ring, int rows, int warps) {
    const std::int64_t bytes = std::int64_t{rows} * tile_.block_k * tile_.element_bytes;
    value(ring, bytes, Scope::iteration, least_slots(tile_), kMostSlots);
    Node n = single("RowReader", name, warps);
    busy(n, cycles(engine_.arrival_cycles(static_cast<double>(bytes))));
    return add(std::move(n));
  }

  /// Blocks of a cluster that bring a part each, and how far their ranks are apart.
  struct Sharers {
    int count, stride;
  };
  /// Where sums are promoted, nothing runs beside the search for the next slot. Four long iterations are time enough
  /// for copies.
  static int most_slots(const GemmTile& tile, int held) {
    return tile.promotes() && tile.consumers() * held >= kLongIteration ? kFewSlots : kMostSlots;
  }
  /// A copy of `rows` rows into a ring of its own with room for `slot_rows`.
  int load(const char* name, const char* ring, int rows, int slot_rows, const Sharers& sharers) {
    const std::int64_t row_bytes = std::int64_t{tile_.block_k} * tile_.element_bytes, bytes = rows * row_bytes;
    value(ring, slot_rows * row_bytes, Scope::iteration, kLeastSlots, most_slots(tile_, product_.held));
    if (rows < slot_rows) last_value().copied_bytes = bytes;
    last_value().shared_by = sharers.count;
    last_value().shared_stride = sharers.stride;
    Node n = single("Loader", name, 1);
    bring(n, bytes, sharers.count);
    return add(std::move(n));
  }
  /// The cost of copies of so many bytes, which `sharers` blocks bring together.
  void bring(Node& n, std::int64_t bytes, int sharers) {
    engine_.issue(n, 1);
    const double kb = static_cast<double>(bytes) / 1024;
    // Other SMs copy at the same time.
    const int loaded = cycles(kb * rates_.loaded_cycles_per_kb * (sharers > 1 ? rates_.multicast_factor : 1));
    n.reservations = {of("TMA", loaded)};
    // A role whose thread issues both operands' copies may be what a short iteration waits for.
    n.warp_cycles = cycles(sharers > 1 ? rates_.shared_issue_cycles : rates_.issue_cycles);
    n.latency = std::max(loaded, cycles(kb * rates_.cycles_per_kb) + cycles(rates_.latency_cycles));
  }

 protected:
  Product product_of(int columns) const {
    return multiplier_.product(2.0 * product_rows_ * columns * tile_.block_k, tile_.block_k, tile_.element_bytes);
  }
  const Multiplier multiplier_;
  const int product_rows_;
  const Product product_;

 private:
  const GemmCopyRates rates_;
  const Copier engine_{Copier::Way::engine, arch_};
};

}  // namespace tj::ops
