// The graph of attention where a warp's or a wave's instruction multiplies: one for both families, which differ in who
// copies.
//
//   keys -> qk -> row_max -> pv <- values     whatever hands on a block of them: a copy into a ring, or a put
//   pv (i) -> qk (i+1)                        one register copy of the scores, which become weights where pv needs them
//   begin, take_q or load_q                   tile begin, once, where queries stay in registers
//   weigh_j -> pv_j                           in the place of pv, for each piece j of the keys
//   store                                     tile end
//
// Decides the role that computes, its costs and its registers. Copies, and how far ahead of their use they go out, are
// the families' (sm80.cpp, amd.cpp). Invariant: one role does it all.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ops/fmha/builder.hpp"

namespace tj::ops {

/// Rows of queries that one matrix instruction of a warp or a wave takes.
inline constexpr int kFmhaMatrixRows = 16;

struct FmhaWarpTile {
  int block_n = 64;               ///< keys an iteration
  int warps = 4, row_blocks = 2;  ///< the role's warps, and how many times sixteen rows each of them has
  int blocks_per_sm = 1;
  bool queries_in_registers = true;  ///< for the whole tile; else they are loaded from shared memory in every iteration
  bool values_over_queries = false;  ///< values lie in the place of queries, once these are in registers
  int rows() const { return warps * row_blocks * kFmhaMatrixRows; }
};

class FmhaWarpBuilder : protected FmhaBuilder {
 protected:
  /// conversions: the fact that says how many weights are rounded a cycle.
  FmhaWarpBuilder(const FmhaKernel& config, const FmhaWarpTile& tile, Multiplier::Way way, const char* conversions,
                  const arch::Arch& arch)
      : FmhaBuilder(config, arch, tile.rows(), tile.block_n, tile.blocks_per_sm),
        tile_(tile),
        multiplier_(way, arch),
        conversions_(conversions) {
    graph_.walk = graph::Walk::one_tile;
    constant("kWarps", tile_.warps);
    constant("kRowBlocks", tile_.row_blocks);
  }

  double scores() const { return static_cast<double>(rows_) * keys_; }
  double copied_keys() const { return static_cast<double>(block_bytes()); }
  double copied_values() const { return static_cast<double>(value_block_bytes()); }
  /// Every warp loads all keys, and of queries in shared memory its own rows.
  Work product(bool left_from_shared = false) const {
    const double queries = left_from_shared ? static_cast<double>(row_bytes()) * rows_ : 0;
    return multiplier_.work(2.0 * scores() * depth(), copied_keys() * tile_.warps + queries);
  }
  /// What a feature makes of each score, and its maximum; of the correction, which is skipped unless a maximum moved
  /// far, a quarter.
  Work maximum() const {
    Work work;
    work.alu = scores() / arch_.fact("minmax_per_cycle") +
               (0.25 * rows_ * outputs() + scores() * beside_.adds) / arch_.fact("f32_per_cycle");
    work.exp = scores() * beside_.exp / arch_.fact("exp2_per_cycle");
    return work;
  }
  /// Exponentials, so many operations and half a conversion for each score, beside the product. The usual two are a
  /// multiply-add and an addition.
  Work weighted_product(double operations = 2) const {
    Work work = multiplier_.work(2.0 * scores() * outputs(), copied_values() * tile_.warps);
    work.exp = scores() / arch_.fact("exp2_per_cycle");
    work.alu += scores() * (operations / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact(conversions_));
    return work;
  }

  /// Words of a thread: sixteen rows times so many columns, for each of its row blocks.
  int words(int columns) const { return tile_.row_blocks * kFmhaMatrixRows * columns / arch_.warp_size; }

  /// Bodies under the names that a kernel has them by; null: it has none of that.
  struct Bodies {
    const char *queries = nullptr, *keys = nullptr, *qk = "qk", *row_max = "row_max", *pv = "pv", *store = "store";
  };
  struct Chain {
    int begin = -1, queries = -1, keys = -1, qk = -1, row_max = -1, store = -1;
    std::vector<int> pv;     ///< of the pieces in their order, or one for all keys
    std::vector<int> weigh;  ///< of the pieces; none where pv does it
  };
  /// The nodes of the role that computes, and what it does before its loop. keys: the work of the body that prepares
  /// them.
  Chain chain(const Bodies& bodies, const Work& qk, const Work& pv, int context_registers, const Work& keys = {}) {
    Chain c;
    c.begin = compute("begin", Scope::tile_begin);
    if (bodies.queries != nullptr) c.queries = compute(bodies.queries, Scope::tile_begin);
    if (bodies.keys != nullptr) c.keys = compute(bodies.keys, Scope::iteration, keys);
    c.qk = compute(bodies.qk, Scope::iteration, qk);
    c.row_max = compute(bodies.row_max, Scope::iteration, maximum());
    if (config_.pieces == 0)
      c.pv = {compute(bodies.pv, Scope::iteration, pv)};
    else
      for (int first = 0; first < keys_; first += config_.pieces) piece(c, first, pv);
    c.store = compute(bodies.store, Scope::tile_end);
    masks(c.row_max);
    // Queries in registers are an operand, of two elements a word.
    const int queries = c.queries < 0 ? 0 : static_cast<int>(words(depth()) * multiplier_.operand_copies()) / 2;
    node(c.qk).registers = words(keys_);
    node(c.pv.back()).registers =
        words(outputs()) + queries + context_registers + fmha_feature_registers(config_, arch_);
    edge(c.begin, c.qk, 0, 0, false);
    if (c.queries >= 0) edge(c.queries, c.qk, 0, 0, false);
    return c;
  }
  /// The way round from scores to scores.
  void rounds(const Chain& c) {
    then(c.qk, c.row_max);
    if (!c.weigh.empty()) return rounds_of_pieces(c);
    const int pv = c.pv.front();
    then(c.qk, pv);
    then(c.row_max, pv);
    then(pv, c.row_max, 1);
    then(pv, c.qk, 1);
    then(pv, pv, 1);
    then(pv, c.store);
  }

  const FmhaWarpTile tile_;
  const Multiplier multiplier_;

 private:
  int compute(const char* body, Scope scope, const Work& work = {}) {
    Node n = numbered("Consumer", body, 0, scope);
    n.warps = tile_.warps;
    if (scope == Scope::iteration) hold(n, work);
    return add(std::move(n));
  }

  /// The exponentials and the product of the piece that begins with key `first`. Their instructions leave the warp as
  /// they are issued: units do the work while it goes on. Rounded, the cycles of all pieces add up to those of one
  /// body.
  void piece(Chain& c, int first, const Work& all) {
    const int end = std::min(first + config_.pieces, keys_);
    const auto part = [&](double of_all) -> double {
      return cycles(of_all * end / keys_) - cycles(of_all * first / keys_);
    };
    const auto add_issued = [&](const char* body, double instructions, const Work& work) {
      const int index = compute((body + std::to_string(c.pv.size())).c_str(), Scope::iteration, work);
      node(index).cycles = node(index).warp_cycles = std::max(1, cycles(part(instructions / kIssued)));
      return index;
    };
    // Instructions of all warps. A score takes a multiply-add, a power, an addition and half a conversion.
    const double of_weights = 3.5 * scores() / arch_.warp_size,
                 of_products =
                     2.0 * scores() * outputs() / kMatrixFlops + copied_values() * tile_.warps / kMatricesBytes;
    const int weigh = add_issued("weigh_", of_weights, {.exp = part(all.exp), .alu = part(all.alu)});
    node(weigh).registers = words(end - first) / 2;
    c.weigh.push_back(weigh);
    c.pv.push_back(add_issued("pv_", of_products, {.matrix = part(all.matrix), .shared = part(all.shared)}));
  }
  /// Scores are free for the next iteration when the last weights are made, each piece's weights when their product has
  /// begun. Sums and output are added to in the order of the pieces.
  void rounds_of_pieces(const Chain& c) {
    const auto issued = [&](int src, int dst, int distance = 0) { edge(src, dst, node(src).cycles, distance, false); };
    for (std::size_t j = 0; j < c.pv.size(); ++j) {
      then(c.qk, c.weigh[j]);
      then(c.row_max, c.weigh[j]);
      then(c.weigh[j], c.pv[j]);
      issued(c.pv[j], c.weigh[j], 1);
      if (j == 0) continue;
      issued(c.weigh[j - 1], c.weigh[j]);
      issued(c.pv[j - 1], c.pv[j]);
    }
    const int weigh = c.weigh.back(), pv = c.pv.back();
    issued(weigh, c.qk, 1);
    then(weigh, c.row_max, 1);
    then(pv, c.row_max, 1);
    issued(pv, c.pv.front(), 1);
    then(pv, pv, 1);
    then(weigh, c.store);
    then(pv, c.store);
  }

  /// Instructions that the warps of an SM issue in a cycle. Source: CUDA C++ Programming Guide 13.0, compute
  /// capabilities 8.x to 12.x: four schedulers, one instruction each.
  static constexpr double kIssued = 4;
  static constexpr double kMatrixFlops = 2.0 * 16 * 8 * 16, kMatricesBytes = 4 * 8 * 16;  ///< of a warp's instruction
  const char* conversions_;
  const FmhaScoreWork beside_ = fmha_score_work(config_, arch_);
};

}  // namespace tj::ops
