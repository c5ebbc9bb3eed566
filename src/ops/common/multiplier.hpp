// Multipliers: who multiplies matrices, how a product is asked for and seen to be done, and for how long it holds the
// unit.
//
// | way | who asks | operands | sums | the end is seen by |
// |---|---|---|---|---|
// | warp, wave | every warp or wave, which are held | registers, loaded from shared memory | registers | the return |
// | warpgroup | a group of warps | shared memory; the left one also registers | registers | a wait on the group |
// | tensor_memory | one thread | shared memory; the left one also tensor memory | tensor memory | the rings' barriers |
//
// Decides by the arch's facts alone. Tiles, and what sums are for, are the graph's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "arch/arch.hpp"
#include "graph/graph.hpp"
#include "ops/common/machine.hpp"

namespace tj::ops {

/// Cycles of a node on each unit, alone on its SM.
struct Work {
  double matrix = 0, shared = 0, exp = 0, alu = 0;
  double longest() const { return std::max({matrix, shared, exp, alu}); }
};

/// Cycles of one that hardware does by itself: of whoever asks, of the unit, and until its sums are there.
struct Product {
  int issue = 0, held = 0, latency = 0;
};

class Multiplier {
 public:
  enum class Way : std::uint8_t { warp, wave, warpgroup, tensor_memory };
  static constexpr int kInstructionDepth = 16;  ///< of K, of one instruction on elements of 16 bits

  Multiplier(Way way, const arch::Arch& arch) : way_(way), arch_(arch) {}

  double flops_per_cycle(int element_bytes = 2) const {
    return arch_.fact(element_bytes == 1 ? "matrix_flops_per_cycle_8bit" : "matrix_flops_per_cycle");
  }

  // ---- warpgroup, tensor_memory ----
  /// depth: of K, of all instructions together; only those of tensor memory are asked for one by one.
  Product product(double flops, int depth, int element_bytes = 2) const {
    const int held = cycles(flops / flops_per_cycle(element_bytes)), drain = cycles(arch_.fact("matrix_drain_cycles"));
    if (way_ == Way::warpgroup) {
      // Groups follow each other without a gap: the unit is busy for the flops alone.
      const int issue = cycles(arch_.fact("matrix_group_cycles"));
      return {issue, held, issue + held + drain};
    }
    const int issue = cycles(arch_.fact("matrix_issue_cycles") * depth / kInstructionDepth);
    return {issue, std::max(issue, held), std::max(issue, held) + drain};
  }
  /// Sets all of a node but its reservation of the unit.
  void issue(graph::Node& node, const Product& product) const {
    node.async = way_ == Way::warpgroup ? graph::Async::matrix : graph::Async::unit;
    if (way_ == Way::tensor_memory) node.warps = 1;
    node.cycles = node.warp_cycles = product.issue;
    node.latency = product.latency;
  }

  // ---- warp, wave ----
  /// Lanes that hold each element of an operand.
  double operand_copies() const { return way_ == Way::wave ? arch_.fact("operand_copies") : 1; }
  /// loaded_bytes: that all warps together load of operands.
  Work work(double flops, double loaded_bytes, int element_bytes = 2) const {
    Work work;
    work.matrix = flops / flops_per_cycle(element_bytes);
    work.shared = loaded_bytes * operand_copies() / arch_.fact("shared_bytes_per_cycle");
    if (way_ == Way::wave && arch_.has_fact("matrix_lane_share"))
      work.alu = work.matrix * arch_.fact("matrix_lane_share");
    return work;
  }
  /// Words of a lane for its part of a 16 x 16 operand.
  int operand_words() const { return static_cast<int>(kOperandElements * operand_copies()) / 2 / arch_.warp_size; }
  /// Bytes between rows in shared memory, so that the operands which lanes load from neighbouring rows do not meet in a
  /// bank.
  int row_padding() const { return std::min(16, operand_words() * 4); }

 private:
  static constexpr int kOperandElements = 16 * 16;
  Way way_;
  const arch::Arch& arch_;
};

}  // namespace tj::ops
